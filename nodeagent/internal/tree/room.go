package tree

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// full tells Limits.Full what was unpacked to root as far as there was room, if that is why there is an error.
func (s *Store) full(err error, root string) error {
	if s.Limits.Full == nil || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	taken := int64(0)
	err = errors.Join(err, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(path, &st)
		}
		if st.Nlink == 1 || st.Mode&syscall.S_IFMT == syscall.S_IFDIR { // else it may have been counted
			taken += st.Blocks * 512
		}
		return err
	}))
	s.Limits.Full(taken)
	return err
}

// What an entry takes on the disk at most, in the file systems of nodes, beside what is in it.
const (
	cluster   = 4 << 10 // for its inode, or what it is a directory or link of
	nameBytes = 512     // for its name: directories are half full at least
)

// take asks for the room of an entry with so many bytes in it.
func (u *unpacker) take(bytes int64) error {
	if u.limits.Room == nil {
		return nil
	}
	// A header may say anything of its size: what is behind it is bounded.
	bytes = min(bytes, u.limits.Bytes)
	return u.limits.Room(cluster + nameBytes + (bytes+cluster-1)/cluster*cluster)
}
