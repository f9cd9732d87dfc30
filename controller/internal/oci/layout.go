package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// source is where an image's blobs are. Nothing that it gives is trusted.
type source interface {
	// roots are the descriptors of what was asked for.
	roots(ctx context.Context) ([]v1.Descriptor, error)
	// open gives the blob of a descriptor that has been checked. The caller closes it, and no two are open at a time.
	open(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
	io.Closer
}

// layout is an image layout on the disk.
type layout struct {
	files files
	name  string // of the image in it; "": all
}

// files are regular files by the name in a layout. open gives fs.ErrNotExist for one that is not there.
type files interface {
	open(name string) (io.ReadCloser, error)
	io.Closer
}

func openLayout(path, name string) (*layout, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var found files
	switch {
	case info.IsDir():
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, err
		}
		found = directory{root}
	case info.Mode().IsRegular():
		if found, err = openTar(path); err != nil {
			return nil, err
		}
	default:
		return nil, invalid("", "this is neither a directory nor a file, as an OCI image layout is")
	}
	return &layout{files: found, name: name}, nil
}

func (l *layout) Close() error { return l.files.Close() }

// roots reads the layout's index. A layout that a newer specification describes is refused.
func (l *layout) roots(context.Context) ([]v1.Descriptor, error) {
	var version v1.ImageLayout
	text, err := l.file(v1.ImageLayoutFile)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, invalid(v1.ImageLayoutFile, "cannot be read: %v", err)
	}
	if version.Version != v1.ImageLayoutVersion {
		return nil, invalid(v1.ImageLayoutFile, "has the version %.20q; only %s is taken", version.Version,
			v1.ImageLayoutVersion)
	}
	if text, err = l.file(v1.ImageIndexFile); err != nil {
		return nil, err
	}
	all, err := parseIndex(text, v1.MediaTypeImageIndex, v1.ImageIndexFile)
	if err != nil || l.name == "" {
		return all, err
	}
	var named []v1.Descriptor
	var names []string
	for _, d := range all {
		name := d.Annotations[v1.AnnotationRefName]
		if name == l.name {
			named = append(named, d)
		} else if name != "" {
			names = append(names, name)
		}
	}
	if named == nil {
		return nil, invalid(v1.ImageIndexFile, "has no image of the name %.80q; it has %.200q", l.name, names)
	}
	return named, nil
}

// file reads a whole file of the layout, of at most MaxDocument bytes.
func (l *layout) file(name string) (text []byte, err error) {
	f, err := l.files.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, invalid("", "this is no OCI image layout: it has no file %s", name)
	} else if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(f, MaxDocument+1)); err == nil && len(text) > MaxDocument {
		return nil, invalid(name, "has more than %d bytes", MaxDocument)
	}
	return text, err
}

func (l *layout) open(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	f, err := l.files.open(v1.ImageBlobsDir + "/" + d.Digest.Algorithm().String() + "/" + d.Digest.Encoded())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, invalid(d.Digest.String(), "is not in the layout")
	}
	return f, err
}

// directory is a layout's directory. A link in it that leads outside is not followed.
type directory struct{ *os.Root }

func (d directory) open(name string) (io.ReadCloser, error) {
	info, err := d.Stat(name) // opening a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, invalid(name, "is no regular file")
	}
	return d.Open(name)
}

// archive is a tar of a layout: where in it the files are.
type archive struct {
	*os.File
	at map[string]span
}

type span struct{ offset, size int64 }

// maxFiles is how many files a tar of a layout may have; those of all platforms of a large image are some hundreds.
const maxFiles = 100_000

func openTar(name string) (_ *archive, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	a := &archive{File: f, at: map[string]span{}}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) && len(a.at) > 0 {
			return a, nil
		}
		if err != nil {
			return nil, invalid("", "this is neither a directory nor a tar of one, as an OCI image layout is")
		}
		if h.Typeflag != tar.TypeReg || isSparse(h) {
			continue
		}
		// The reader of archive/tar takes whole blocks and nothing in advance, so the content begins here.
		offset, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		in := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if _, twice := a.at[in]; twice {
			return nil, invalid("", "the tar has %.120q twice", in)
		}
		if len(a.at) == maxFiles {
			return nil, invalid("", "the tar has more than %d files", maxFiles)
		}
		a.at[in] = span{offset, h.Size}
	}
}

func (a *archive) open(name string) (io.ReadCloser, error) {
	s, ok := a.at[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(a.File, s.offset, s.size)), nil
}
