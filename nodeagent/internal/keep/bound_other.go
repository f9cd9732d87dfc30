//go:build !linux

package keep

import (
	"context"
	"errors"
	"os"
)

// Bound is how a keeper with users for slots is started, by root.
type Bound struct {
	Exe      string
	Args     []string
	Dir      string
	Env      []string
	UID, GID uint32
	Users    Users
	Ports    []uint16
	Open     bool
	Note     func(string)
	Ready    *os.File
}

// Run is for Linux only.
func (Bound) Run(context.Context) error { return errors.ErrUnsupported }

// IsBound is for Linux only.
func IsBound() bool { return false }

// Overlap is for Linux only.
func (Users) Overlap() error { return errors.ErrUnsupported }
