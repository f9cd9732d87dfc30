// Package door owns what every listener that strangers reach needs: who a peer counts as, how much one peer and all
// of them may have at once, how often they may fail, and the HTTP status of a refusal. It guarantees that what it
// remembers is bounded, whoever comes.
package door

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"tandem.internal/shared/wire"
)

// Address reads the address of a peer, host:port. What has none is the zero Addr.
func Address(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// Network is what an address counts as where strangers are bounded: an IPv6 address as its network of 64
// bits, since whoever has one has all of it; what is no address as the zero Prefix.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address: all of those are one
	}
	return p
}

// Crowd bounds what one and all of them may have at once, such as connections of a Network. It is safe for concurrent
// use.
type Crowd[K comparable] struct {
	Max  int // of all
	Each int // of one

	mu   sync.Mutex
	all  int
	from map[K]int
}

// Enter counts one more of n, if there is room. leave takes it back; calling it again does nothing.
func (c *Crowd[K]) Enter(n K) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.Max || c.from[n] >= c.Each {
		return nil, false
	}
	if c.from == nil {
		c.from = map[K]int{}
	}
	c.all++
	c.from[n]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.from[n]--; c.from[n] == 0 {
			delete(c.from, n)
		}
	}), true
}

// Bound returns a listener that closes connections as they come when there are max of all, or each of one
// network. A connection counts until it is closed.
func Bound(l net.Listener, max, each int) net.Listener {
	return &bounded{Listener: l, crowd: Crowd[netip.Prefix]{Max: max, Each: each}}
}

type bounded struct {
	net.Listener
	crowd Crowd[netip.Prefix]
}

// Accept returns the next connection that there is room for.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var from netip.Addr
		if r := c.RemoteAddr(); r != nil {
			from = Address(r.String())
		}
		if leave, ok := b.crowd.Enter(Network(from)); ok {
			return &counted{c, leave}, nil
		}
		_ = c.Close() // a stranger's connection: there is nobody to tell
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// Body reads a request's body of at most max bytes. A larger one is not read, even if it is announced, and gives an
// [*http.MaxBytesError]; then the server ends the connection half a second after the answer, so that a caller who
// is still sending can read it (RFC 9112, section 9.6).
func Body(w http.ResponseWriter, r *http.Request, max int64) ([]byte, error) {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = u.Unwrap() // only the server's own writer is told of a body that is too large
	}
	body := r.Body
	if r.ContentLength > max {
		// Reading one byte too many is the only way to tell the server why the body is left unread. Without it a
		// connection that the caller wanted closed is reset at once.
		body, max = io.NopCloser(strings.NewReader(" ")), 0
	}
	return io.ReadAll(http.MaxBytesReader(w, body, max))
}

// Status is the HTTP status of a refusal; what is not expected of a caller is 500.
func Status(code wire.Code) int {
	switch code {
	case wire.CodeMalformed, wire.CodeUnknownField, wire.CodeDuplicate, wire.CodeMissing, wire.CodeBadValue,
		wire.CodeWrongVersion, wire.CodeInvalidArgument, wire.CodeNotSupported, wire.CodeBadSignature:
		return http.StatusBadRequest
	case wire.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case wire.CodeNotFound:
		return http.StatusNotFound
	case wire.CodeAlreadyExists, wire.CodeWrongState, wire.CodeStale, wire.CodeFork, wire.CodeExpired,
		wire.CodeUnconfirmed, wire.CodeQuarantined, wire.CodeBelowFloor:
		return http.StatusConflict
	case wire.CodeNotAllowed, wire.CodeWrongTarget:
		return http.StatusForbidden
	case wire.CodeStorage, wire.CodeUnavailable, wire.CodeInterrupted:
		return http.StatusServiceUnavailable
	case wire.CodeNoAnswer, wire.CodeTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
