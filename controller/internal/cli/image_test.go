package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/oci"
	"tandem.internal/controller/internal/oci/ocitest"
)

var none v1.ImageConfig

const imageSample = "../oci/testdata/hand"

// TestImages says what images are, for people and as JSON.
func TestImages(t *testing.T) {
	for _, c := range []struct {
		name, args string
		change     func(l *ocitest.Layout)
	}{
		{"item-image", "item image DIR", nil},
		{"item-image-platform", "item image DIR --platform linux/arm", nil},
		{"item-image-no-platform", "item image DIR --platform linux/arm64", nil},
		{"item-image-name", "item image DIR --name 1.4 --platform linux/arm/v7", nil},
		{"item-image-no-name", "item image DIR --name 1.5", nil},
		{"item-image-refused", "item image DIR", func(l *ocitest.Layout) {
			bad := ocitest.Image(none)
			bad.Architecture = "arm64"
			bad.Config.User = "sensor"
			files := []ocitest.Layer{l.Layer(ocitest.Tar(l.T, ocitest.File("a", "a")))}
			l.Index(l.Manifest(ocitest.Image(none), files, nil), l.Manifest(bad, files, nil))
		}},
		{"item-image-all-refused", "item image DIR", func(l *ocitest.Layout) {
			files := []ocitest.Layer{l.Layer(ocitest.Tar(l.T, ocitest.File("../a", "")))}
			l.Index(l.Manifest(ocitest.Image(none), files, nil))
		}},
		{"item-image-damaged", "item image DIR", func(l *ocitest.Layout) { l.Write("index.json", "{") }},
		{"item-image-no-layout", "item image DIR/blobs", nil},
		{"item-image-no-file", "item image DIR/none", nil},
		{"item-image-nothing", "item image", nil},
		{"item-image-no-registry", "item image team/sensor:1.4 --registry registry.example", nil},
		{"item-image-name-there", "item image team/sensor:1.4 --registry https://registry.example --name 1.4", nil},
	} {
		for _, suffix := range []string{"", "-json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				b := newBench(t, apitest.StartSample(t))
				b.env["TANDEM_SOCKET"] = b.dir + "/none" // no controller is asked
				b.temporary()
				if err := os.CopyFS(filepath.Join(b.dir, "image"), os.DirFS(imageSample)); err != nil {
					t.Fatal(err)
				}
				if c.change != nil {
					c.change(&ocitest.Layout{T: t, Dir: filepath.Join(b.dir, "image")})
				}
				args := words(strings.ReplaceAll(c.args, "DIR", b.dir+"/image"))
				b.golden(t, c.name, suffix, args)
			})
		}
	}
}

// temporary gives a test a directory for temporary files, in which nothing may be left, and none of Docker's.
func (b *bench) temporary() {
	b.t.Helper()
	dir := b.t.TempDir()
	b.t.Setenv("TMPDIR", dir)
	b.t.Setenv("DOCKER_CONFIG", dir)
	b.t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			b.t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// TestImagesFromRegistries: an image that was pulled is shown as one of a layout, with the credentials of variables.
func TestImagesFromRegistries(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if _, password, _ := q.BasicAuth(); password != "secret" {
			w.Header().Set("Www-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, reference, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v2/team/sensor/"), "/")
		if strings.Contains(q.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		}
		if strings.HasPrefix(reference, "sha256:") {
			w.Header().Set("Docker-Content-Digest", reference)
		}
		http.ServeFile(w, q, filepath.Join(imageSample, "blobs", strings.Replace(reference, ":", "/", 1)))
	}))
	t.Cleanup(s.Close)
	b := newBench(t, apitest.StartSample(t))
	b.temporary()
	img, err := oci.Open(t.Context(), imageSample, oci.Options{Platforms: []string{"linux/arm"}})
	if err != nil {
		t.Fatal(err)
	}
	arm := img.Platforms[0].Manifest
	if err := img.Close(); err != nil {
		t.Fatal(err)
	}
	ask := func() (string, string, int) {
		return b.run("", "item", "image", "team/sensor@"+arm, "--registry", s.URL)
	}
	_, stderr, exit := ask()
	if exit != 1 || !strings.Contains(stderr, "not-allowed: the registry wants other credentials") {
		t.Errorf("without credentials: %d %s", exit, stderr)
	}
	b.env["TANDEM_REGISTRY_USER"], b.env["TANDEM_REGISTRY_PASSWORD"] = "me", "secret"
	var got string
	got, stderr, exit = ask()
	want, _, _ := b.run("", "item", "image", imageSample, "--platform", "linux/arm")
	if want, _, _ = strings.Cut(want, "\nsha256:"); got != want || exit != 0 {
		t.Errorf("pulled: %d %s%s\nwant %s", exit, got, stderr, want)
	}
	s.Close()
	if _, stderr, exit := ask(); exit != 3 || !strings.Contains(stderr, "unavailable: ") {
		t.Errorf("of a registry that has gone: %d %s", exit, stderr)
	}
}
