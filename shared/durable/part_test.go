package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// pieces writes a part in two pieces, flushes each, and gives it its name.
func pieces(dir string, around Around) (durable int64, err error) {
	p, err := OpenPart(filepath.Join(dir, "part"), around)
	if err != nil {
		return 0, err
	}
	for _, piece := range []string{"the first ", "and the second"} {
		if err == nil {
			err = p.Append([]byte(piece))
		}
		if err == nil {
			err = p.Sync()
		}
	}
	durable = p.Durable()
	if err = errors.Join(err, p.Close()); err != nil {
		return durable, err
	}
	return durable, Move(filepath.Join(dir, "part"), filepath.Join(dir, "new", "whole"), around)
}

// TestPartFaultAtEveryStep: whatever step fails, done or not, Durable does not say more than there is, a part whose
// flush has failed is gone, and doing it again gives the whole file.
func TestPartFaultAtEveryStep(t *testing.T) {
	const content = "the first and the second"
	var steps []Step
	if _, err := pieces(t.TempDir(), func(s Step, do func() error) error {
		steps = append(steps, s)
		return do()
	}); err != nil {
		t.Fatal(err)
	}
	want := []Step{Create, SyncDir, Write, Sync, Write, Sync, MakeDir, SyncDir, Rename, SyncDir, SyncDir}
	if !slices.Equal(steps, want) {
		t.Fatalf("%v", steps)
	}
	for at, step := range steps {
		for _, does := range []bool{false, true} {
			dir, call := t.TempDir(), 0
			durable, err := pieces(dir, func(_ Step, do func() error) error {
				call++
				if call-1 != at {
					return do()
				}
				if does {
					if err := do(); err != nil {
						return err
					}
				}
				return syscall.EIO
			})
			if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDiscarded) != (step == Sync || at > 8) {
				t.Errorf("%d %s, done %v: %v", at, step, does, err)
			}
			there := ""
			for _, name := range []string{"part", "new/whole"} {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
					there += string(b)
				}
			}
			switch {
			case step == Sync && (durable != 0 || there != ""):
				t.Errorf("%d %s, done %v: %d durable, there is %q", at, step, does, durable, there)
			case at < 9 && there != content[:durable]:
				t.Errorf("%d %s, done %v: %d durable, there is %q", at, step, does, durable, there)
			case at >= 9 && there != "":
				t.Errorf("%d %s, done %v: left %q", at, step, does, there)
			}
			if does && step == Rename {
				continue // it has its name
			}
			if err := Unlink(filepath.Join(dir, "part"), nil); err != nil {
				t.Error(err)
			}
			if _, err := pieces(dir, nil); err != nil {
				t.Errorf("again after %d %s: %v", at, step, err)
			}
		}
	}
}

// TestPartGoesOn: a part that is opened again goes on at its end.
func TestPartGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "part")
	for i, piece := range []string{"a", "bc", ""} {
		p, err := OpenPart(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Durable() != []int64{0, 1, 3}[i] || p.Size() != p.Durable() {
			t.Errorf("%d: %d of %d", i, p.Durable(), p.Size())
		}
		if err := errors.Join(p.Append([]byte(piece)), p.Sync(), p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "abc" {
		t.Errorf("%q %v", b, err)
	}
	if err := os.Mkdir(path+"d", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPart(path+"d", nil); err == nil {
		t.Error("a directory was opened")
	}
	for range 2 {
		if err := Unlink(path, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestPartWithoutRoom: what was written since the newest flush goes when there is no room for more.
func TestPartWithoutRoom(t *testing.T) {
	path, writes := filepath.Join(t.TempDir(), "part"), 0
	p, err := OpenPart(path, func(s Step, do func() error) error {
		if s == Write {
			if writes++; writes == 3 {
				return syscall.ENOSPC
			}
		}
		return do()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Append([]byte("ab")), p.Sync(), p.Append([]byte("cd"))); err != nil {
		t.Fatal(err)
	}
	if err := p.Append([]byte("ef")); !errors.Is(err, syscall.ENOSPC) || p.Size() != 2 || p.Durable() != 2 {
		t.Errorf("%v, %d of %d", err, p.Durable(), p.Size())
	}
	if err := errors.Join(p.Append([]byte("gh")), p.Sync(), p.Close()); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "abgh" {
		t.Errorf("%q %v", b, err)
	}
}
