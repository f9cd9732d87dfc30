package tokens

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/shared/wire"
)

// Redeem makes the bearer's token, which has to be a link's, an ordinary one with another secret; name, role and end
// stay. What was presented does not count any more: of two who present it, one gets the new secret and the other
// ErrUnknown. Redeem calls note after all checks and before the new secret counts, and returns its error; every other
// error is a *wire.Error. With an error nothing has changed, except that after a failure of the
// disk the link may not count any more when the controller starts again.
func (s *Store) Redeem(ctx context.Context, b *Bearer, note func(Token) error) (Token, apitoken.Secret, error) {
	fail := func(err error) (Token, apitoken.Secret, error) { return Token{}, apitoken.Secret{}, err }
	if !b.Once {
		return fail(wire.New(wire.CodeWrongState, "", fmt.Sprintf("the token %s is not that of a link", b.Name)))
	}
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.unlock()
	old, secret := s.current.Load(), apitoken.New()
	i := old.set.Find(b.hash)
	switch {
	case i < 0:
		return fail(ErrUnknown)
	case old.set[i].Expired(s.cfg.Now()), old.set[i].Late(s.cfg.Now()):
		return fail(ErrExpired)
	}
	next := &state{set: slices.Clone(old.set), revocations: maps.Clone(old.revocations)}
	t := &next.set[i]
	t.Hash, t.Once = secret.Hash(), false
	next.revocations[t.Name] = newRevocation()
	if err := note(*t); err != nil {
		return fail(err)
	}
	if err := s.never(b.hash); err != nil { // first: the file never has both, and no link logs in twice
		return fail(wire.New(wire.CodeStorage, "", "the link was not redeemed: "+err.Error()))
	}
	if err := s.write(next.set); err != nil { // if it goes well, what was revoked is out of the file, too
		return fail(wire.New(wire.CodeStorage, "", "the link was not redeemed: "+err.Error()))
	}
	s.current.Store(next)
	old.revocations[t.Name].revoke(ErrRevoked)
	return *t, secret, nil
}
