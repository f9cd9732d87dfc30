package journal

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/shared/wire"
)

var rewrite = flag.Bool("rewrite", false, "make the journals of old formats in testdata anew")

const oldEpoch = 1_600_000_000

// makeV0 writes a journal of format 0: a log of header ++ data, and nothing else. The small page
// keeps the file small, and shows that a journal from another machine can be opened.
func makeV0(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(tempPath(t), 0o600,
		&bbolt.Options{PageSize: 1024, Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		log, err := tx.CreateBucket(bucketLog)
		if err != nil {
			return err
		}
		if err := errors.Join(meta.Put(keyVersion, []byte("0")), meta.Put(keyEpoch, beSeq(oldEpoch))); err != nil {
			return err
		}
		for i := range 20 {
			r := rec(i)
			if err := log.Put(beSeq(uint64(i)+1), appendPayload(nil, &r)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil { // without the unused end of the file
		err = db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(path, 0o600) })
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyOld puts a journal of an old format where a test may change it.
func copyOld(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	path := tempPath(t)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUpgradeFromV0(t *testing.T) {
	if *rewrite {
		makeV0(t, filepath.Join("testdata", "v0.db"))
	}
	path := copyOld(t, "v0.db")
	if _, err := Open(path, Options{ReadOnly: true}); !errors.Is(err, ErrOlder) ||
		!errors.Is(err, &wire.Error{Code: wire.CodeWrongVersion}) {
		t.Errorf("read-only: %v", err)
	}
	want := numbered(1, recs(0, 20))
	j := mustOpen(t, path, Options{})
	if show(all(t, j)) != show(want) || j.Epoch() != oldEpoch || j.Last() != 20 {
		t.Error(show(all(t, j)))
	}
	mustAppend(t, j, Batch{Records: recs(20, 1), Bodies: [][]byte{[]byte("b")}, Checkpoint: &Checkpoint{Seq: 21}})
	j = reopen(t, j, Options{})
	if p := mustVerify(t, j); !p.OK() || p.Records != 21 {
		t.Errorf("%+v", p)
	}
	mustClose(t, j)
	old, err := os.ReadFile(filepath.Join("testdata", "v0.db"))
	if err != nil {
		t.Fatal(err)
	}
	// The backup is the old journal: opening it upgrades it again, with a higher epoch, as that of any backup.
	backup := path + ".v0.bak"
	info, err := os.Stat(backup)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() > int64(len(old)) {
		t.Fatal(info, err)
	}
	b := mustOpen(t, backup, Options{})
	if show(all(t, b)) != show(want) || b.Epoch() <= oldEpoch {
		t.Error("the backup differs")
	}
}

// Formats 2, 3 and 4 have record types that the one before cannot name, 5 and 6 have records that it would
// take for others, and nothing else.
func TestUpgradeOfTypes(t *testing.T) {
	for _, version := range []string{"1", "2", "3", "4", "5"} {
		t.Run(version, func(t *testing.T) { upgradeOfTypes(t, version) })
	}
}

func upgradeOfTypes(t *testing.T, version string) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 40)})
	path, want := j.Path(), show(all(t, j))
	mustClose(t, j)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyVersion, []byte(version)) })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	seen, logs := observer.New(zap.InfoLevel)
	j = mustOpen(t, path, Options{Log: zap.New(seen)})
	if p := mustVerify(t, j); show(all(t, j)) != want || !p.OK() || p.Records != 40 {
		t.Errorf("%+v\n%s", p, show(all(t, j)))
	}
	backup := path + ".v" + version + ".bak"
	if _, err := os.Stat(backup); err != nil {
		t.Error(err)
	}
	if n := logs.FilterField(zap.String("backup", backup)).Len(); n != 1 {
		t.Errorf("the log names the backup %d times", n)
	}
}

// TestNewerJournal: what a newer program has written is refused with what to do, be it a whole format or one record.
func TestNewerJournal(t *testing.T) {
	j := mustOpen(t, tempPath(t), Options{})
	mustAppend(t, j, Batch{Records: recs(0, 3)})
	r := rec(3)
	r.Type = typeEnd
	value, head := j.seal.seal(j.head, &r)
	raw(t, j, func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket(bucketLog).Put(beSeq(4), value), tx.Bucket(bucketMeta).Put(keyHead, head.bytes()))
	})
	wantNewer := func(what string, err error, words ...string) {
		t.Helper()
		if !errors.Is(err, ErrNewer) || wire.AsError(err).Code != wire.CodeWrongVersion {
			t.Fatalf("%s: %v", what, err)
		}
		for _, w := range append(words, "upgrade this program", "put back the copy", j.Path()+".vN.bak") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in %v", what, w, err)
			}
		}
	}
	err := j.Replay(1, func(Record) error { return nil })
	wantNewer("a record", err, fmt.Sprintf("unknown type %d", typeEnd), "its number 4")
	raw(t, j, func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyVersion, strconv.AppendInt(nil, Version+1, 10))
	})
	mustClose(t, j)
	_, err = Open(j.Path(), Options{})
	wantNewer("a format", err, fmt.Sprintf("format %d", Version+1))
}

func TestUpgradeFails(t *testing.T) {
	boom := errors.New("boom")
	path := copyOld(t, "v0.db")
	// Crash between backup and commit, and after the commit: the next opening finishes.
	if _, err := Open(path, Options{Faults: Faults{BeforeCommit: func() error { return boom }}}); !errors.Is(err,
		boom) {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Faults: Faults{AfterCommit: func() error { return boom }}}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	j := mustOpen(t, path, Options{})
	if p := mustVerify(t, j); !p.OK() || p.Records != 20 {
		t.Errorf("%+v", p)
	}

	for name, change := range map[string]func(log *bbolt.Bucket) error{
		"record 7 is missing":     func(log *bbolt.Bucket) error { return log.Delete(beSeq(7)) },
		"record 7 cannot be read": func(log *bbolt.Bucket) error { return log.Put(beSeq(7), []byte("?")) },
		"no room for the backup":  nil,
	} {
		path := copyOld(t, "v0.db")
		kind := ErrDamaged
		if change == nil {
			kind = os.ErrExist
			if err := os.MkdirAll(path+".v0.bak/in the way", 0o700); err != nil {
				t.Fatal(err)
			}
		} else {
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket(bucketLog)) }),
				db.Close()); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(path, Options{})
		if !errors.Is(err, kind) || change != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		err = db.View(func(tx *bbolt.Tx) error {
			if v := tx.Bucket(bucketMeta).Get(keyVersion); string(v) != "0" {
				t.Errorf("%s: left at format %s", name, v)
			}
			return nil
		})
		if err = errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	}
}
