package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// opened is a file with this content.
func opened(t *testing.T, data []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// That what is read beside a writer is right is shown with journals, by TestLookBesideAWriter.
func TestLive(t *testing.T) {
	for _, name := range []string{"listed", "unlisted"} {
		f := opened(t, file(t, name))
		values, m, err := Live(f, "numbers")
		if err != nil || len(values) != 60 || string(values["key 30"]) != "x" || m.Txid != 3 {
			t.Errorf("%s: %d values of %+v, %v", name, len(values), m, err)
		}
		if values, _, err := Live(f, "outer"); err != nil || values == nil || len(values) != 0 {
			t.Errorf("%s: a bucket of buckets: %v %v", name, values, err)
		}
		if values, _, err := Live(f, "none"); err != nil || values != nil {
			t.Errorf("%s: no bucket: %v %v", name, values, err)
		}
	}
	data := file(t, "unlisted")
	if _, _, err := Live(opened(t, data[:len(data)/2]), "numbers"); !errors.Is(err, ErrCut) {
		t.Errorf("half of it: %v", err)
	}
	root := binary.NativeEndian.Uint64(data[pageSize+32:]) * pageSize
	clear(data[root : root+pageSize])
	if _, _, err := Live(opened(t, data), "numbers"); !errors.Is(err, ErrDamaged) {
		t.Errorf("without its root: %v", err)
	}
	if _, _, err := Live(opened(t, bytes.Repeat([]byte{1}, 4096)), "numbers"); !errors.Is(err, ErrForeign) {
		t.Errorf("something else: %v", err)
	}
}
