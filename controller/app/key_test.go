package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/shared/durable"
)

// The files of the keys: what is made is there at the next start, what is forgotten is not, and none is
// made in silence beside a journal.
func TestKeyring(t *testing.T) {
	dir := t.TempDir()
	journal := filepath.Join(dir, "journal.db")
	open := func() *keyring {
		t.Helper()
		r, err := openKeyring(dir, journal, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	first := r.first.Key().ID
	second, err := r.Make()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = open()
	if r.first.Key().ID != first || r.Signer(second.Key().ID) == nil || len(r.IDs()) != 2 {
		t.Errorf("%v", r.IDs())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), info.Mode(), err)
		}
	}
	for range 2 { // that it is gone is no error
		if err := r.Forget(first); err != nil {
			t.Error(err)
		}
	}
	r = open()
	if r.first != nil || r.Signer(first) != nil || len(r.IDs()) != 1 {
		t.Errorf("%v, first %v", r.IDs(), r.first)
	}
	file := filepath.Join(dir, keyFile(second.Key().ID))
	if err := os.Rename(file, filepath.Join(dir, "unit-key-0000000000000000.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := openKeyring(dir, journal, nil); err == nil ||
		!strings.Contains(err.Error(), "another key than its name says") {
		t.Errorf("under another name: %v", err)
	}
}

// A crash or a fault at any step of making a key: no half of one is read, and nothing is left behind.
func TestMakingAKeyFails(t *testing.T) {
	full := errors.New("disk full")
	for _, at := range []durable.Step{durable.Create, durable.Write, durable.Sync, durable.Rename, durable.SyncDir} {
		for _, crash := range []bool{false, true} {
			dir := t.TempDir()
			r, err := openKeyring(dir, filepath.Join(dir, "journal.db"), func(s durable.Step) error {
				if s != at {
					return nil
				}
				if crash {
					panic(full)
				}
				return full
			})
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() { _ = recover() }()
				if _, err := r.Make(); err == nil {
					t.Errorf("%s: no error", at)
				}
			}()
			again, err := openKeyring(dir, filepath.Join(dir, "journal.db"), nil)
			if err != nil {
				t.Fatalf("%s, crash %v: %v", at, crash, err)
			}
			want := 1
			if at == durable.SyncDir { // it is there all the same
				want = 2
			}
			entries, err := os.ReadDir(dir)
			if len(again.IDs()) != want || len(entries) != want || err != nil {
				t.Errorf("%s, crash %v: keys %v, %d files", at, crash, again.IDs(), len(entries))
			}
		}
	}
}
