package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime is clock_gettime(2), CLOCK_BOOTTIME: unlike Go's monotonic clock it goes on while the machine sleeps.
func uptime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return time.Since(began)
	}
	return time.Duration(t.Nano())
}

var began = time.Now()
