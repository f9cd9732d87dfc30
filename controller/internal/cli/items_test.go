package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

// tree makes a directory with a program, a file, a link and an empty directory.
func (b *bench) tree(name string) string {
	b.t.Helper()
	dir := filepath.Join(b.dir, name)
	for _, sub := range []string{"bin", "empty"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			b.t.Fatal(err)
		}
	}
	for file, mode := range map[string]os.FileMode{"bin/sensor": 0o700, "read.me": 0o600, "iss_hook_start": 0o700} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("# "+file+"\n"), mode); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := os.Symlink("../read.me", filepath.Join(dir, "bin/about")); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// ageKey is the public key of nobody.
const ageKey = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

// TestItems runs the commands about update items and subjects, one after the other on one unit, for people and as JSON.
func TestItems(t *testing.T) {
	for _, suffix := range []string{"", "-json"} {
		b := newBench(t, apitest.StartSample(t))
		b.tree("sensor")
		b.write("one", "one")
		b.write("two", "two!")
		b.write("three", "three")
		b.write("three.age", "age-encryption.org/v1\n-> X25519 what only a node opens\n")
		b.write("two.minisig", publishertest.New(1).SignAs([]byte("two!"), "camera 1.0.0"))
		b.write("wrong.minisig", publishertest.New(1).SignAs([]byte("one"), "camera 0.9.0"))
		b.write("wrong.minisig.age", "no such file")
		b.write("sensor.json", `{"codename":"sensor","type":"service","version":"1.4.0","owner":"line-team",`+
			`"description":"Reads a sensor.","dependencies":[{"type":"layer","codename":"python"}]}`)
		b.write("layer.json", `{"codename":"sensor","type":"layer"}`)
		b.write("camera.json", `{"codename":"camera","type":"component","version":"1.0.0","platforms":[`+
			`{"architecture":"amd64","os":"linux"},{"architecture":"arm64","variant":"v8"}]}`)
		b.write("secret.json", `{"codename":"camera","type":"component","version":"1.1.0"}`)
		b.write("next.json", `{"codename":"sensor","type":"service","version":"1.5.0"}`)
		b.write("bad.json", `{"codename":"sensor","type":"servise"}`)
		b.write("line-4.json", `{"codename":"line-4","type":"group","priority":2,"nodes":["node-1"],`+
			`"items":[{"type":"service","codename":"sensor","versions":"^1.0.0"}]}`)
		b.write("all.json", `{"codename":"all","type":"group","reported":true}`)
		b.write("type.json", `{"codename":"mainType","type":"nodeType"}`)
		b.write("other.json", `{"codename":"other","type":"grup"}`)
		for _, c := range []struct{ name, args string }{
			{"list-none", "item list"},
			{"verify", "item verify DIR/sensor.json"},
			{"verify-bad", "item verify DIR/bad.json"},
			{"release-early", "item release DIR/sensor.json DIR/sensor"},
			{"create", "item create DIR/sensor.json"},
			{"create-again", "item create DIR/sensor.json"},
			{"verify-used", "item verify DIR/sensor.json"},
			{"create-layer", "item create DIR/layer.json"},
			{"create-camera", "item create DIR/camera.json"},
			{"release-nothing", "item release DIR/sensor.json"},
			{"release-no-file", "item release DIR/sensor.json DIR/none"},
			{"release-no-version", "item release DIR/layer.json DIR/one"},
			{"release", "item release DIR/sensor.json DIR/sensor"},
			{"release-again", "item release DIR/sensor.json DIR/sensor"},
			{"release-other", "item release DIR/sensor.json DIR/one"},
			{"release-signed-as-another", "item release DIR/camera.json DIR/one --signature DIR/wrong.minisig"},
			{"release-not-named", "item release DIR/camera.json DIR/one DIR/two"},
			{"release-misspelt", "item release DIR/camera.json amd46=DIR/one arm64=DIR/two"},
			{"release-one-platform", "item release DIR/camera.json arm64/v8=DIR/one"},
			{"release-platforms", "item release DIR/camera.json amd64=DIR/one arm64/v8=DIR/two --ready"},
			{"encrypt-for-nobody", "item encrypt DIR/three"},
			{"encrypt-bad-key", "item encrypt DIR/three --to age1abc"},
			{"encrypt-secret-key", "item encrypt DIR/three --to AGE-SECRET-KEY-1ABC"},
			{"encrypt-again", "item encrypt DIR/three --to " + ageKey},
			{"release-not-encrypted", "item release DIR/next.json DIR/one --encrypted"},
			{"release-encrypted-tree", "item release DIR/next.json DIR/sensor --encrypted"},
			{"release-encrypted-otherwise", "item release DIR/next.json DIR/wrong.minisig --encrypted"},
			{"release-encrypted-no-signature",
				"item release DIR/secret.json DIR/three --encrypted --signature DIR/none.minisig"},
			{"release-encrypted", "item release DIR/secret.json DIR/three --encrypted"},
			{"show-encrypted", "item show camera 1.1.0"},
			{"release-next", "item release DIR/next.json DIR/one"},
			{"list", "item list"},
			{"list-ready", "item list --state ready"},
			{"list-layers", "item list --type layer"},
			{"list-bad", "item list --state done"},
			{"show", "item show service/sensor"},
			{"show-layer", "item show layer/sensor"},
			{"show-version", "item show camera 1.0.0"},
			{"show-no-version", "item show camera 1.0.1"},
			{"show-two", "item show sensor"},
			{"show-near", "item show camra"},
			{"show-near-type", "item show servise/sensor"},
			{"show-near-name", "item show service/senser"},
			{"show-no-name", "item show a/b/c"},
			{"artefacts", "artefact list"},
			{"deprecate-early", "item deprecate service/sensor 1.4.0"},
			{"ready", "item ready service/sensor 1.4.0"},
			{"ready-again", "item ready service/sensor 1.4.0"},
			{"ready-no-version", "item ready service/sensor"},
			{"ready-bad-version", "item ready service/sensor 1.4"},
			{"remove-ready", "item remove service/sensor 1.4.0"},
			{"deprecate", "item deprecate service/sensor 1.4.0"},
			{"remove-version", "item remove service/sensor 1.4.0"},
			{"remove-with-versions", "item remove service/sensor"},
			{"remove-next", "item remove service/sensor 1.5.0"},
			{"remove", "item remove service/sensor"},
			{"history", "item history service/sensor"},
			{"history-camera", "item history camera"},
			{"history-none", "item history layer/nothing"},

			{"subject-list-none", "subject list"},
			{"subject-apply", "subject apply DIR/line-4.json DIR/all.json DIR/type.json"},
			{"subject-apply-again", "subject apply DIR/all.json"},
			{"subject-apply-bad", "subject apply DIR/line-4.json DIR/other.json"},
			{"subject-apply-nothing", "subject apply"},
			{"subject-list", "subject list"},
			{"subject-attach", "subject attach line-4 --node node-2 --item component/camera@~1.0.0 --label indoor"},
			{"subject-attach-again", "subject attach line-4 --item service/sensor@>=1.0.0 --instances 2 --pre-release"},
			{"subject-attach-same", "subject attach line-4 --node node-2"},
			{"subject-attach-unit", "subject attach all --node node-2"},
			{"subject-attach-layer", "subject attach line-4 --item layer/sensor"},
			{"subject-attach-untyped", "subject attach line-4 --item sensor"},
			{"subject-attach-range", "subject attach line-4 --item service/sensor@1.0.0"},
			{"subject-attach-many", "subject attach line-4 --item service/sensor --instances 1001"},
			{"subject-attach-nothing", "subject attach line-4"},
			{"subject-show", "subject show line-4"},
			{"subject-show-near", "subject show line4"},
			{"subject-detach", "subject detach line-4 --item component/camera --node node-1"},
			{"subject-detach-last", "subject detach line-4 --node node-2"},
			{"subject-detach-near", "subject detach line-4 --item service/senser"},
			{"subject-detach-node", "subject detach line-4 --node node-3"},
			{"subject-detach-range", "subject detach line-4 --item service/sensor@1"},
			{"subject-remove", "subject remove all"},
			{"subject-remove-again", "subject remove all"},
			{"subject-history", "subject history line-4"},
			{"subject-history-removed", "subject history all"},
			{"subject-history-none", "subject history a/b"},
			{"events", "events --type settings --limit 30"},
		} {
			args := strings.Fields(strings.ReplaceAll(c.args, "DIR", b.dir))
			if suffix != "" {
				args = append(args, "--json")
			}
			golden(t, "item-unit-"+c.name+suffix, b.transcript("", args...))
		}
	}
}

// TestPackedTree: the same directory is the same bytes, whoever made it and when; what is in it is there, without
// owners and times.
func TestPackedTree(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	first, second := b.tree("first"), b.tree("second")
	if err := os.Chtimes(filepath.Join(second, "read.me"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(second, "bin/sensor"), 0o777); err != nil {
		t.Fatal(err)
	}
	var packed [2][]byte
	for i, dir := range []string{first, second} {
		out := filepath.Join(b.dir, filepath.Base(dir)+".tar.gz")
		if _, errs, exit := b.run("", "item", "pack", dir, out); exit != 0 {
			t.Fatal(errs)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		packed[i] = text
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("two directories with the same files are packed in two ways")
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed[0]))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname+h.Gname != "" || h.ModTime.Unix() != 0 || h.Format != tar.FormatUSTAR {
			t.Errorf("%+v", h)
		}
		got = append(got, strings.TrimSpace(h.Name+" "+os.FileMode(h.Mode).String()+" "+h.Linkname+string(text)))
	}
	want := "bin/ -rwxr-xr-x, bin/about -rwxr-xr-x ../read.me, bin/sensor -rwxr-xr-x # bin/sensor, " +
		"empty/ -rwxr-xr-x, iss_hook_start -rwxr-xr-x # iss_hook_start, read.me -rw-r--r-- # read.me"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if _, errs, exit := b.run("", "item", "pack", first, filepath.Join(b.dir, "first.tar.gz")); exit != exitUsage ||
		!strings.Contains(errs, "exists") {
		t.Errorf("%d %s", exit, errs)
	}
}

// TestPackRefuses: links that lead out, what is no file, and names that ustar does not have are refused; nothing is
// left behind.
func TestPackRefuses(t *testing.T) {
	link := func(to string) func(string) error {
		return func(dir string) error { return os.Symlink(to, filepath.Join(dir, "bin/link")) }
	}
	fifo := func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600) }
	file := func(name string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }
	}
	for name, c := range map[string]struct {
		add  func(dir string) error
		want string
	}{
		"absolute":  {link("/etc/passwd"), "leads to /etc/passwd"},
		"out":       {link("../../passwd"), "leads to ../../passwd"},
		"behind":    {link("a/../../../passwd"), "leads to a/../../../passwd"},
		"winding":   {link("about/../read.me"), "leads to about/../read.me"},
		"not ASCII": {file("übung"), "USTAR cannot encode"},
		"long":      {file(strings.Repeat("a", 101)), "USTAR cannot encode"},
		"no file":   {fifo, "is neither a"},
	} {
		b := newBench(t, apitest.StartSample(t))
		dir := b.tree("tree")
		if err := c.add(dir); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(b.dir, "out.tar.gz")
		if _, errs, exit := b.run("", "item", "pack", dir, out); exit != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", name, exit, errs)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := newBench(t, apitest.StartSample(t))
	out := filepath.Join(b.dir, "out.tar.gz")
	if _, errs, exit := b.run("", "item", "pack", b.write("plain", "plain"), out); exit != exitUsage ||
		!strings.Contains(errs, "it is no directory") {
		t.Errorf("a file: %d %s", exit, errs)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestReleasePacked: what pack wrote is released as a directory, with the signature beside it, and is the same content
// as the directory but for that; what pack did not write is refused.
func TestReleasePacked(t *testing.T) {
	b := newBench(t, apitest.StartSample(t))
	dir, out := b.tree("tree"), filepath.Join(b.dir, "sensor.tar.gz")
	meta := b.write("sensor.json", `{"codename":"sensor","type":"service","version":"1.0.0"}`)
	plain := b.write("plain", "plain")
	var evil bytes.Buffer
	zip := gzip.NewWriter(&evil)
	w := tar.NewWriter(zip)
	if err := w.WriteHeader(&tar.Header{Name: "../passwd", Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	out2 := b.write("evil.tar.gz", evil.String())
	temp := filepath.Join(b.dir, "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	for _, c := range []struct {
		args, want string
		exit       int
	}{
		{"item create " + meta, "is created", 0},
		{"item pack " + dir + " " + out, "unpacked", 0},
		{"item release " + meta + " " + plain + " --tree", "no directory that tandem item pack", exitUsage},
		{"item release " + meta + " " + out2 + " --tree", "../passwd leads out of the directory", exitUsage},
		{"item release " + meta + " " + out + " --tree", "in preparation", 0},
		{"item release " + meta + " " + dir, "there already, just so", 0},
	} {
		stdout, stderr, exit := b.run("", strings.Fields(c.args)...)
		if exit != c.exit || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: %d %s%s", c.args, exit, stdout, stderr)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
	v, err := b.unit.Item(t.Context(), op.ItemIn{Type: "service", Item: "sensor"})
	if err != nil || len(v.Versions) != 1 {
		t.Fatalf("%+v %v", v, err)
	}
	blob := v.Versions[0].Content.Builds[0].Blobs[0]
	whole, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(zipped)
	if err != nil {
		t.Fatal(err)
	}
	if blob.Digest != wire.Hash(whole) || blob.DiffID != wire.Hash(unpacked) || blob.Unpacked != int64(len(unpacked)) ||
		blob.Size != int64(len(whole)) {
		t.Errorf("%+v", blob)
	}
}

// TestReleaseGoesOn: a release whose upload breaks off says what to do; the same command brings only the rest, and
// releases. Nothing is sent of a version that would be refused.
func TestReleaseGoesOn(t *testing.T) {
	u := apitest.StartSample(t)
	var offsets []uint64
	b := benchOf(t, u, apitest.Instead(u,
		api.Upload(op.WriteUpload, func(ctx context.Context, in op.UploadIn, body api.Body) (view.Upload, error) {
			offsets = append(offsets, in.Offset)
			most := int64(1 << 40)
			if len(offsets) == 1 {
				most = 30_000
			}
			return u.Artefacts().Write(ctx, in.Digest, int64(in.Offset), &cutting{body, most})
		})))
	file, other := b.write("tiles", strings.Repeat("tiles ", 20_000)), b.write("other", strings.Repeat("o", 100))
	meta := b.write("meta.json", `{"codename":"tiles","type":"layer","version":"1.0.0"}`)
	for _, c := range []struct {
		args, want string
		exit       int
	}{
		{"item release " + meta + " " + file, "create it first", 1},
		{"item create " + meta, "created", 0},
		{"item release " + meta + " " + file, "run the same command again", exitUnreachable},
		{"item show tiles", "it has no version", 0},
		{"item release " + meta + " " + file + " --ready", "is released, and ready", 0},
		{"item release " + meta + " " + other, "is there with another content", 1},
	} {
		stdout, stderr, exit := b.run("", strings.Fields(c.args)...)
		if exit != c.exit || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: %d %s%s", c.args, exit, stdout, stderr)
		}
	}
	if len(offsets) != 2 || offsets[1] != 30_000 {
		t.Errorf("sent from %v", offsets)
	}
}
