package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// entry is a file in an archive.
type entry struct {
	name, file string
	mode       os.FileMode
}

// archive packs a program with its licences and changes, in a folder that has the archive's name.
func (r *release) archive(p *program, name string) (err error) {
	entries := []entry{
		{name + "/" + filepath.Base(p.file), p.file, 0o755},
		{name + "/changelog.md", filepath.Join(r.docs, "changelog.md"), 0o644},
		{name + "/notice.md", filepath.Join(r.docs, "notice.md"), 0o644},
	}
	path, pack := name+".tar.gz", r.tar
	if p.windows() {
		path, pack = name+".zip", r.zip
	}
	out, err := os.Create(filepath.Join(r.out, path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return pack(out, entries)
}

func (r *release) tar(to io.Writer, entries []entry) error {
	packed, err := gzip.NewWriterLevel(to, gzip.BestCompression) // without a name and time of its own
	if err != nil {
		return err
	}
	out := tar.NewWriter(packed)
	for _, e := range entries {
		data, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		head := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(data)), ModTime: r.at,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := out.WriteHeader(head); err != nil {
			return err
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), packed.Close())
}

func (r *release) zip(to io.Writer, entries []entry) error {
	out := zip.NewWriter(to)
	for _, e := range entries {
		data, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		head := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.at}
		head.SetMode(e.mode)
		w, err := out.CreateHeader(head)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return out.Close()
}
