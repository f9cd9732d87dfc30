// Package durable replaces, removes and reads files. After a crash, or with a full disk, there is the whole old file
// or the whole new one. A change of which a call has reported success survives a power cut.
//
// It is for small files that are written as a whole. Only one process may write a path; others may read it at any time.
// The package has no locks, and keeps no older versions.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Replaceable reports whether a file may be replaced by a rename, by what os.Lstat says of it: a regular file or a
// symbolic link, and no directory, device, FIFO or socket.
func Replaceable(info fs.FileInfo) bool { return info.Mode().Type()&^fs.ModeSymlink == 0 }

// ReadFile returns the content of the regular file at path, of at most limit bytes. Of anything else, such as a FIFO or
// a device, which may never end or never begin, it does not even open it. Its errors name the path.
func ReadFile(path string, limit int64) (data []byte, err error) {
	bad := func(why string) ([]byte, error) {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New(why)}
	}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return bad("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if data, err = io.ReadAll(io.LimitReader(f, limit+1)); err == nil && int64(len(data)) > limit {
		return bad(fmt.Sprintf("more than %d bytes", limit))
	}
	return data, err
}

// Step is one operation of WriteFile on the disk.
type Step string

// The steps, in order. Write occurs twice, for the first and for the second half of the data, so that a fault in a test
// can leave a short file.
const (
	Create  Step = "create"  // create a temporary file in the same directory
	Write   Step = "write"   // write data to it
	Sync    Step = "sync"    // flush it to the disk
	Rename  Step = "rename"  // rename it to the path
	SyncDir Step = "syncdir" // flush the directory to the disk
)

// Steps injects faults in tests. It is called before each step, which fails with the error that it returns. If it
// panics, WriteFile leaves the disk as a crash of the machine would. Nil injects none.
type Steps func(Step) error

// before calls s before a step.
func (s Steps) before(step Step) error {
	if s == nil {
		return nil
	}
	return s(step)
}

// WriteFile replaces the file at path with one that has the content data and exactly the permissions perm. It replaces
// a symbolic link instead of following it.
//
// After an error path has the old file, and there is no temporary file. One exception: if only the last step failed,
// path has the new file, and may have the old one again after a power cut. A crash may leave a temporary file, which
// Clean removes.
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
	// No defer from here on: a panic of steps must leave the disk as a crash would.
	err = fill(f, data, perm, steps)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = steps.before(Rename)
	}
	if err == nil {
		err = rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := steps.before(SyncDir); err != nil {
		return err
	}
	return SettleDir(dir)
}

// fill writes data to a temporary file, sets its permissions and flushes it to the disk.
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

// Remove removes the file at path, durably. It is no error if there is none.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SettleDir(filepath.Dir(path))
}

// Clean removes the temporary files that a crash in WriteFile has left beside path. It is called when a program starts,
// before anything writes path.
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

// tempPrefix is the beginning of the names of temporary files; decimal digits follow.
func tempPrefix(name string) string { return "." + name + ".tmp" }

// Replace gives a flushed file another name in its directory, durably, in place of what has that name.
func Replace(from, to string) error {
	if err := rename(from, to); err != nil {
		return err
	}
	return SettleDir(filepath.Dir(to))
}
