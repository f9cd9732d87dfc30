//go:build !unix

package server

import "net"

// newRawWriter returns nil: on this system all bytes are buffered and written by conn.flush.
func newRawWriter(net.Conn) *rawWriter { return nil }
