//go:build !windows

package term

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// waitFor reports whether a terminal has something to read within a time.
func waitFor(f *os.File, most time.Duration) (bool, error) {
	files := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(files, int(most/time.Millisecond))
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}
