package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"tandem.internal/shared/wire"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	made := func(name string, change func(tx *bbolt.Tx) error) string {
		path := filepath.Join(dir, name)
		j := mustOpen(t, path, Options{})
		mustAppend(t, j, Batch{Records: recs(0, 200)})
		raw(t, j, change)
		mustClose(t, j)
		return path
	}
	setMeta := func(k, v string) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put([]byte(k), []byte(v)) }
	}
	cut := made("cut.db", func(*bbolt.Tx) error { return nil })
	if err := os.Truncate(cut, 3*int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		kind error
		code wire.Code
		says string
	}{
		"text": {write("text.db", []byte("unit: u1\n")), ErrNotJournal, wire.CodeMalformed,
			"not a Tandem journal"},
		"long text": {write("long.db", bytes.Repeat([]byte("unit: u1\n"), 9000)), ErrNotJournal, wire.CodeMalformed,
			"not a Tandem journal"},
		"empty":     {write("empty.db", nil), ErrNotJournal, wire.CodeMalformed, "empty"},
		"directory": {dir, ErrNotJournal, wire.CodeMalformed, "not a regular file"},
		"another db": {made("other.db", func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketMeta) }), ErrNotJournal,
			wire.CodeMalformed, "not a Tandem journal"},
		"newer": {made("newer.db", setMeta("version", fmt.Sprint(Version+1))), ErrNewer, wire.CodeWrongVersion,
			"written by a newer Tandem"},
		"version?": {made("version.db", setMeta("version", "one")), ErrNotJournal, wire.CodeMalformed, ""},
		"no epoch": {made("epoch.db", setMeta("epoch", "")), ErrDamaged, wire.CodeStorage, "epoch"},
		"no head":  {made("head.db", setMeta("head", "")), ErrDamaged, wire.CodeStorage, "head"},
		"no log": {made("bodies.db", func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketBodies) }), ErrDamaged,
			wire.CodeStorage, "bodies"},
		"last gone": {made("gone.db", func(tx *bbolt.Tx) error { return tx.Bucket(bucketLog).Delete(beSeq(200)) }),
			ErrDamaged, wire.CodeStorage, "newest record is 199 but should be 200"},
		"last other": {made("swap.db", func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketLog).Put(beSeq(200), bytes.Clone(tx.Bucket(bucketLog).Get(beSeq(1))))
		}), ErrDamaged, wire.CodeStorage, "not the one"},
		"one too old": {made("more.db", func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketLog).Put(beSeq(201), bytes.Clone(tx.Bucket(bucketLog).Get(beSeq(1))))
		}), ErrDamaged, wire.CodeStorage, "newest record is 201"},
		"cut off": {cut, ErrDamaged, wire.CodeStorage, "cut off"},
		"no dir":  {filepath.Join(dir, "no", "journal.db"), fs.ErrNotExist, wire.CodeNotFound, "directory"},
	} {
		j, err := Open(c.path, Options{Now: testClock})
		if err == nil {
			mustClose(t, j)
		}
		if !errors.Is(err, c.kind) || !errors.Is(err, &wire.Error{Code: c.code}) ||
			!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "none.db"), Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read-only opening of nothing: %v", err)
	}
	err := explainOpen("j.db", &fs.PathError{Op: "open", Path: "j.db", Err: fs.ErrPermission})
	if !errors.Is(err, fs.ErrPermission) || !errors.Is(err, &wire.Error{Code: wire.CodeNotAllowed}) {
		t.Error(err)
	}
}

func TestLockSaysWho(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	for _, readOnly := range []bool{false, true} {
		_, err := Open(path, Options{ReadOnly: readOnly, LockTimeout: time.Millisecond})
		if !errors.Is(err, ErrLocked) || !errors.Is(err, &wire.Error{Code: wire.CodeUnavailable}) ||
			!strings.Contains(err.Error(), fmt.Sprintf("(PID %d)", os.Getpid())) {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
	}
	mustClose(t, j)

	// Another process, whose name is longer than what the kernel keeps of it: the child below holds the
	// lock until its input ends.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "tandem-controller")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name)
	cmd.Env = append(os.Environ(), "JOURNAL_TEST_CHILD="+path, "JOURNAL_TEST_HOLD=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(path, Options{LockTimeout: time.Millisecond})
	if !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), fmt.Sprintf("tandem-controller (PID %d)", cmd.Process.Pid)) {
		t.Error(err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path, Options{})
}

func TestReadOnly(t *testing.T) {
	path := tempPath(t)
	j := mustOpen(t, path, Options{})
	mustAppend(t, j, Batch{Records: recs(0, 9)})
	mustClose(t, j)
	a := mustOpen(t, path, Options{ReadOnly: true})
	b := mustOpen(t, path, Options{ReadOnly: true}) // readers share
	if len(all(t, a)) != 9 || len(all(t, b)) != 9 || a.Last() != 9 || a.Epoch() != uint64(testTime.Unix()) {
		t.Error("a read-only journal reads otherwise")
	}
	if p := mustVerify(t, a); !p.OK() || !p.Pages {
		t.Errorf("%+v", p)
	}
	_, err := a.Append(&Batch{Records: recs(0, 1)})
	_, err2 := a.BumpEpoch(0)
	_, err3 := a.Drop(t.Context(), []uint64{1})
	_, err4 := a.DropBodies(t.Context(), func(Hash) bool { return true })
	for _, err := range []error{err, err2, err3, err4, a.Backup(&bytes.Buffer{})} {
		if !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
	}
	if a.Err() != nil {
		t.Error(a.Err())
	}
}
