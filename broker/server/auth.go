package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"tandem.internal/broker/acl"
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

// defaultAuth returns the default for Config.Auth: a node needs a password if it has an entry, other roles always.
func defaultAuth(passwords map[string]string) func(ConnectInfo) (acl.Identity, error) {
	return func(c ConnectInfo) (acl.Identity, error) {
		id, err := acl.IdentityOf(c.ClientID, c.Username)
		if err != nil {
			return acl.Identity{}, err
		}
		want, ok := passwords[c.Username]
		if !ok && id.Role == acl.Node {
			return id, nil
		}
		// Hashes are compared, so that the time depends neither on the content nor on the length.
		a, b := sha256.Sum256([]byte(want)), sha256.Sum256(c.Password)
		if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !ok || want == "" {
			return acl.Identity{}, errors.New("no such user, or wrong password")
		}
		return id, nil
	}
}
