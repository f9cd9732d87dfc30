//go:build !linux

package peer

import (
	"errors"
	"net"
)

// Peer is a process that has connected.
type Peer struct{ PID, UID int }

// Of is for Linux only.
func Of(*net.UnixConn) (Peer, error) { return Peer{}, errors.ErrUnsupported }

// Close does nothing.
func (Peer) Close() {}

// Same is for Linux only.
func (Peer) Same() bool { return false }

// Ancestors is for Linux only.
func Ancestors(int, func(pid, uid int) bool) error { return errors.ErrUnsupported }

// Group is for Linux only.
func Group(int) (string, error) { return "", errors.ErrUnsupported }
