// Package ocitest writes image layouts for tests, good ones and such as no builder would write. What tests expect of
// package oci is made elsewhere: see testdata there.
package ocitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"
)

// Layout is an image layout in a directory that is being written.
type Layout struct {
	T   testing.TB
	Dir string
}

// New begins a layout without images.
func New(t testing.TB) *Layout {
	t.Helper()
	l := &Layout{T: t, Dir: t.TempDir()}
	l.Write("oci-layout", `{"imageLayoutVersion":"1.0.0"}`)
	l.Index()
	return l
}

// Write puts a file into the layout.
func (l *Layout) Write(name, text string) {
	l.T.Helper()
	file := filepath.Join(l.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		l.T.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.T.Fatal(err)
	}
}

// Remove takes a file out of the layout.
func (l *Layout) Remove(name string) {
	l.T.Helper()
	if err := os.Remove(filepath.Join(l.Dir, name)); err != nil {
		l.T.Fatal(err)
	}
}

// Link puts a symbolic link into the layout.
func (l *Layout) Link(name, to string) {
	l.T.Helper()
	if err := os.Symlink(to, filepath.Join(l.Dir, name)); err != nil {
		l.T.Fatal(err)
	}
}

// Pipe puts a pipe into the layout.
func (l *Layout) Pipe(name string) {
	l.T.Helper()
	if err := unix.Mkfifo(filepath.Join(l.Dir, name), 0o600); err != nil {
		l.T.Fatal(err)
	}
}

// Digest is the digest of a text.
func Digest(text string) digest.Digest {
	sum := sha256.Sum256([]byte(text))
	return digest.Digest("sha256:" + hex.EncodeToString(sum[:]))
}

// Blob puts a blob into the layout.
func (l *Layout) Blob(mediaType, text string) v1.Descriptor {
	l.T.Helper()
	d := v1.Descriptor{MediaType: mediaType, Digest: Digest(text), Size: int64(len(text))}
	l.Write("blobs/sha256/"+d.Digest.Encoded(), text)
	return d
}

// JSON is v as JSON.
func (l *Layout) JSON(v any) string {
	l.T.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		l.T.Fatal(err)
	}
	return string(text)
}

// Index writes the layout's own index.
func (l *Layout) Index(manifests ...v1.Descriptor) {
	l.T.Helper()
	l.Write("index.json", l.JSON(index(manifests)))
}

// SubIndex puts an index into the layout as a blob.
func (l *Layout) SubIndex(manifests ...v1.Descriptor) v1.Descriptor {
	l.T.Helper()
	return l.Blob(v1.MediaTypeImageIndex, l.JSON(index(manifests)))
}

func index(manifests []v1.Descriptor) v1.Index {
	i := v1.Index{MediaType: v1.MediaTypeImageIndex, Manifests: append([]v1.Descriptor{}, manifests...)}
	i.SchemaVersion = 2
	return i
}

// Layer is a layer in the layout: what refers to it, and its diff ID.
type Layer struct {
	v1.Descriptor
	DiffID digest.Digest
}

// Layer puts a layer in gzip into the layout, of an archive.
func (l *Layout) Layer(archive string) Layer {
	l.T.Helper()
	return Layer{l.Blob(v1.MediaTypeImageLayerGzip, Gzip(l.T, archive)), Digest(archive)}
}

// Manifest puts an image into the layout. change, unless it is nil, may make both documents wrong.
func (l *Layout) Manifest(c v1.Image, layers []Layer, change func(*v1.Manifest, *v1.Image)) v1.Descriptor {
	l.T.Helper()
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, Layers: []v1.Descriptor{}}
	m.SchemaVersion = 2
	c.RootFS.Type = "layers"
	for _, y := range layers {
		m.Layers = append(m.Layers, y.Descriptor)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, y.DiffID)
	}
	if change != nil {
		change(&m, &c)
	}
	size := m.Config.Size
	m.Config = l.Blob(v1.MediaTypeImageConfig, l.JSON(c))
	m.Config.Size += size
	return l.Blob(v1.MediaTypeImageManifest, l.JSON(m))
}

// Image is an image of linux/amd64 with this configuration.
func Image(c v1.ImageConfig) v1.Image {
	return v1.Image{Platform: v1.Platform{OS: "linux", Architecture: "amd64"}, Config: c}
}

// Gzip packs a text.
func Gzip(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Entry is a file of an archive; its size is that of its text.
type Entry struct {
	tar.Header
	Text string
}

// File is a regular file.
func File(name, text string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, text}
}

// Dir is a directory.
func Dir(name string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}}
}

// Symlink is a symbolic link.
func Symlink(name, to string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}}
}

// Hard is a hard link.
func Hard(name, to string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to, Mode: 0o644}}
}

// Tar is an archive.
func Tar(t testing.TB, entries ...Entry) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size = int64(len(e.Text))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.Text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TarOf writes a tar of the layout, and gives its name.
func (l *Layout) TarOf() string {
	l.T.Helper()
	file := filepath.Join(l.T.TempDir(), "layout.tar")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(l.Dir)); err != nil {
		l.T.Fatal(err)
	}
	if err := w.Close(); err != nil {
		l.T.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		l.T.Fatal(err)
	}
	return file
}
