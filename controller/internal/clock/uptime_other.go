//go:build !linux

package clock

import "time"

// uptime is the monotonic clock; where that stands still while the machine sleeps, a sleep of a day counts as a jump.
func uptime() time.Duration { return time.Since(began) }

var began = time.Now()
