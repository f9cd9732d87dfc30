//go:build !linux

package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// settle flushes all that is in dir.
func settle(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
