package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/shared/wire"
)

// A real full disk: Append says so, and everything acknowledged is there after reopening.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: THE FULL-DISK TEST NEEDS ROOT, to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skipf("SKIPPED: THE FULL-DISK TEST CANNOT MOUNT a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	j := mustOpen(t, filepath.Join(dir, "journal.db"), Options{})
	var acknowledged uint64
	var err error
	for i := range 10_000 {
		b := Batch{Records: recs(i, 1)}
		b.Records[0].Data = bytes.Repeat([]byte("x"), 3000)
		if _, err = j.Append(&b); err != nil {
			break
		}
		acknowledged++
	}
	if !errors.Is(err, ErrBroken) || !errors.Is(err, &wire.Error{Code: wire.CodeStorage}) ||
		!strings.Contains(err.Error(), "disk is full") {
		t.Fatalf("after %d records: %v", acknowledged, err)
	}
	if acknowledged < 100 {
		t.Errorf("only %d records fit", acknowledged)
	}
	if _, again := j.Append(&Batch{Records: recs(0, 1)}); !errors.Is(again, ErrBroken) {
		t.Error(again)
	}
	if got := all(t, j); uint64(len(got)) < acknowledged {
		t.Errorf("reading from the stopped journal: %d of %d", len(got), acknowledged)
	}
	j = reopen(t, j, Options{}) // still full: opening needs no space
	if j.Last() != acknowledged {
		t.Errorf("acknowledged %d, there are %d", acknowledged, j.Last())
	}
	if p := mustVerify(t, j); !p.OK() || uint64(p.Records) != acknowledged {
		t.Errorf("%+v", p)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	if first := mustAppend(t, j, Batch{Records: recs(0, 1)}); first != acknowledged+1 {
		t.Errorf("with room again the next record is %d", first)
	}

	// A new journal on a full disk is not made by halves.
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 3<<20), 0o600); err != nil &&
		!errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filler2"), make([]byte, 3<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_, err = Open(filepath.Join(dir, "second.db"), Options{})
	if !errors.Is(err, &wire.Error{Code: wire.CodeStorage}) || !strings.Contains(err.Error(), "disk is full") {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "second.db*")); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
}

// Somebody may shrink the file of a controller that runs as another user, which must be able to open it afterwards.
func TestCompactFileKeepsItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: THE TEST OF A FILE'S OWNER NEEDS ROOT")
	}
	path := tempPath(t)
	mustClose(t, mustOpen(t, path, Options{}))
	const uid, gid = 4711, 4712
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
	if _, _, err := CompactFile(path, Options{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != uid || st.Gid != gid || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %+v", info.Mode(), info.Sys())
	}
}
