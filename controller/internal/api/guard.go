package api

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/door"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/wire"
)

// guard keeps strangers on TCP from costing much. Who comes by the unix socket is not counted.
type guard struct {
	flight door.Crowd[netip.Prefix] // requests being answered, by network

	mu      sync.Mutex
	limiter door.Limiter  // of failed authentications
	logged  flow.Throttle // refusals that are logged
}

// refusalRate bounds what wrong tokens write into the log.
var refusalRate = flow.Rate{Burst: 1, Every: 10 * time.Second}

// failed counts a failed authentication. wait is above zero if there were too many.
//
// A right token is let in whatever others at the same address did wrong: with 256 bits there is
// nothing to guess, and behind one proxy sit many.
func (g *guard) failed(now time.Time, from netip.Addr, log *zap.Logger) (wait time.Duration) {
	g.mu.Lock()
	wait, _ = g.limiter.Take(now, from)
	untold, tell := g.logged.Pass(now, refusalRate)
	g.mu.Unlock()
	if tell {
		log.Warn("refused: a token that does not count", zap.Stringer("from", from), zap.Int("count", untold+1))
	}
	return wait
}

// refuse answers somebody who may not come in. Who shows nothing at all, like a browser that looks
// for an icon, has not guessed.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e, _ := errors.AsType[*wire.Error](err)
	if len(r.Header.Values("Authorization")) > 0 {
		if wait := a.guard.failed(time.Now(), door.Address(r.RemoteAddr), a.log); wait > 0 {
			w.Header().Set("Connection", "close") // another attempt costs another handshake
			a.later(w, wait, "too many attempts with a token that does not count; try again later")
			return
		}
	}
	challenge := `Bearer realm="tandem"`
	if e == tokens.ErrUnknown || e == tokens.ErrExpired { // errors.Is asks for the code, which no token has as well
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
		return http.StatusLengthRequired, wire.New(wire.CodeNotSupported, "", "the body has to come with a "+
			"Content-Length, not in chunks")
	}
	if err := crossOrigin.Check(r); err != nil {
		return http.StatusForbidden, wire.New(wire.CodeNotAllowed, "", "another site's page may not change "+
			"anything here")
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
