package door

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
)

// HandshakeBytes is the most bytes that are read below TLS until the handshake has ended. Two certificates and the
// keys of TLS 1.3 (RFC 8446, section 4) take 4 KiB; the library itself would collect 256 KiB.
const HandshakeBytes = 16 << 10

// errHandshake ends a handshake that is too long.
var errHandshake = errors.New("the TLS handshake is longer than anybody needs")

// TLS returns a listener like that of [tls.NewListener]. Each connection reads at most HandshakeBytes and more, both in
// bytes, from the network until Lift is called for it; after that reading fails.
func TLS(l net.Listener, conf *tls.Config, more int) net.Listener {
	return &secured{Listener: l, conf: conf, budget: int64(HandshakeBytes + more)}
}

type secured struct {
	net.Listener
	conf   *tls.Config
	budget int64
}

// Accept returns a connection whose handshake has not begun.
func (s *secured) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &metered{Conn: c}
	m.left.Store(s.budget)
	return tls.Server(m, s.conf), nil
}

// Lift ends the limit of a connection of TLS. It does nothing for any other.
func Lift(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		if m, ok := t.NetConn().(*metered); ok {
			m.lifted.Store(true)
		}
	}
}

// LiftActive is an [http.Server]'s ConnState for a listener of TLS with the size of a header as more: the first request
// has been read then.
func LiftActive(c net.Conn, state http.ConnState) {
	if state == http.StateActive {
		Lift(c)
	}
}

// metered is a connection that ends when too much was read from it before its limit was lifted.
type metered struct {
	net.Conn
	left   atomic.Int64
	lifted atomic.Bool
}

func (m *metered) Read(p []byte) (int, error) {
	if m.lifted.Load() {
		return m.Conn.Read(p)
	}
	left := m.left.Load()
	if left <= 0 {
		return 0, errHandshake
	}
	n, err := m.Conn.Read(p[:min(int64(len(p)), left)])
	m.left.Add(-int64(n))
	return n, err
}
