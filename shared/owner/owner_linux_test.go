package owner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// That a process becomes another user's is tried with the programs, by TestRootStagesAsTheOwner.
func TestBecomeRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: whose directory root works in; this test is not root's")
	}
	dir := t.TempDir()
	for _, c := range []struct {
		mode os.FileMode
		uid  int // of dir/part
		want error
	}{
		{0o755, 0, nil}, {0o700, 0, nil}, {0o775, 0, ErrUnsafe}, {0o757, 0, ErrUnsafe},
		{0o777 | fs.ModeSticky, 0, ErrUnsafe},
		{0o755, 64001, ErrUnsafe},
	} {
		part := filepath.Join(dir, "part")
		if err := errors.Join(os.MkdirAll(part, 0o755), os.Chown(part, c.uid, 0), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		if err := Become(dir, "part", "none"); !errors.Is(err, c.want) || os.Geteuid() != 0 {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := Become(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: what root opens; this test is not root's")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(in("file"), []byte("x"), 0o600), os.WriteFile(in("twice"), nil, 0o600),
		os.Link(in("twice"), in("hard")), os.WriteFile(in("open"), nil, 0o644), os.Link(in("open"), in("harmless")),
		os.Symlink(in("file"), in("link")), os.Mkdir(in("dir"), 0o755), os.Symlink(dir, in("above")),
		syscall.Mkfifo(in("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"file": true, "harmless": true, "hard": false, "link": false, "dir": false,
		"above/file": false, "fifo": false, "none": false} {
		f, ok := Open(in(name))
		if ok != want {
			t.Errorf("%s: %v", name, ok)
		}
		if ok {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
