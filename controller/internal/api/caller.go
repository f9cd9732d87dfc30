package api

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/wire"
)

type peerKey struct{} // context key of a peer

// peer is what the kernel says about the other end of a unix socket.
type peer struct {
	uid   uint32
	known bool // false: the system cannot say
}

// withPeer is the http.Server's ConnContext: connections of unix sockets carry their peer.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if u, ok := c.(*net.UnixConn); ok {
		return context.WithValue(ctx, peerKey{}, credentials(u))
	}
	return ctx
}

// isLocal reports whether a request came by a unix socket.
func isLocal(r *http.Request) bool {
	_, ok := r.Context().Value(peerKey{}).(peer)
	return ok
}

// requester is who makes a request.
type requester struct {
	peer   peer
	bearer *tokens.Bearer // nil: by the unix socket
	user   string         // as the program claims
}

var (
	errNoToken = wire.New(wire.CodeNotAllowed, "",
		"this door needs a token: send \"Authorization: Bearer TOKEN\" (tandem: --token-file or TANDEM_TOKEN); "+
			"\"tandem token create\" on the controller's machine makes one")
	errNoTokens = wire.New(wire.CodeNotAllowed, "",
		"this controller keeps no tokens, so it answers on its unix socket only")
)

// caller says who makes the request of a route, or why it must not be answered; the error is a *wire.Error.
func (a *API) caller(r *http.Request, route string) (requester, error) {
	c := requester{user: r.Header.Get(op.UserHeader)}
	if !plainName(c.user) {
		c.user = ""
	}
	if p, ok := r.Context().Value(peerKey{}).(peer); ok {
		c.peer = p
		return c, nil
	}
	if a.cfg.Tokens == nil {
		return c, errNoTokens
	}
	text, ok := credential(r.Header)
	if !ok {
		return c, errNoToken
	}
	var err error
	c.bearer, err = a.cfg.Tokens.Who(text)
	if err == nil && c.bearer.Once && route != op.RedeemToken.Route {
		err = tokens.ErrOnce
	}
	return c, err
}

// credential returns the token of the Authorization header (RFC 6750, section 2.1). Two of them
// are none: others on the way might have looked at the other one.
func credential(h http.Header) (string, bool) {
	all := h.Values("Authorization")
	if len(all) != 1 {
		return "", false
	}
	scheme, text, ok := strings.Cut(all[0], " ")
	text = strings.Trim(text, " ")
	return text, ok && strings.EqualFold(scheme, "bearer") && text != ""
}

// may says whether the caller may do what needs a role; the error is a *wire.Error.
func (c requester) may(need tokens.Role) error {
	if c.bearer == nil || need == op.Anybody || c.bearer.Role.May(need) {
		return nil
	}
	return wire.New(wire.CodeNotAllowed, "",
		"the token "+c.bearer.Name+" has the role "+string(c.bearer.Role)+"; this needs the role "+string(need))
}

// May is may, for an operation.
func (c requester) May(role string) error { return c.may(op.Role(role)) }

// plainName says whether a claimed name is fit for a journal and a terminal.
func plainName(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(s) <= 64
}

// Who is what the journal gets: "uid:1000(alice)", "token/press for bob". A caller without anything is "local".
func (c requester) Who() string {
	base, name := "", ""
	switch {
	case c.bearer != nil:
		base = "token/" + c.bearer.Name
	case !c.peer.known:
		base = "local"
	default:
		id := strconv.FormatUint(uint64(c.peer.uid), 10)
		base = "uid:" + id
		if u, err := user.LookupId(id); err == nil && plainName(u.Username) {
			name = u.Username
			base += "(" + name + ")"
		}
	}
	if c.user != "" && c.user != name {
		base += " for " + c.user
	}
	return base
}

// OnlyViews reports whether the caller's token has the role view, or less.
func (c requester) OnlyViews() bool { return c.bearer != nil && !c.bearer.Role.May(op.Operate) }

// OwnsFiles reports whether the caller has come by the unix socket as root or as the controller's own user, as the
// kernel says.
func (c requester) OwnsFiles() bool {
	return c.bearer == nil && c.peer.known && (c.peer.uid == 0 || int(c.peer.uid) == os.Geteuid())
}

// Via is the door. Who claims a name on the unix socket is taken for the program tandem; over TCP nothing tells it from
// others.
func (c requester) Via() string {
	if c.bearer == nil && c.user != "" {
		return "cli"
	}
	return "http"
}
