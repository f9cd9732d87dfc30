package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// aged makes a journal one of format 5 again, with one record more.
func aged(t *testing.T, path string) {
	t.Helper()
	j := mustOpen(t, path, Options{})
	mustAppend(t, j, Batch{Records: recs(int(j.Last()), 1)})
	mustClose(t, j)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyVersion, []byte("5")) })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// names lists a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// wantNames compares a directory with names, in order.
func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", dir, got, want)
	}
}

// Whoever goes back to the copy of before an upgrade and on from there gets a higher epoch: nodes may know what the
// original issued since under the same numbers.
func TestBackupOfAnUpgradeIsMarked(t *testing.T) {
	path := tempPath(t)
	aged(t, path)
	j := mustOpen(t, path, Options{})
	b := mustOpen(t, path+".v5.bak", Options{})
	if b.Epoch() <= j.Epoch() || b.Last() != j.Last() {
		t.Errorf("the copy goes on in epoch %d, the original in %d", b.Epoch(), j.Epoch())
	}
}

// No upgrade replaces the copy that an earlier one made, unless it is one of the very same state: an upgrade that
// is tried again and again leaves one.
func TestUpgradeKeepsOlderBackups(t *testing.T) {
	boom := errors.New("boom")
	path := tempPath(t)
	dir, name := filepath.Split(path)
	for range 3 { // there are as many upgrades of states of their own
		aged(t, path)
		for range 3 {
			faults := Faults{BeforeCommit: func() error { return boom }}
			if _, err := Open(path, Options{Faults: faults}); !errors.Is(err, boom) {
				t.Fatal(err)
			}
		}
		mustClose(t, mustOpen(t, path, Options{}))
	}
	wantNames(t, dir, name, name+".v5-2.bak", name+".v5-3.bak", name+".v5.bak")
	for i, backup := range []string{".v5.bak", ".v5-2.bak", ".v5-3.bak"} {
		if b := mustOpen(t, path+backup, Options{}); b.Last() != uint64(i+1) {
			t.Errorf("%s has %d records", backup, b.Last())
		}
	}
}

// A file of the copy's name that is no journal stays, too. A link is refused, as all is that is no file: nothing is
// written to where it leads.
func TestUpgradeAndWhatHasTheBackupsName(t *testing.T) {
	path := tempPath(t)
	aged(t, path)
	note := []byte("precious")
	if err := os.WriteFile(path+".v5.bak", note, 0o600); err != nil {
		t.Fatal(err)
	}
	other := tempPath(t)
	if err := os.WriteFile(other, note, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path+".v5-2.bak"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("beside a link: %v", err)
	}
	if err := os.Remove(path + ".v5-2.bak"); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path, Options{})
	for _, file := range []string{path + ".v5.bak", other} {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, note) {
			t.Errorf("%s was replaced: %v", file, err)
		}
	}
	if b := mustOpen(t, path+".v5-2.bak", Options{}); b.Last() != 1 {
		t.Errorf("the copy has %d records", b.Last())
	}
}

// Where the journal's name is a link, the copy is put beside the file, which has the room and the owner for it, and
// leftovers are removed there.
func TestUpgradeOfALinkedJournal(t *testing.T) {
	file, linked := tempPath(t), tempPath(t)
	aged(t, file)
	if err := os.Symlink(file, linked); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".v5.bak.new-1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, linked, Options{}))
	wantNames(t, filepath.Dir(linked), filepath.Base(linked))
	wantNames(t, filepath.Dir(file), filepath.Base(file), filepath.Base(file)+".v5.bak")
}

// A temporary file that somebody has put another one in the place of is not written to.
func TestTemporaryFileIsTheOneThatWasMade(t *testing.T) {
	path := tempPath(t)
	other := tempPath(t)
	mustClose(t, mustOpen(t, other, Options{}))
	before, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	err = replaceFile(path, ".new-*", func(f *os.File) error {
		if err := errors.Join(os.Remove(f.Name()), os.Symlink(other, f.Name())); err != nil {
			return err
		}
		db, err := openTemporary(f)
		if err == nil {
			return errors.Join(errors.New("it was opened"), db.Close())
		}
		return err
	})
	if err == nil || err.Error() == "it was opened" {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(other); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the other file was written to: %v", err)
	}
	wantNames(t, filepath.Dir(path))
}
