//go:build unix

package server

import (
	"errors"
	"net"
	"syscall"
)

// newRawWriter returns a writer for a plain socket; nil for TLS, pipes and wrapped connections.
func newRawWriter(c net.Conn) *rawWriter {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &rawWriter{raw: raw}
	w.fn = func(fd uintptr) bool {
		for w.n < len(w.p) {
			n, err := syscall.Write(int(fd), w.p[w.n:])
			switch {
			case n > 0:
				w.n += n
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return true // the socket is full: do not wait
			default:
				w.err = err
				return true
			}
		}
		return true
	}
	return w
}
