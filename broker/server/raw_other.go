//go:build !unix

package server

import "net"

// newRawWriter returns nil: every write goes through the flusher here.
func newRawWriter(net.Conn) *rawWriter { return nil }
