package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/oci/ocitest"
	"tandem.internal/shared/publisher/publishertest"
)

// TestReleaseOfImages: an image is released as a service, with its files signed, and one of a layer as that; what nodes
// would not run is refused before anything is sent.
func TestReleaseOfImages(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	b.temporary()
	l := ocitest.New(t)
	layers := []ocitest.Layer{l.Layer(ocitest.Tar(t, ocitest.File("bin/sensor", "program"))),
		l.Layer(ocitest.Tar(t, ocitest.File("etc/conf", "conf")))}
	config := v1.ImageConfig{Entrypoint: []string{"/bin/sensor"}, User: "1000:50", StopSignal: "SIGQUIT"}
	l.Index(l.Manifest(ocitest.Image(config), layers, nil))
	root, single := ocitest.New(t), ocitest.New(t)
	config.User = ""
	one := []ocitest.Layer{root.Layer(ocitest.Tar(t, ocitest.File("a", "a")))}
	root.Index(root.Manifest(ocitest.Image(config), one, nil))
	single.Index(single.Manifest(ocitest.Image(none), []ocitest.Layer{single.Layer(ocitest.Tar(t,
		ocitest.File("b", "b")))}, nil))
	const amd = `"platforms":[{"architecture":"amd64","os":"linux"}]`
	for name, text := range map[string]string{
		"sensor.json": `{"codename":"sensor","type":"service","version":"1.4.0",` + amd + `}`,
		"sealed.json": `{"codename":"sensor","type":"service","version":"1.4.1",` + amd + `}`,
		"env.json":    `{"codename":"sensor","type":"service","version":"1.4.0",` + amd + `,"env":{"LEVEL":"1"}}`,
		"any.json":    `{"codename":"sensor","type":"service","version":"1.4.0"}`,
		"arm.json": `{"codename":"sensor","type":"service","version":"1.4.0",` +
			`"platforms":[{"architecture":"arm64"}]}`,
		"layer.json": `{"codename":"python","type":"layer","version":"3.12.4",` + amd + `}`,
		"part.json":  `{"codename":"panel","type":"component","version":"1.0.0",` + amd + `}`,
	} {
		b.write(name, text)
	}
	run := func(want string, exit int, args string) string {
		t.Helper()
		args = strings.NewReplacer("IMAGE", l.Dir, "ROOT", root.Dir, "SINGLE", single.Dir, "DIR", b.dir).Replace(args)
		out, errs, status := b.run("", strings.Fields(args)...)
		if status != exit || !strings.Contains(out+errs, want) {
			t.Errorf("%s: %d %s%s\nwant %d %s", args, status, out, errs, exit, want)
		}
		return out
	}
	run("created", 0, "item create DIR/sensor.json")
	run("created", 0, "item create DIR/layer.json")
	run("no platforms, and an image is for some: this one for linux/amd64", 2,
		"item release DIR/any.json IMAGE --image")
	run("the image has no arm64", 2, "item release DIR/arm.json IMAGE --image")
	run("runs as user 0", 2, "item release DIR/sensor.json ROOT --image")
	run("UID or UID:GID", 2, "item release DIR/sensor.json ROOT --image --user root")
	run("runs as user 0", 2, "item release DIR/sensor.json IMAGE --image --user 0:1000")
	run("--user is of an image", 2, "item release DIR/sensor.json IMAGE --user 1000")
	run("one PATH", 2, "item release DIR/sensor.json IMAGE IMAGE --image")
	run("not of images", 2, "item release DIR/sensor.json IMAGE --image --tree")
	run("not of a component", 2, "item release DIR/part.json IMAGE --image")
	const digest = "sha256:abababababababababababababababababababababababababababababababab"
	run("--variable is of an image", 2, "item release DIR/sensor.json IMAGE --variable A")
	run("--under is of an image", 2, "item release DIR/sensor.json IMAGE --under "+digest)
	run("are of a service", 2, "item release DIR/layer.json SINGLE --image --variable A")
	run("no name of a variable", 2, "item release DIR/sensor.json IMAGE --image --variable A=b")
	run("is no digest", 2, "item release DIR/sensor.json IMAGE --image --under python")
	run("are of a service", 2, "item release DIR/layer.json SINGLE --image --user 1000")
	run("one layer, not 2", 2, "item release DIR/layer.json IMAGE --image")
	run("no OCI image layout", 2, "item release DIR/sensor.json IMAGE/blobs --image")

	run("", 0, "item release DIR/sensor.json IMAGE --image --variable LEVEL --under "+digest+" --pack DIR/more")
	if more := b.imageIn("more"); !strings.Contains(more, `"layers":["`+digest+`","sha256:`) ||
		!strings.Contains(more, `"variables":["LEVEL"]`) {
		t.Errorf("%s", more)
	}
	run("its metadata sets LEVEL, and no", 0, "item release DIR/env.json IMAGE --image --pack DIR/env")
	packed := filepath.Join(b.dir, "packed")
	out := run(packed+"/", 0, "item release DIR/sensor.json IMAGE --image --pack DIR/packed")
	files, err := os.ReadDir(packed)
	if err != nil || len(files) != 3 || strings.Count(out, "\n") != 3 {
		t.Fatalf("%v %v %s", files, err, out)
	}
	run("is missing", 2, "item release DIR/sensor.json IMAGE --image --signatures DIR/packed")
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(packed, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b.write("packed/"+f.Name()+".minisig", publishertest.New(1).SignAs(text, "sensor 1.4.0"))
	}
	if text := b.imageIn("packed"); !strings.Contains(text, `"uid":1000,"gid":50,"stopSignal":"SIGQUIT"`) ||
		strings.Contains(text, "variables") {
		t.Errorf("%s", text)
	}
	run("lets nodes use them outside of containers", 0,
		"item release DIR/sensor.json IMAGE --image --signatures DIR/packed --pack DIR/again")
	run("service sensor 1.4.0 is released, and ready", 0,
		"item release DIR/sensor.json IMAGE --image --signatures DIR/packed --ready")
	run("there already, just so", 0, "item release DIR/sensor.json IMAGE --image --signatures DIR/packed --ready")
	run("another content", 1, "item release DIR/sensor.json ROOT --image --user 1000")
	run("layer python 3.12.4 is released", 0, "item release DIR/layer.json SINGLE --image")
	v, err := b.unit.Artefacts().List(t.Context())
	if err != nil || len(v.Artefacts) != 4 {
		t.Errorf("%+v %v", v, err)
	}
	run("say --signatures DIR", 2, "item release DIR/sealed.json IMAGE --image --encrypted")
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(packed, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b.write("packed/"+f.Name()+".minisig", publishertest.New(1).SignAs(text, "sensor 1.4.1 for:container"))
	}
	const sealed = "item release DIR/sealed.json IMAGE --image --signatures DIR/packed --encrypted"
	run(".age: tandem item encrypt", 2, sealed)
	for _, f := range files {
		b.write("packed/"+f.Name()+".age", "age-encryption.org/v1\n"+f.Name())
	}
	run("signed, encrypted", 0, sealed)
	again := strings.NewReplacer("DIR", b.dir, "IMAGE", l.Dir).Replace(sealed)
	if _, errs, _ := b.run("", strings.Fields(again)...); errs != "" {
		t.Error(errs)
	}
	v, err = b.unit.Artefacts().List(t.Context())
	if err != nil || len(v.Artefacts) != 7 {
		t.Errorf("%+v %v", v, err)
	}
	run(`"form":"tree"`, 0, "item show python --json")
	run(`"form":"image"`, 0, "item show sensor --json")
	run("436 B  yes", 0, "item list")
}

// imageIn is the configuration among files that were packed; "": there is none.
func (b *bench) imageIn(dir string) string {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, dir, "*"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			b.t.Fatal(err)
		}
		if strings.Contains(string(text), `"args"`) {
			return string(text)
		}
	}
	return ""
}
