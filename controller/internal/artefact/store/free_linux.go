package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// Free returns what a file system has left for users who are not root, in bytes.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), nil // of 32 bits on 32-bit machines
}

// forgetPages has the next reading of a file come from the disk.
func forgetPages(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
