//go:build !linux

package confine

import "errors"

// Possible says that nothing is.
func Possible() (Level, error) { return None, errors.ErrUnsupported }

// Apart calls f.
func Apart(f func()) (tid int) {
	f()
	return 0
}

// NoNewPrivs does nothing here.
func NoNewPrivs() error { return nil }

// Disarm does nothing here.
func Disarm() error { return nil }
