package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// file is a file of a layer, or a directory: then its name ends with a slash.
type file struct {
	name  string
	mode  int64
	owner int // user and group
	data  []byte
}

func dir(name string) file           { return file{name: name, mode: 0o755} }
func text(name, content string) file { return file{name: name, mode: 0o644, data: []byte(content)} }

// layer is a layer of an image.
type layer struct {
	about  string
	packed []byte // tar in gzip
	diffID digest.Digest
}

// pack makes a layer, all of whose files are of the release's time.
func (r *release) pack(about string, files []file) (*layer, error) {
	var packed bytes.Buffer
	id := digest.SHA256.Digester()
	z := gzip.NewWriter(&packed) // without a name and time of its own
	if err := r.tarOf(io.MultiWriter(z, id.Hash()), files); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return &layer{about: about, packed: packed.Bytes(), diffID: id.Digest()}, nil
}

func (r *release) tarOf(to io.Writer, files []file) error {
	out := tar.NewWriter(to)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)),
			ModTime: r.at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}
	return out.Close()
}

// layout is an image layout of the OCI: its files by name.
type layout struct{ files map[string][]byte }

func newLayout() *layout {
	return &layout{files: map[string][]byte{v1.ImageLayoutFile: []byte(`{"imageLayoutVersion":"` +
		v1.ImageLayoutVersion + `"}`)}}
}

// blob puts data into the layout.
func (l *layout) blob(mediaType string, data []byte) v1.Descriptor {
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	l.files[v1.ImageBlobsDir+"/sha256/"+d.Digest.Encoded()] = data
	return d
}

// document puts JSON into the layout.
func (l *layout) document(mediaType string, v any) (v1.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return l.blob(mediaType, data), nil
}

// index says what the layout is a layout of.
func (l *layout) index(d v1.Descriptor) (err error) {
	l.files[v1.ImageIndexFile], err = json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{d}})
	return err
}

// writeDir writes the layout into a folder. An older layout there is replaced, anything else is not.
func (l *layout) writeDir(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, v1.ImageLayoutFile)); err == nil {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and is no image layout: remove it, or name another folder", dir)
	} else if err != nil {
		return err
	}
	for name, data := range l.files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeTar writes the layout into one file.
func (r *release) writeTar(l *layout, path string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var files []file
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		files = append(files, file{name: name, mode: 0o644, data: l.files[name]})
	}
	return r.tarOf(out, files)
}
