//go:build unix

package server

import (
	"errors"
	"net"
	"syscall"
)

// newRawWriter returns nil for what is not a plain socket: TLS, pipes, anything wrapped.
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
				return true // done for now, rather than wait
			default:
				w.err = err
				return true
			}
		}
		return true
	}
	return w
}
