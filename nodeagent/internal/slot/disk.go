package slot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tandem.internal/shared/durable"
)

// Disk is the slot directory, as the Store uses it. Names are relative to it, with at most one
// directory. What is said to be for good is still so after a power cut; all else may be lost by one,
// in parts. A missing file is fs.ErrNotExist.
type Disk interface {
	// Read returns a file of at most limit bytes; a longer one is an error.
	Read(name string, limit int64) ([]byte, error)
	// Open opens a file for reading.
	Open(name string) (io.ReadCloser, error)
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Replace makes data the content of a file, atomically and for good.
	Replace(name string, data []byte) error
	// Clean removes what an interrupted Replace has left.
	Clean(name string) error
	// Create makes a new, empty file that may be executed, in the place of what had the name. It is there
	// for good after Sync of the file and SyncDir of its directory.
	Create(name string) (File, error)
	SyncDir(dir string) error
	// Mkdir makes a directory for good, unless it is there.
	Mkdir(dir string) error
	// Rename and Remove are for good. That there is nothing to remove is no error.
	Rename(from, to string) error
	Remove(name string) error
	// Lock takes an exclusive lock that ends with the process. It fails with ErrLocked after wait.
	Lock(name string, wait time.Duration) (unlock func() error, err error)
}

// File is a file that is being written.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process is at it")

// osDisk is the real one. Everything in it may be read by every user who gets into the state directory. No link below
// it is followed.
type osDisk struct {
	dir   string
	steps durable.Steps
}

// OpenDisk is the real directory dir. steps is a fault seam around the writing of small files; nil: none.
func OpenDisk(dir string, steps durable.Steps) Disk { return osDisk{dir, steps} }

func (d osDisk) path(name string) string { return filepath.Join(d.dir, name) }

func (d osDisk) Read(name string, limit int64) (data []byte, err error) {
	f, err := d.open(name, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if data, err = io.ReadAll(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	return data, nil
}

func (d osDisk) Open(name string) (io.ReadCloser, error) { return d.open(name, 0) }

// open opens a regular file for reading. It follows no link in the place of one, and waits for no FIFO's writer.
func (d osDisk) open(name string, flags int) (*os.File, error) {
	path := d.path(name)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|flags, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d osDisk) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(d.path(dir))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (d osDisk) Replace(name string, data []byte) error {
	return durable.WriteFile(d.path(name), data, 0o644, d.steps)
}

func (d osDisk) Clean(name string) error { return durable.Clean(d.path(name)) }

func (d osDisk) Create(name string) (File, error) {
	path := d.path(name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o755); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d osDisk) SyncDir(dir string) error { return durable.SettleDir(d.path(dir)) }

// Mkdir gives a directory that root makes to the owner of the one that it is in.
func (d osDisk) Mkdir(dir string) error {
	path := d.path(dir)
	above := filepath.Dir(path)
	switch err := os.Mkdir(path, 0o700); {
	case errors.Is(err, fs.ErrExist):
		if info, lerr := os.Lstat(path); lerr != nil || info.IsDir() || dir == "." {
			return lerr
		}
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(above, 0o700); err != nil {
			return err
		}
		return d.Mkdir(dir)
	case err != nil:
		return err
	}
	if os.Geteuid() == 0 {
		info, err := os.Stat(above)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
				return err
			}
		}
	}
	f, err := os.Open(above)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d osDisk) Rename(from, to string) error {
	if err := os.Rename(d.path(from), d.path(to)); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(to))
}

func (d osDisk) Remove(name string) error { return durable.Remove(d.path(name)) }

// lockPause is the time between two looks at a lock that is held.
const lockPause = 5 * time.Millisecond

func (d osDisk) Lock(name string, wait time.Duration) (unlock func() error, err error) {
	f, err := d.open(name, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f.Close, nil // which unlocks
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", d.path(name), err), f.Close())
		case time.Since(began) >= wait:
			return nil, errors.Join(ErrLocked, f.Close())
		}
		time.Sleep(lockPause)
	}
}
