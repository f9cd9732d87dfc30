//go:build !linux

package container

import (
	"context"
	"errors"
)

var errNoLinux = errors.New("containers are made on Linux")

// Stage does nothing: no process becomes a runtime here.
func Stage() {}

// Probe finds no runtime.
func Probe(context.Context, Probing) (Runtime, error) { return Runtime{}, errNoLinux }

// Open opens no directory.
func Open(Home) (*Home, error) { return nil, errNoLinux }

// Prepare makes no container.
func (*Home) Prepare(context.Context, string, Spec) ([]string, error) { return nil, errNoLinux }

// Delete finds no container.
func (*Home) Delete(context.Context, string) error { return nil }

// List finds no container.
func (*Home) List() ([]string, error) { return nil, nil }

// Group is that of no container.
func Group([]string, string) string { return "" }

// ErrExists is the error of a container that there is.
var ErrExists = errNoLinux
