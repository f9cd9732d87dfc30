// Package durable replaces and removes files so that a crash or a full disk at any moment leaves
// the old file whole or the new one whole, never a mixture and never nothing, and so that what a
// call reported as done is still done after a power cut.
//
// It is for small files that are written as a whole. One process writes a path; readers may read
// it at any time. It does not lock, and it does not keep older versions.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Step is one thing that WriteFile does to the disk.
type Step string

// The steps, in order. Write comes twice: before the first and before the second half of the
// data, so that a fault can leave a short file.
const (
	Create  Step = "create"  // a temporary file in the same directory
	Write   Step = "write"   // the data into it
	Sync    Step = "sync"    // its data to the disk
	Rename  Step = "rename"  // onto the path
	SyncDir Step = "syncdir" // the directory to the disk
)

// Steps is a seam for tests: it is called before each step, and the step fails with the error that
// it returns. A panic stands for a crash of the machine and leaves everything as it is. nil is
// what production uses.
type Steps func(Step) error

func (s Steps) before(step Step) error {
	if s == nil {
		return nil
	}
	return s(step)
}

// WriteFile makes data the content of path, with exactly the permissions perm. A symbolic link at
// path is replaced, not followed.
//
// After an error the old file is still there, whole, and nothing else is left behind. There is
// one exception: if only the last step failed, path already has the new content, but a power cut
// may bring the old one back. A crash may leave a temporary file, which Clean removes.
func WriteFile(path string, data []byte, perm fs.FileMode, steps Steps) error {
	if err := writeFile(path, data, perm, steps); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, data []byte, perm fs.FileMode, steps Steps) error {
	if err := steps.before(Create); err != nil {
		return err
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, tempPrefix(name)+"*")
	if err != nil {
		return err
	}
	// No defer from here on: a panic must leave what a crash would leave.
	err = fill(f, data, perm, steps)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = steps.before(Rename)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := steps.before(SyncDir); err != nil {
		return err
	}
	return SettleDir(dir)
}

func fill(f *os.File, data []byte, perm fs.FileMode, steps Steps) error {
	half := len(data) / 2
	for _, part := range [][]byte{data[:half], data[half:]} {
		if err := steps.before(Write); err != nil {
			return err
		}
		if _, err := f.Write(part); err != nil {
			return err
		}
	}
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if err := steps.before(Sync); err != nil {
		return err
	}
	return f.Sync()
}

// Remove removes path for good. That there is no such file is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SettleDir(filepath.Dir(path))
}

// Clean removes the temporary files that a crash in WriteFile left beside path. It is called at
// start, before anything writes path.
func Clean(path string) error {
	dir, name := filepath.Dir(path), filepath.Base(path)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("clean beside %s: %w", path, err)
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), tempPrefix(name))
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clean beside %s: %w", path, err)
		}
	}
	return nil
}

// tempPrefix begins the names of path's temporary files; decimal digits follow.
func tempPrefix(name string) string { return "." + name + ".tmp" }

// SettleDir makes what was made, renamed and removed in a directory durable.
func SettleDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}
