package oci_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tandem.internal/controller/internal/oci"
	"tandem.internal/controller/internal/oci/ocitest"
)

// material is an archive of at most 64 MiB: the sources here and the test's own program, as a layer has texts and
// programs.
func material(b *testing.B) string {
	b.Helper()
	const enough = 64 << 20
	var entries []ocitest.Entry
	n := 0
	add := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		n += len(text)
		entries = append(entries, ocitest.Entry{Header: tar.Header{Typeflag: tar.TypeReg, Mode: 0o644,
			Name: strconv.Itoa(len(entries)) + "/" + filepath.Base(path)}, Text: string(text)})
	}
	add(os.Args[0])
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && n >= enough {
			return fs.SkipAll
		}
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			add(path)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return ocitest.Tar(b, entries...)
}

// BenchmarkRewrite reads, verifies and rewrites a layer. The floor is what has to be done for it in any case, by other
// programs: unpack and pack the same bytes. Bytes are those of the archive.
func BenchmarkRewrite(b *testing.B) {
	text := material(b)
	l := of(b, text)
	size := int64(len(text))
	b.Run("layer", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			img, err := oci.Open(b.Context(), l.Dir, oci.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(img.Platforms[0].Layers[0].Size)/(1<<20), "MiB")
			if err := img.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		packed := ocitest.Gzip(b, text)
		b.SetBytes(size)
		for b.Loop() {
			n, err := repack(packed)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n)/(1<<20), "MiB")
		}
	})
}

// repack is gzip -d | gzip, and gives how many bytes that becomes.
func repack(packed string) (int, error) {
	unpack, pack := exec.Command("gzip", "-dc"), exec.Command("gzip", "-c")
	unpack.Stdin = strings.NewReader(packed)
	var out bytes.Buffer
	pack.Stdout = &out
	var err error
	if pack.Stdin, err = unpack.StdoutPipe(); err != nil {
		return 0, err
	}
	if err := errors.Join(pack.Start(), unpack.Run(), pack.Wait()); err != nil {
		return 0, err
	}
	return out.Len(), nil
}
