package tree

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tandem.internal/shared/durable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is one entry of a layer, written as it says, whatever that is.
type item struct {
	name string
	kind byte // 0: a file
	link string
	body string
	mode int64 // 0: 0644
}

func file(name, body string) item       { return item{name: name, body: body} }
func dir(name string) item              { return item{name: name, kind: typeDir} }
func symlink(name, to string) item      { return item{name: name, kind: typeSymlink, link: to} }
func hard(name, to string) item         { return item{name: name, kind: typeLink, link: to} }
func special(name string, k byte) item  { return item{name: name, kind: k} }
func deep(n int, last string) item      { return file(strings.Repeat("d/", n)+last, "") }
func digest(b []byte) string            { s := sha256.Sum256(b); return scheme + hex.EncodeToString(s[:]) }
func sealed(header *[block]byte)        { copy(header[148:], fmt.Sprintf("%06o\x00 ", checksum(header))) }
func zeros(n int) []byte                { return make([]byte, n) }
func (i item) with(mode int64) item     { i.mode = mode; return i }
func layer(items ...item) ([]byte, Ref) { return packed(tarOf(items...)) }

// tarOf is a ustar archive.
func tarOf(items ...item) []byte {
	var out bytes.Buffer
	for _, i := range items {
		var h [block]byte
		name, prefix := i.name, ""
		if len(name) > 100 {
			at := strings.LastIndexByte(name[:min(155, len(name))], '/')
			prefix, name = name[:at], name[at+1:]
		}
		mode := i.mode
		if mode == 0 {
			mode = 0o644
		}
		kind := i.kind
		if kind == 0 {
			kind = typeFile
		}
		copy(h[:100], name)
		copy(h[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00", mode, 4711, 4711,
			len(i.body), 1234567890))
		h[156] = kind
		copy(h[157:257], i.link)
		copy(h[257:], "ustar\x0000")
		copy(h[345:], prefix)
		sealed(&h)
		out.Write(h[:])
		out.WriteString(i.body)
		out.Write(zeros(-len(i.body) & (block - 1)))
	}
	out.Write(zeros(2 * block))
	return out.Bytes()
}

// packed is an archive as a blob, with what it is asked for by.
func packed(archive []byte) ([]byte, Ref) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(archive) // a bytes.Buffer does not fail
	_ = z.Close()
	return out.Bytes(), Ref{Digest: digest(out.Bytes()), DiffID: digest(archive), Size: int64(out.Len())}
}

// open opens a store in a directory that has something beside it.
func open(t *testing.T) (s *Store, outside string) {
	t.Helper()
	outside = t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	return reopen(t, filepath.Join(outside, "layers")), outside
}

func reopen(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Around = unflushed
	return s
}

// unflushed leaves out flushes, which take as long as the machine has to write for anybody.
func unflushed(step durable.Step, do func() error) error {
	if step == durable.Sync {
		return nil
	}
	return do()
}

func add(t *testing.T, s *Store, items ...item) (path string, ref Ref) {
	t.Helper()
	blob, ref := layer(items...)
	path, err := s.Add(t.Context(), bytes.NewReader(blob), ref)
	if err != nil {
		t.Fatal(err)
	}
	return path, ref
}

// listing has a line for everything below a directory: mode, path, and content.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			b, rerr := os.ReadFile(path)
			content, err = " "+string(b), rerr
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
			content = " -> " + content
		}
		rel, rerr := filepath.Rel(dir, path)
		fmt.Fprintf(&out, "%s %s%s\n", info.Mode(), rel, content)
		return errorsOf(err, rerr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
