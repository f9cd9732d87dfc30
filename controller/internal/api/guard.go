package api

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/wire"
)

// guard keeps strangers on TCP from costing much. Who comes by the unix socket is not counted.
type guard struct {
	flight crowd // requests being answered, by address

	mu      sync.Mutex
	limiter enrol.Limiter // of failed authentications
	told    time.Time     // when a refusal was last logged
	untold  int           // since then
}

// tellEvery bounds what wrong tokens write into the log.
const tellEvery = 10 * time.Second

// failed counts a failed authentication. wait is above zero if there were too many.
//
// A right token is let in whatever others at the same address did wrong: with 256 bits there is
// nothing to guess, and behind one proxy sit many.
func (g *guard) failed(now time.Time, from netip.Addr, log *zap.Logger) (wait time.Duration) {
	g.mu.Lock()
	wait, ok := g.limiter.Take(now, from)
	if ok {
		wait = 0
	}
	tell := now.Sub(g.told) >= tellEvery || now.Before(g.told)
	g.untold++
	count := g.untold
	if tell {
		g.told, g.untold = now, 0
	}
	g.mu.Unlock()
	if tell {
		log.Warn("refused: a token that does not count", zap.Stringer("from", from), zap.Int("count", count))
	}
	return wait
}

// refuse answers somebody who may not come in. Who shows nothing at all, like a browser that looks
// for an icon, has not guessed.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e, _ := errors.AsType[*wire.Error](err)
	if len(r.Header.Values("Authorization")) > 0 {
		if wait := a.guard.failed(time.Now(), address(r.RemoteAddr), a.log); wait > 0 {
			w.Header().Set("Connection", "close") // another attempt costs another handshake
			a.later(w, wait, "too many attempts with a token that does not count; try again later")
			return
		}
	}
	challenge := `Bearer realm="tandem"`
	if errors.Is(err, tokens.ErrUnknown) || errors.Is(err, tokens.ErrExpired) {
		challenge += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	a.write(w, http.StatusUnauthorized, op.Problem{Error: e})
}

// later answers with 429.
func (a *API) later(w http.ResponseWriter, wait time.Duration, why string) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	a.write(w, http.StatusTooManyRequests, op.Problem{Error: wire.New(wire.CodeUnavailable, "", why)})
}

// crossOrigin refuses what another site's page makes a browser send, if it changes something. There
// is nothing to steal by it, since no browser adds a token by itself; it is a second wall.
var crossOrigin = http.NewCrossOriginProtection()

// wellFormed refuses requests whose shape is an attack more often than not; the error is a
// *wire.Error and its status goes along.
func wellFormed(r *http.Request) (status int, err error) {
	// With both Transfer-Encoding and Content-Length, the server takes the former and a proxy
	// before it perhaps the latter: what one takes for a body is the next request to the other.
	// The server hides the Content-Length then, so a body has to be announced by its length alone.
	if len(r.TransferEncoding) > 0 {
		return http.StatusLengthRequired, wire.New(wire.CodeNotSupported, "", "the body has to come with a Content-Length, not in chunks")
	}
	if err := crossOrigin.Check(r); err != nil {
		return http.StatusForbidden, wire.New(wire.CodeNotAllowed, "", "another site's page may not change anything here")
	}
	return 0, nil
}

// secured are the headers of every answer. What is answered is never a page of its own, but for the
// dashboard, which says so.
func secured(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// crowd counts by address, and bounds what one address and all of them may have. IPv6 addresses
// count by their network of 64 bits, since whoever has one has all of it.
type crowd struct {
	max, each int

	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int
}

// enter counts one more, if there is room.
func (c *crowd) enter(a netip.Addr) (leave func(), ok bool) {
	n := enrol.Network(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.max || c.from[n] >= c.each {
		return nil, false
	}
	if c.from == nil {
		c.from = map[netip.Prefix]int{}
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

func address(remote string) netip.Addr {
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

// bounded turns connections away as they come when there are too many, of all or of one address.
type bounded struct {
	net.Listener
	crowd crowd
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
			from = address(r.String())
		}
		if leave, ok := b.crowd.enter(from); ok {
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
