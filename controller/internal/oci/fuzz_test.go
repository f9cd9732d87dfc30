package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// FuzzDocuments: of whatever stands in an index, manifest and configuration, what is taken holds to the rules.
func FuzzDocuments(f *testing.F) {
	files, err := filepath.Glob("testdata/hand/blobs/sha256/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/hand/index.json") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, errIndex := parseIndex(text, v1.MediaTypeImageIndex, "x")
		m, errManifest := parseManifest(text, v1.MediaTypeImageManifest, "x")
		if errIndex == nil && errManifest == nil {
			t.Fatal("it is an index and a manifest")
		}
		if errManifest == nil {
			all = append(append(all, m.Config), m.Layers...)
		}
		for _, d := range all {
			if !sha256Digest.MatchString(string(d.Digest)) || d.Size < 0 {
				t.Fatalf("%+v", d)
			}
		}
		c, errConfig := parseImage(text, 1, &v1.Platform{OS: "linux"}, "x")
		if errConfig == nil {
			if c.OS != "linux" || len(c.RootFS.DiffIDs) != 1 {
				t.Fatalf("%+v", c)
			}
			got, _, err := makeConfig(&c.Config, nil)
			if err == nil && (got.WorkingDir[0] != '/' || got.User.UID > maxUser || got.User.GID > maxUser) {
				t.Fatalf("%+v", got)
			}
			errConfig = err
		}
		for _, err := range []error{errIndex, errManifest, errConfig} {
			if err != nil && !isInvalid(err) {
				t.Fatalf("%T %v", err, err)
			}
		}
	})
}

// FuzzLayer: of whatever stands in a layer, what is written is plain ustar in which nothing leads out, and is the same
// when it is rewritten again.
func FuzzLayer(f *testing.F) {
	files, err := filepath.Glob("testdata/sparse-*.tar")
	if err != nil {
		f.Fatal(err)
	}
	img, err := Open(f.Context(), "testdata/hand", Options{Dir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	for _, l := range img.Platforms[0].Layers {
		files = append(files, filepath.Join("testdata/hand/blobs/sha256", l.From.Digest.Encoded()))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for p := range 3 {
			if r, done, err := unpack(bytes.NewReader(text), packing(p)); err == nil {
				if plain, err := io.ReadAll(r); err == nil {
					f.Add(plain)
				}
				done()
			}
		}
	}
	if err := img.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, ok := rewritten(text, 1<<20)
		if !ok {
			return
		}
		seen := map[string]byte{}
		for r := tar.NewReader(bytes.NewReader(once)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			name := strings.TrimSuffix(h.Name, "/")
			if clean, err := cleanName(name); err != nil || clean != name || name == "" {
				t.Fatalf("the name %q", h.Name)
			}
			if _, twice := seen[name]; twice || !strings.ContainsRune("0125", rune(h.Typeflag)) ||
				h.Mode&^0o1777 != 0 || len(h.PAXRecords) > 0 {
				t.Fatalf("%+v", h)
			}
			for at := name; ; {
				above := strings.LastIndexByte(at, '/')
				if above < 0 {
					break
				}
				if at = at[:above]; seen[at] != 0 && seen[at] != tar.TypeDir {
					t.Fatalf("%q is below %q", name, at)
				}
			}
			seen[name] = h.Typeflag
			if h.Typeflag == tar.TypeLink && seen[h.Linkname] != tar.TypeReg && seen[h.Linkname] != tar.TypeLink {
				t.Fatalf("%q is a link to %q", name, h.Linkname)
			}
		}
		if again, ok := rewritten(once, 2<<20); !ok || !bytes.Equal(again, once) {
			t.Fatal("it is another one when it is rewritten again")
		}
	})
}

// rewritten is what becomes of an archive.
func rewritten(text []byte, most int64) ([]byte, bool) {
	var out bytes.Buffer
	in := &unpacked{from: bytes.NewReader(text), sum: sha256.New(), left: most}
	r := newRewriter(&out, 1000)
	err := errors.Join(r.archive(in), in.end())
	return out.Bytes(), err == nil
}

// TestBounds: an archive that is larger than what is taken, in bytes or entries, and a blob that goes on.
func TestBounds(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"a", "b", "c"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes   int64
		entries int
		want    string
	}{
		{2560, 3, ""}, {2559, 3, errLarge.Error()}, {2560, 2, "a layer has more than 2 entries"},
	} {
		in := &unpacked{from: bytes.NewReader(archive.Bytes()), sum: sha256.New(), left: c.bytes}
		err := errors.Join(newRewriter(io.Discard, c.entries).archive(in), in.end())
		if got := errorText(err); got != c.want {
			t.Errorf("%d bytes, %d entries: %q, want %q", c.bytes, c.entries, got, c.want)
		}
	}
	endless := &counted{}
	d := v1.Descriptor{Digest: digestOfText(nil), Size: 100}
	b, err := openBlob(t.Context(), endless, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.verify(nil); !isInvalid(err) || endless.n != 101 {
		t.Errorf("%v after %d bytes", err, endless.n)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// counted is a source without an end.
type counted struct{ n int }

func (c *counted) Read(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

func (*counted) Close() error { return nil }

func (*counted) roots(context.Context) ([]v1.Descriptor, error) { return nil, nil }

func (c *counted) open(context.Context, v1.Descriptor) (io.ReadCloser, error) { return c, nil }
