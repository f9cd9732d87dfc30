package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Backups taken while records pour in are whole, and end at a batch that was acknowledged.
func TestBackupWhileAppending(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 100)})
	var wg sync.WaitGroup
	stop, appended := make(chan struct{}), make(chan uint64, 1)
	wg.Go(func() {
		n := uint64(100)
		defer func() { appended <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := j.Append(&Batch{Records: recs(int(n), 20)}); err != nil {
				t.Error(err)
				return
			}
			n += 20
		}
	})
	dir := t.TempDir()
	for i := range 6 {
		path := filepath.Join(dir, "backup.db") // the second replaces the first, and so on
		before := j.Last()
		if i%2 == 0 {
			if err := j.BackupFile(path); err != nil {
				t.Fatal(err)
			}
		} else {
			var b bytes.Buffer
			if err := j.Backup(&b); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
		r := mustOpen(t, path, Options{ReadOnly: true})
		if p := mustVerify(t, r); !p.OK() || p.Last < before || p.Last%20 != 0 || uint64(p.Records) != p.Last {
			t.Errorf("%+v", p)
		}
		mustClose(t, r)
		// Restored, it speaks with a higher epoch, once.
		r = mustOpen(t, path, Options{})
		if r.Epoch() != j.Epoch()+1 {
			t.Errorf("the restored epoch is %d, the original's %d", r.Epoch(), j.Epoch())
		}
		if r = reopen(t, r, Options{}); r.Epoch() != j.Epoch()+1 {
			t.Errorf("then it is %d", r.Epoch())
		}
		mustClose(t, r)
	}
	close(stop)
	wg.Wait()
	want := numbered(1, recs(0, int(<-appended)))
	epoch := j.Epoch()
	if j = reopen(t, j, Options{}); j.Epoch() != epoch || show(all(t, j)) != show(want) {
		t.Error("the original changed")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

type brokenWriter struct{ after int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.after -= len(p); w.after < 0 {
		return 0, os.ErrClosed
	}
	return len(p), nil
}

func TestBackupFails(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 1000)})
	for _, after := range []int{0, 5000, 30_000} {
		if err := j.Backup(&brokenWriter{after}); !errors.Is(err, os.ErrClosed) &&
			!strings.Contains(err.Error(), os.ErrClosed.Error()) {
			t.Errorf("%v", err)
		}
	}
	if err := j.BackupFile(filepath.Join(t.TempDir(), "no", "backup.db")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	dir := t.TempDir() // a directory is in the way: the rename fails, and nothing is left
	if err := os.Mkdir(filepath.Join(dir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.BackupFile(filepath.Join(dir, "b")); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
	mustAppend(t, j, Batch{Records: recs(0, 1)}) // the journal does not mind
}

// A journal that a failed write stopped can still be saved.
func TestBackupOfABrokenJournal(t *testing.T) {
	fails := false
	j := mustOpen(t, tempPath(t), Options{Faults: Faults{BeforeCommit: func() error {
		if fails {
			return errors.New("boom")
		}
		return nil
	}}})
	mustAppend(t, j, Batch{Records: recs(0, 5)})
	fails = true
	if _, err := j.Append(&Batch{Records: recs(5, 5)}); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "backup.db")
	if err := j.BackupFile(path); err != nil {
		t.Fatal(err)
	}
	if got := all(t, mustOpen(t, path, Options{})); show(got) != show(numbered(1, recs(0, 5))) {
		t.Error(show(got))
	}
}
