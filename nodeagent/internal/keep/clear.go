package keep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// someNames is how many names of a directory are held at a time.
const someNames = 1024

// RemoveAll removes a directory of a slot with all that is in it, however deep, with few files open: os.RemoveAll has
// one open for each level, and a slot can make more than a process may have. Links are not followed. That the directory
// is not there is no error.
func RemoveAll(dir string) (err error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	number := 0
	for left := true; left; {
		left = false
		if err := each(root, ".", func(e fs.DirEntry) error {
			left = true
			if !e.IsDir() {
				return ifThere(root.Remove(e.Name()))
			}
			return spill(root, e.Name(), &number)
		}); err != nil {
			return err
		}
	}
	return ifThere(os.Remove(dir))
}

// spill removes a directory of root, of which it moves the directories up to root.
func spill(root *os.Root, name string, number *int) error {
	for left := true; left; {
		left = false
		if err := each(root, name, func(e fs.DirEntry) error {
			left = true
			inner := path.Join(name, e.Name())
			if !e.IsDir() {
				return ifThere(root.Remove(inner))
			}
			for {
				*number++
				err := root.Rename(inner, fmt.Sprintf(".tandem\\%d", *number))
				if !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) &&
					!errors.Is(err, syscall.ENOTDIR) { // else the slot has something of that name
					return ifThere(err)
				}
			}
		}); err != nil {
			return err
		}
	}
	return ifThere(root.Remove(name))
}

// each calls f for what is in a directory of root.
func each(root *os.Root, name string, f func(fs.DirEntry) error) (err error) {
	d, err := root.Open(name)
	if err != nil {
		return ifThere(err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for {
		entries, err := d.ReadDir(someNames)
		for _, e := range entries {
			if err := f(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ifThere is err, unless it says that there is nothing to remove.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
