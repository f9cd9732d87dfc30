package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"tandem.internal/shared/race"
)

// small is a folder with a small program by the names of all, and tandem for other systems, too, in name only.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	put := func(system, name string) {
		to := filepath.Join(dir, "programs", system)
		if err := errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, name), data, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range images {
		put("linux_amd64", i.name)
	}
	put("linux_armv7", "tandem")
	put("darwin_arm64", "tandem")
	return filepath.Join(dir, "programs")
}

// read reads a blob of a layout that is there as files, and compares it with what refers to it.
func read(t *testing.T, files map[string]string, d v1.Descriptor, into any) string {
	t.Helper()
	data, ok := files["blobs/sha256/"+d.Digest.Encoded()]
	if !ok || digest.FromString(data) != d.Digest || int64(len(data)) != d.Size {
		t.Fatalf("%+v: there are %d bytes, %v, or another digest", d, len(data), ok)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(data), into); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// Images are made of what lies there, twice the same, whatever times and modes the files have, and in one file, too.
func TestImages(t *testing.T) {
	if race.Enabled { // as TestRelease
		t.Skip("without the race detector")
	}
	build := func(programs string, extra ...string) (string, error) {
		out := t.TempDir()
		return out, run(append([]string{"images", "-version", version, "-time", "1767225600", "-programs",
			programs, "-out", out, "-docs", docs}, extra...), io.Discard)
	}
	programs := small(t)
	one, err := build(programs)
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(again, os.DirFS(programs)); err != nil {
		t.Fatal(err)
	}
	for name := range tree(t, again) {
		if err := errors.Join(os.Chtimes(filepath.Join(again, name), time.Time{}, time.Unix(1, 0)),
			os.Chmod(filepath.Join(again, name), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	two, err := build(again)
	if err != nil {
		t.Fatal(err)
	}
	had, have := tree(t, one), tree(t, two)
	if !maps.Equal(had, have) {
		t.Errorf("twice the same programs, and not the same images: %q %q", slices.Sorted(maps.Keys(had)),
			slices.Sorted(maps.Keys(have)))
	}
	for _, i := range images {
		files := map[string]string{}
		for name, data := range had {
			if rest, ok := strings.CutPrefix(name, i.name+"/"); ok {
				files[rest] = data
			}
		}
		layoutIs(t, files, i.name)
	}

	if err := os.Remove(filepath.Join(again, "linux_amd64", "tandem")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(again, "linux_armv7")); err != nil {
		t.Fatal(err)
	}
	if _, err := build(again); err == nil || !strings.Contains(err.Error(), "no program tandem for Linux") {
		t.Errorf("without a program: %v", err)
	}
}

// A layout replaces an older one, and nothing else; in one file it has the same files.
func TestLayoutIsWritten(t *testing.T) {
	l := newLayout()
	if err := l.index(l.blob(v1.MediaTypeImageIndex, []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "image")
	if err := l.writeDir(dir); err != nil {
		t.Fatal(err)
	}
	had := tree(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "blobs", "older"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.writeDir(dir); err != nil || !maps.Equal(tree(t, dir), had) || len(had) != 3 {
		t.Errorf("over an older one: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "oci-layout")); err != nil {
		t.Fatal(err)
	}
	if err := l.writeDir(dir); err == nil || !strings.Contains(err.Error(), "is no image layout") {
		t.Errorf("over something else: %v", err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := (&release{at: time.Unix(1, 0)}).writeTar(l, file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for name, e := range entries(t, string(data)) {
		have[name] = e.text
	}
	if !maps.Equal(have, had) {
		t.Errorf("in one file there are %q", slices.Sorted(maps.Keys(have)))
	}
}

// layoutIs checks the layout of an image.
func layoutIs(t *testing.T, files map[string]string, name string) {
	t.Helper()
	var top, index v1.Index
	if err := json.Unmarshal([]byte(files["index.json"]), &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%v: tools want one entry: %s", err, files["index.json"])
	}
	if tag := top.Manifests[0].Annotations[v1.AnnotationRefName]; tag != name+":1.0.0-dev.7_abc" {
		t.Errorf("it is called %s", tag)
	}
	read(t, files, top.Manifests[0], &index)
	var on []string
	used := 3 // oci-layout and two indexes
	seen := map[digest.Digest]bool{}
	count := func(all ...v1.Descriptor) {
		for _, d := range all {
			if !seen[d.Digest] {
				seen[d.Digest], used = true, used+1
			}
		}
	}
	for n := 0; n < len(index.Manifests); n += 2 {
		image, bill := index.Manifests[n], index.Manifests[n+1]
		on = append(on, strings.TrimSuffix(image.Platform.Architecture+"/"+image.Platform.Variant, "/"))
		var m, of v1.Manifest
		var c v1.Image
		read(t, files, image, &m)
		read(t, files, m.Config, &c)
		count(image, bill, m.Config)
		count(m.Layers...)
		if c.Config.User != "65532:65532" || c.Config.Entrypoint[0] != "/"+name || c.OS != "linux" ||
			c.Architecture != image.Platform.Architecture || c.Variant != image.Platform.Variant ||
			!c.Created.Equal(time.Unix(1767225600, 0)) || c.Config.Labels[v1.AnnotationVersion] != version {
			t.Errorf("%s: %+v", name, c)
		}
		if len(m.Layers) != 2 || len(c.RootFS.DiffIDs) != 2 {
			t.Fatalf("%s has %d layers", name, len(m.Layers))
		}
		all := map[string]entryOf{}
		for i, d := range m.Layers {
			text := unpacked(t, read(t, files, d, nil))
			if digest.FromString(text) != c.RootFS.DiffIDs[i] {
				t.Errorf("layer %d of %s is not the one that its configuration names", i, name)
			}
			maps.Copy(all, entries(t, text))
		}
		contentsAre(t, all, name)

		read(t, files, bill, &of)
		if of.Subject == nil || of.Subject.Digest != image.Digest || bill.Platform.OS != "unknown" ||
			read(t, files, of.Config, nil) != "{}" {
			t.Errorf("what refers to %s: %+v", name, of)
		}
		count(of.Config, of.Layers[0])
		var made cdx.BOM
		read(t, files, of.Layers[0], &made)
		if made.Metadata.Component.Name != name || len(*made.Components) != 2 ||
			(*(*made.Components)[0].Licenses)[0].Expression != "BSD-3-Clause AND MPL-2.0" {
			t.Errorf("%s is made of %+v", name, made.Components)
		}
	}
	want := []string{"amd64", "arm/v7"}
	if name != "tandem" {
		want = want[:1]
	}
	if !slices.Equal(on, want) || used != len(files) {
		t.Errorf("%s is for %q; of its %d files %d are used", name, on, len(files), used)
	}
}

// contentsAre checks what is in an image: who owns what, and that programs find authorities.
func contentsAre(t *testing.T, all map[string]entryOf, name string) {
	t.Helper()
	for path, e := range all {
		want := map[bool]string{true: "755 0", false: "644 0"}[strings.HasSuffix(path, "/")]
		switch path {
		case name:
			want = "755 0"
		case "state/", "run/tandem/":
			want = "700 65532"
		case "tmp/":
			want = "1777 0"
		}
		if got := fmt.Sprintf("%o %d", e.Mode, e.Uid); got != want || e.Gid != e.Uid || e.ModTime.Unix() != 1767225600 {
			t.Errorf("%s: %s, want %s; %v", path, got, want, e.ModTime)
		}
		for parent := filepath.Dir(strings.TrimSuffix(path, "/")); parent != "."; parent = filepath.Dir(parent) {
			if _, ok := all[parent+"/"]; !ok {
				t.Errorf("there is %s, and not %s", path, parent)
			}
		}
	}
	if all["state/"].Header == nil || all["run/tandem/"].Header == nil ||
		!strings.Contains(all["etc/passwd"].text, "\ntandem:x:65532:65532:") {
		t.Errorf("%s has %q", name, slices.Sorted(maps.Keys(all)))
	}
	if name != "tandem" {
		return
	}
	n := 0
	for rest := []byte(all["etc/ssl/certs/ca-certificates.crt"].text); ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err != nil || !c.IsCA {
			t.Errorf("%v %v", err, c)
		}
	}
	if n < 100 {
		t.Errorf("there are %d authorities", n)
	}
}

// entryOf is a file of a layer.
type entryOf struct {
	*tar.Header
	text string
}

func unpacked(t *testing.T, packed string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func entries(t *testing.T, text string) map[string]entryOf {
	t.Helper()
	all := map[string]entryOf{}
	for r := tar.NewReader(bytes.NewReader([]byte(text))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = entryOf{h, string(data)}
	}
}
