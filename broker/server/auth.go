package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/door"
	"tandem.internal/shared/flow"
)

// proved returns a function for Config.Auth by which a client must claim the identity that verify returns. It calls
// auth for clients for which verify returns none.
func proved(verify func(ConnectInfo) (string, error), auth func(ConnectInfo) (acl.Identity, error)) func(ConnectInfo) (
	acl.Identity, error) {
	if verify == nil {
		return auth
	}
	return func(c ConnectInfo) (acl.Identity, error) {
		who, err := verify(c)
		if err != nil {
			return acl.Identity{}, err
		}
		if who == "" {
			return auth(c)
		}
		id, err := acl.IdentityOf(c.ClientID, c.Username)
		if err != nil {
			return acl.Identity{}, err
		}
		if id.String() != who {
			return acl.Identity{}, fmt.Errorf("it calls itself %q, and its certificate is of %q", id, who)
		}
		return id, nil
	}
}

// SamplePassword is that of the sample configurations, which everybody knows. No broker takes it.
const SamplePassword = "change-me"

// ofUser is what may be guessed of one user's password from everywhere; one address has the limits of door.Limiter.
var ofUser = flow.Rate{Burst: 100, Every: time.Second}

// guesses bounds wrong passwords, by address and by user. It remembers as much as door.Limiter does, and users that
// have a password.
type guesses struct {
	mu   sync.Mutex
	from door.Limiter
	of   map[string]*flow.Bucket
}

var (
	// errGuesses refuses a password that was not looked at. It may be the right one.
	errGuesses = errors.New("too many wrong passwords: this one was not looked at")
	errWrong   = errors.New("no such user, or wrong password")
)

// judge calls right, unless there were too many wrong passwords for this user or from this address.
func (g *guesses) judge(user string, exists bool, remote net.Addr, right func() bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var from netip.Addr
	if remote != nil {
		from = door.Address(remote.String())
	}
	now := time.Now()
	if _, ok := g.from.Take(now, from); !ok {
		return errGuesses
	}
	var tries *flow.Bucket
	if exists {
		if g.of == nil {
			g.of = map[string]*flow.Bucket{}
		}
		if tries = g.of[user]; tries == nil {
			tries = &flow.Bucket{}
			g.of[user] = tries
		}
		if !tries.Take(now, ofUser) {
			g.from.Return(from) // it was no guess: nothing is learned
			return errGuesses
		}
	}
	if !right() {
		return errWrong
	}
	g.from.Return(from)
	tries.Return(ofUser)
	return nil
}

// defaultAuth returns the default for Config.Auth: a node needs a password if it has an entry, other roles always.
func defaultAuth(passwords map[string]string) func(ConnectInfo) (acl.Identity, error) {
	var wrong guesses
	return func(c ConnectInfo) (acl.Identity, error) {
		id, err := acl.IdentityOf(c.ClientID, c.Username)
		if err != nil {
			return acl.Identity{}, err
		}
		want, ok := passwords[c.Username]
		if !ok && id.Role == acl.Node {
			return id, nil
		}
		err = wrong.judge(c.Username, ok, c.Remote, func() bool {
			// Hashes are compared, so that the time depends neither on the content nor on the length.
			a, b := sha256.Sum256([]byte(want)), sha256.Sum256(c.Password)
			return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && ok && want != ""
		})
		if err != nil { // the name has the form of one: it is no password in its place
			err = fmt.Errorf("%w (user %.80q)", err, c.Username)
		}
		return id, err
	}
}
