//go:build !linux

package keep

import (
	"context"
	"errors"
	"os"
	"time"
)

// Serving is the configuration of Serve.
type Serving struct {
	Dir     string
	Version string
	Ready   *os.File
	Idle    time.Duration
	Last    func() error
	Users   Users
}

// Serve says that there is no keeper on this system: it needs Linux's /proc and its subreapers.
func Serve(context.Context, Serving) error {
	return errors.New("workloads run on Linux only")
}
