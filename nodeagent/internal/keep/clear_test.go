package keep

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What a slot has made is removed, be it deeper than this process may have files open, or have more names than are held
// at a time; what links lead to stays.
func TestRemoveAllOfAnyDepth(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}()
	top := t.TempDir()
	dir, other := filepath.Join(top, "c1"), filepath.Join(top, "other")
	if err := os.MkdirAll(filepath.Join(other, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	deep, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 { // whose path is longer than a system call takes
		for _, name := range []string{`.tandem\1`, `.tandem\2`} {
			if err := deep.Mkdir(name, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := deep.WriteFile(`.tandem\3`, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := deep.Symlink(other, "link"); err != nil {
			t.Fatal(err)
		}
		next, err := deep.OpenRoot(`.tandem\2`)
		if err == nil {
			err = deep.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		deep = next
	}
	if err := deep.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * someNames {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RemoveAll(link); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(other, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}
