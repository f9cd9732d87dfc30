package tree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// settle flushes the file system that dir is in: one call for all files of a tree, which one by one would take a flush
// of the disk each.
func settle(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(d.Fd()))), d.Close())
}
