package backup

import "golang.org/x/sys/unix"

// free returns how many bytes the file system of a directory has left for this user.
func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil // of 32 bits on 32-bit machines
}
