package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"tandem.internal/shared/boltfile"
	"tandem.internal/shared/wire"
)

// setVersion writes a format's number into a journal that nobody has open.
func setVersion(t *testing.T, path string, version int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyVersion, []byte(strconv.Itoa(version)))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestLook(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 100)})
	if found, err := Look(j.Path()); err != nil || found != (Found{Format: Version}) {
		t.Errorf("one that is open: %+v %v", found, err)
	}
	copied := tempPath(t)
	if err := j.BackupFile(copied); err != nil {
		t.Fatal(err)
	}
	if found, err := Look(copied); err != nil || found != (Found{Format: Version, Epoch: true}) {
		t.Errorf("a copy: %+v %v", found, err)
	}
	mustClose(t, j)
	old := copyOld(t, "v0.db")
	info, err := os.Stat(old)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := Look(old); err != nil || found != (Found{Format: 0, Copy: info.Size()}) {
		t.Errorf("format 0: %+v of %d %v", found, info.Size(), err)
	}
	setVersion(t, j.Path(), Version-1)
	if found, err := Look(j.Path()); err != nil || found.Format != Version-1 || found.Copy == 0 {
		t.Errorf("the format before: %+v %v", found, err)
	}
	setVersion(t, j.Path(), Version+1)
	found, err := Look(j.Path())
	if !errors.Is(err, ErrNewer) || found.Format != Version+1 || wire.AsError(err).Code != wire.CodeWrongVersion ||
		!strings.Contains(err.Error(), "upgrade this program") {
		t.Errorf("the next format: %+v %v", found, err)
	}
}

func TestLookRefuses(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	whole, err := os.ReadFile(filepath.Join("testdata", "v0.db"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.ReplaceAll(whole, []byte("meta"), []byte("atem"))
	for at := 2048; at < len(whole); at += 1024 { // no page is what it says
		damaged[at] ^= 0xff
	}
	foreign := tempPath(t)
	db, err := bbolt.Open(foreign, 0o600, &bbolt.Options{Timeout: time.Second})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(in("empty"), nil, 0o600), os.WriteFile(in("cut"), whole[:3000], 0o600),
		os.WriteFile(in("text"), []byte(strings.Repeat("text\n", 2000)), 0o600), syscall.Mkfifo(in("fifo"), 0o600),
		os.WriteFile(in("damaged"), damaged, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{in("none"): os.ErrNotExist, in("empty"): ErrNotJournal,
		in("text"): ErrNotJournal, in("fifo"): ErrNotJournal, foreign: ErrNotJournal, in("cut"): ErrDamaged,
		in("damaged"): ErrDamaged} {
		if found, err := Look(path); !errors.Is(err, want) || found != (Found{}) {
			t.Errorf("%s: %+v %v", filepath.Base(path), found, err)
		}
	}
}

// Whatever a writer does meanwhile, a look tells one of the formats that the file has had since it began, or that it
// cannot be told; and the writer loses nothing by it. Each transaction moves every page that a look reads, and the file
// grows and its pages are used again.
func TestLookBesideAWriter(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	j.db.NoSync, j.db.AllocSize = true, 64<<10 // many transactions, and the file grows often
	const transactions = 3000
	var mu sync.Mutex // guards committed and begun
	committed, begun := 0, 0
	format := func(n int) string { return strconv.Itoa(n % (Version + 1)) }
	var writer sync.WaitGroup
	done := make(chan error, 1)
	writer.Go(func() {
		for n := 1; n <= transactions; n++ {
			mu.Lock()
			begun = n
			mu.Unlock()
			err := j.db.Update(func(tx *bbolt.Tx) error {
				meta, log := tx.Bucket(bucketMeta), tx.Bucket(bucketLog)
				return errors.Join(meta.Put(keyVersion, []byte(format(n))), meta.Put([]byte("n"), beSeq(uint64(n))),
					log.Put(beSeq(uint64(n)), bytes.Repeat([]byte{byte(n)}, n%3000)), log.Delete(beSeq(uint64(n-50))))
			})
			if err != nil {
				done <- err
				return
			}
			mu.Lock()
			committed = n
			mu.Unlock()
		}
		done <- nil
	})
	looks, busy := 0, 0
	seen := map[int]bool{}
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			running = false
		default:
		}
		mu.Lock()
		from := committed
		mu.Unlock()
		found, err := Look(path)
		mu.Lock()
		to := begun
		mu.Unlock()
		looks++
		switch {
		case errors.Is(err, ErrLocked) && errors.Is(err, boltfile.ErrBusy):
			busy++
			continue
		case err != nil:
			t.Fatalf("between transactions %d and %d: %v", from, to, err)
		}
		seen[found.Format] = true
		ok := from == 0 && found.Format == Version
		for n := from; n <= to && !ok; n++ {
			ok = format(n) == strconv.Itoa(found.Format)
		}
		if !ok {
			t.Fatalf("format %d between transactions %d and %d", found.Format, from, to)
		}
	}
	writer.Wait()
	t.Logf("%d looks, %d of them busy, %d formats seen", looks, busy, len(seen))
	if looks-busy < 10 || len(seen) < 2 {
		t.Error("there was too little to see")
	}
	if err := j.db.View(func(tx *bbolt.Tx) error {
		log := tx.Bucket(bucketLog)
		for n := transactions - 49; n <= transactions; n++ {
			if !bytes.Equal(log.Get(beSeq(uint64(n))), bytes.Repeat([]byte{byte(n)}, n%3000)) {
				t.Errorf("what transaction %d wrote is not there", n)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := file.Stat(); err != nil {
		t.Error(err)
	} else if _, err := boltfile.Check(file, info.Size(), nil); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(path, Options{ReadOnly: true}); !errors.Is(err, ErrLocked) {
		t.Errorf("the writer's lock is gone: %v", err)
	}
}
