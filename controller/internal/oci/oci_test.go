package oci_test

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tandem.internal/controller/internal/oci"
	"tandem.internal/controller/internal/oci/ocitest"
)

// open reads the layout at path, which has to be usable.
func open(t testing.TB, path string, o oci.Options) *oci.Image {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	img, err := oci.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := img.Close(); err != nil {
			t.Error(err)
		}
	})
	return img
}

// unpacked is what is in a layer's file, read by Go's own reader.
func unpacked(t testing.TB, l *oci.Layer) string {
	t.Helper()
	f, err := l.Open()
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() || z.Name != "" || z.Comment != "" || z.Extra != nil {
		t.Errorf("the header of gzip has %+v", z.Header)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wanted is what testdata/make says that a layer becomes: by the digest that it has, the diff ID and the size after,
// and what GNU tar lists.
type wanted struct{ diffID, size, list string }

func readWanted(t *testing.T) map[string]wanted {
	t.Helper()
	text, err := os.ReadFile("testdata/hand.want")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]wanted{}
	for _, part := range strings.Split("\n"+string(text), "\nlayer ")[1:] {
		line, list, _ := strings.Cut(part, "\n")
		f := strings.Fields(line)
		all[f[0]] = wanted{f[2], f[3], strings.TrimSuffix(list, "\n")}
	}
	return all
}

// TestHandMade: an image that other tools made has the layers that other tools make of it.
func TestHandMade(t *testing.T) {
	for _, from := range []string{"directory", "tar"} {
		t.Run(from, func(t *testing.T) {
			path := "testdata/hand"
			if from == "tar" {
				path = (&ocitest.Layout{T: t, Dir: path}).TarOf()
			}
			img := open(t, path, oci.Options{})
			var names []string
			for _, p := range img.Platforms {
				names = append(names, fmt.Sprintf("%s %d", p.String(), len(p.Layers)))
			}
			if got := strings.Join(names, ", "); got != "linux/amd64 3, linux/arm/v7 1" || img.Refused != nil {
				t.Fatalf("%s; refused: %v", got, img.Refused)
			}
			if img.Platforms[0].Layers[0] != img.Platforms[1].Layers[0] {
				t.Error("the layer that both have was rewritten twice")
			}
			want := readWanted(t)
			for _, l := range img.Platforms[0].Layers {
				w := want[string(l.From.Digest)]
				if got := fmt.Sprint(l.DiffID, l.Unpacked); got != fmt.Sprint(w.diffID, w.size) {
					t.Errorf("%s became %s, want %s%s", l.From.Digest, got, w.diffID, w.size)
				}
				if n := strings.Count(w.list, "\n") + 1; l.Entries != n {
					t.Errorf("%s has %d entries, want %d", l.From.Digest, l.Entries, n)
				}
				checkFile(t, l)
				t.Run("GNU tar", func(t *testing.T) { listed(t, l, w.list) })
			}
			checkHand(t, img)
		})
	}
}

// checkFile compares a layer with its file.
func checkFile(t *testing.T, l *oci.Layer) {
	t.Helper()
	f, err := l.Open()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text := unpacked(t, l)
	got := []any{sha(string(packed)), len(packed), sha(text), len(text)}
	if want := []any{string(l.Digest), int(l.Size), string(l.DiffID), int(l.Unpacked)}; !reflect.DeepEqual(got, want) {
		t.Errorf("the file has %v, and the layer says %v", got, want)
	}
}

func sha(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// listed compares what GNU tar lists of a layer.
func listed(t *testing.T, l *oci.Layer, want string) {
	tar, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("there is no tar")
	}
	list := exec.Command(tar, "-tvf", "-", "--numeric-owner", "--full-time", "--utc", "--quoting-style=c")
	list.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	list.Stdin = strings.NewReader(unpacked(t, l))
	out, err := list.CombinedOutput()
	if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != want {
		t.Errorf("tar lists (%v)\n%s\nwant\n%s", err, got, want)
	}
}

// checkHand compares what else is known of the image of testdata/make.
func checkHand(t *testing.T, img *oci.Image) {
	t.Helper()
	want := oci.Config{
		Args: []string{"/bin/app", "--loop"}, Env: []string{"PATH=/bin", "LEVEL=3"}, WorkingDir: "/srv",
		// sensor is 999 in the base, and 1999 in the layer above.
		User: oci.User{UID: 1999, GID: 44}, StopSignal: "SIGINT", Ports: []oci.Port{{53, "udp"}, {8080, "tcp"}},
		Labels: map[string]string{"org.example.team": "line"},
	}
	if got := img.Platforms[0].Config; !reflect.DeepEqual(got, want) {
		t.Errorf("amd64:\n%+v, want\n%+v", got, want)
	}
	want = oci.Config{Args: []string{"/bin/app"}, WorkingDir: "/", User: oci.User{UID: 999, GID: 998}}
	if got := img.Platforms[1].Config; !reflect.DeepEqual(got, want) {
		t.Errorf("arm:\n%+v, want\n%+v", got, want)
	}
	if len(img.Remarks) != 1 || !strings.Contains(img.Remarks[0], `"attestation-manifest"`) {
		t.Errorf("remarks on the image: %q", img.Remarks)
	}
	var remarks []string
	for _, r := range img.Platforms[0].Layers[0].Remarks {
		remarks = append(remarks, r.String())
	}
	if got, want := strings.Join(remarks, "\n"), `extended attributes, removed: "bin" and 14 more
set-uid and set-gid bits, removed: "bin/app" and 1 more
devices and pipes, left out: "dev/null" and 1 more`; got != want {
		t.Errorf("remarks on the base:\n%s\nwant\n%s", got, want)
	}
}

// TestSameBytes: a layer is packed into the same bytes everywhere. If this fails because a newer module packs
// otherwise, images that are read again get other digests: say so where releases are described.
func TestSameBytes(t *testing.T) {
	img := open(t, "testdata/hand", oci.Options{})
	var got []string
	for _, l := range img.Platforms[0].Layers {
		got = append(got, string(l.Digest))
	}
	want := []string{
		"sha256:ef99b8b4b3e986e2a3c53ae4b10cbd5f9c26fcfce4d604d0048aa83654b217aa",
		"sha256:528b93f668dd17287b02784ad0d2d1b7ddfd9deef52a1d35b263afd6e900d00b",
		"sha256:3d2e835a03753c3b45e183bade344a17079e88da60e074483db75206eafb87db",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	again := open(t, "testdata/hand", oci.Options{})
	for i, l := range again.Platforms[0].Layers {
		if string(l.Digest) != got[i] {
			t.Errorf("%s, and %s the first time", l.Digest, got[i])
		}
	}
}

// TestClosed: nothing is left on the disk, neither of an image that was closed nor of one that was not taken.
func TestClosed(t *testing.T) {
	dir := t.TempDir()
	img, err := oci.Open(t.Context(), "testdata/hand", oci.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if there, err := filepath.Glob(dir + "/*/*"); err != nil || len(there) != 3 {
		t.Errorf("%q, %v", there, err)
	}
	if err := img.Close(); err != nil {
		t.Fatal(err)
	}
	l := ocitest.New(t)
	good := l.Layer(ocitest.Tar(t, ocitest.File("a", "a")))
	bad := good
	bad.DiffID = ocitest.Digest("other")
	arm := ocitest.Image(none)
	arm.Architecture = "arm64"
	l.Index(l.Manifest(ocitest.Image(none), []ocitest.Layer{good}, nil), l.Manifest(arm, []ocitest.Layer{bad}, nil))
	if img, err = oci.Open(t.Context(), l.Dir, oci.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if there, err := filepath.Glob(dir + "/*/*"); err != nil || len(there) != 1 {
		t.Errorf("of one layer that was taken and one that was not: %q, %v", there, err)
	}
	if err := img.Close(); err != nil {
		t.Fatal(err)
	}
	l.Index(l.Manifest(ocitest.Image(none), []ocitest.Layer{good, bad}, nil))
	if _, err := oci.Open(t.Context(), l.Dir, oci.Options{Dir: dir}); err == nil {
		t.Fatal("a layer with another diff ID was taken")
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) != 0 {
		t.Errorf("%q, %v", there, err)
	}
}
