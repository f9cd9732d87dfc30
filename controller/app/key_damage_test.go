package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/filetest"
)

// Whatever bit of a key's file is flipped, it is refused by its name, or is the key that was written: with another one
// every node would refuse what the controller says.
func TestDamagedKeyFiles(t *testing.T) {
	dir := t.TempDir()
	r, err := openKeyring(dir, filepath.Join(dir, "journal.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Make()
	if err != nil {
		t.Fatal(err)
	}
	first := r.first.Key().ID
	for _, name := range []string{firstKeyFile, keyFile(second.Key().ID)} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for bit := range 8 * len(good) {
			bad := filetest.Flipped(good, bit)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := openKeyring(dir, filepath.Join(dir, "journal.db"), nil)
			switch {
			case err != nil:
				refused++
				if !strings.Contains(err.Error(), path) {
					t.Errorf("%s, bit %d: %v", name, bit, err)
				}
			case r.first.Key().ID != first || r.Signer(second.Key().ID) == nil || len(r.IDs()) != 2:
				t.Errorf("%s, bit %d: the keys are %v", name, bit, r.IDs())
			}
		}
		if refused < 4*len(good) {
			t.Errorf("%s: %d of %d bits were refused", name, refused, 8*len(good))
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The first key of an older program, whose file has no public half, gets it at the next start.
func TestKeyFileGetsItsPublicHalf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, firstKeyFile)
	r, err := openKeyring(dir, filepath.Join(dir, "journal.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old, _, _ := bytes.Cut(whole, []byte("-----BEGIN PUBLIC"))
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := openKeyring(dir, filepath.Join(dir, "journal.db"), nil)
	if err != nil || again.first.Key().ID != r.first.Key().ID {
		t.Fatal(again, err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) || bytes.Equal(old, whole) {
		t.Errorf("%s %v", got, err)
	}
}
