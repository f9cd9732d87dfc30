package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClosedDirectories: what somebody has closed to the agent goes all the same, and what cannot be removed keeps no
// agent from starting.
func TestClosedDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	const user = 65534
	runtime.LockOSThread() // for good: the thread ends with the test
	set := func(uid int) {
		if _, err := unix.SetfsuidRetUid(uid); err != nil { // root's rights to all files go and come with it
			t.Error(err)
		}
	}
	as := func(uid int, do func()) {
		set(uid)
		defer set(0)
		do()
	}
	s, outside := open(t)
	if err := os.Chmod(filepath.Dir(outside), 0o755); err != nil {
		t.Fatal(err)
	}
	give := func() {
		t.Helper()
		if err := filepath.WalkDir(outside, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, user, user))
		}); err != nil {
			t.Fatal(err)
		}
	}
	var refs []Ref
	for _, name := range []string{"in", "out", "gone", "open"} {
		path, ref := add(t, s, dir("d"), file("d/"+name, "x"), dir("d/e"), file("d/e/b", "x"))
		if err := errors.Join(os.Chmod(path+"/d/e", 0), os.Chmod(path+"/d", 0)); err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	for i, prefix := range []string{newPrefix, oldPrefix} {
		digits := refs[i].DiffID[len(scheme):]
		if err := os.Rename(filepath.Join(s.Dir, digits), filepath.Join(s.Dir, prefix+digits)); err != nil {
			t.Fatal(err)
		}
	}
	give()
	as(user, func() {
		s = reopen(t, s.Dir)
		if err := errors.Join(s.Remove(refs[2].DiffID, ""), s.Keep(nil)); err != nil || listing(t, s.Dir) != "" {
			t.Errorf("%v: left\n%s", err, listing(t, s.Dir))
		}
	})
	for _, name := range []string{newPrefix + "a", oldPrefix + "b"} {
		at := filepath.Join(s.Dir, name, "another's")
		if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(at+"/file", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	as(user, func() {
		for range 2 {
			s = reopen(t, s.Dir)
			if err := s.Keep(nil); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("what is another's: %v", err)
			}
		}
	})
	give()
	as(user, func() {
		if err := s.Keep(nil); err != nil || listing(t, s.Dir) != "" {
			t.Errorf("%v: left\n%s", err, listing(t, s.Dir))
		}
	})
}

// TestNoFileOfWhiteouts: what a layer hides is read of a file, and no more than there can be; nobody waits for it.
func TestNoFileOfWhiteouts(t *testing.T) {
	s, _ := open(t)
	path, _ := add(t, s, file(".wh.a", ""))
	at := filepath.Join(filepath.Dir(path), whiteoutsName)
	for name, damage := range map[string]func() error{
		"too large": func() error { return os.WriteFile(at, make([]byte, whiteoutBytes+1), 0o600) },
		"a FIFO":    func() error { return unix.Mkfifo(at, 0o600) },
	} {
		if err := errors.Join(os.Remove(at), damage()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := Whiteouts(path)
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s was read", name)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: it does not end", name)
		}
	}
}
