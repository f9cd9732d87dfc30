//go:build unix

package backup

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps other restores out of a directory until the function that it returns is called, or the process ends.
func lock(dir string) (unlock func() error, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("another restore into %s is under way", dir)
		}
		return nil, errors.Join(err, d.Close())
	}
	return d.Close, nil
}
