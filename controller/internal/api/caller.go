package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// MinToken is the least length of a token, in bytes.
const MinToken = 20

// ReadTokens reads a token file: one token a line; blank lines and lines that begin with # do not
// count. The file must not be readable by others.
func ReadTokens(path string) ([]string, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	if stat.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("token file %s: everybody may use it (mode %04o); chmod it to 0600 or 0640", path, stat.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	var tokens []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) < MinToken || strings.ContainsAny(line, " \t") {
			return nil, fmt.Errorf("token file %s: a token has at least %d characters and no spaces", path, MinToken)
		}
		tokens = append(tokens, line)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("token file %s: no token in it", path)
	}
	return tokens, nil
}

type (
	callerKey struct{} // context key of a caller
	peerKey   struct{} // context key of a peer
)

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

// caller is who makes a request.
type caller struct {
	peer  peer
	token string // "token:" and eight hex digits that tell one token from another
	user  string // what the CLI claims
}

var errNoToken = errors.New("this door needs a token: send \"Authorization: Bearer TOKEN\" (tandem: --token-file or TANDEM_TOKEN)")

// caller says who makes the request, or why it must not be answered.
func (a *API) caller(r *http.Request) (caller, error) {
	c := caller{user: r.Header.Get(UserHeader)}
	if !plainName(c.user) {
		c.user = ""
	}
	if p, ok := r.Context().Value(peerKey{}).(peer); ok {
		c.peer = p
		return c, nil
	}
	if len(a.tokens) == 0 {
		return c, errors.New("this controller has no token, so it answers on its unix socket only")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return c, errNoToken
	}
	given := sha256.Sum256([]byte(token))
	match := 0
	for i := range a.tokens {
		match |= subtle.ConstantTimeCompare(given[:], a.tokens[i][:])
	}
	if match == 0 {
		return c, errors.New("the token is not one that this controller knows")
	}
	id := sha256.Sum256(append([]byte("tandem token id\n"), token...))
	c.token = "token:" + hex.EncodeToString(id[:4])
	return c, nil
}

// plainName says whether a claimed name is fit for a journal and a terminal.
func plainName(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(s) <= 64
}

// String is what the journal gets: "uid:1000(alice)", "token:0a1b2c3d for bob".
func (c caller) String() string {
	base, name := c.token, ""
	switch {
	case base != "":
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

// whoAndVia names the caller and the door for the journal.
func whoAndVia(r *http.Request) (who, via string) {
	c, _ := r.Context().Value(callerKey{}).(caller)
	via = "http"
	if c.user != "" {
		via = "cli"
	}
	return c.String(), via
}
