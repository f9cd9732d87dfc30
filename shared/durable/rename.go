//go:build !windows

package durable

import "os"

func rename(from, to string) error { return os.Rename(from, to) }

// SettleDir flushes a directory to the disk: files that were created, renamed and removed in it.
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
