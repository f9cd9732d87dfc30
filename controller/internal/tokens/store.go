package tokens

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// FileName is what the file is called in the controller's state directory.
const FileName = "tokens.json"

// Lifetimes that a token may be given.
const (
	MinLife = time.Minute
	MaxLife = 3652 * 24 * time.Hour
)

// Config says where the tokens are kept.
type Config struct {
	Path  string
	Now   func() time.Time // nil: time.Now
	Steps durable.Steps    // fault seam; nil in production
}

// Store is the tokens and their file. It may be used by many goroutines: who asks whether a token
// counts waits for nobody.
type Store struct {
	cfg  Config
	turn chan struct{} // holds a value while somebody changes the tokens
	live atomic.Pointer[live]
}

// live is what counts at a moment; it is never changed, only replaced.
type live struct {
	set  Set
	ends map[string]ended // by name
	left Set              // revoked, but still in the file: the disk refused
}

// ended is done when its token is revoked.
type ended struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// ErrRevoked is the cause with which a request's context ends whose token is revoked meanwhile.
var ErrRevoked = wire.New(wire.CodeNotAllowed, "", "the token was revoked")

// ErrExpired is the cause when its token's end has come.
var ErrExpired = wire.New(wire.CodeNotAllowed, "", "the token has expired; ask for another one")

// ErrUnknown is what whoever has the wrong token hears.
var ErrUnknown = wire.New(wire.CodeNotAllowed, "", "the token is not one that this controller knows; it may have "+
	"been revoked")

// Open reads the file, if there is one. The error is one that a person can act on.
func Open(cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	fail := func(err error) (*Store, error) { return nil, fmt.Errorf("tokens: %s: %w", cfg.Path, err) }
	if err := durable.Clean(cfg.Path); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	s := &Store{cfg: cfg, turn: make(chan struct{}, 1)}
	l := &live{ends: map[string]ended{}}
	data, err := os.ReadFile(cfg.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("tokens: %w", err)
	default:
		info, err := os.Stat(cfg.Path)
		if err != nil {
			return nil, fmt.Errorf("tokens: %w", err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			return fail(fmt.Errorf("others may use it (mode %04o); chmod 600 it", info.Mode().Perm()))
		}
		if l.set, err = Decode(data); err != nil {
			return fail(fmt.Errorf("%w; restore it from a backup, or remove it and make new tokens", err))
		}
	}
	for _, t := range l.set {
		l.ends[t.Name] = newEnded()
	}
	s.live.Store(l)
	return s, nil
}

func newEnded() ended {
	ctx, end := context.WithCancelCause(context.Background())
	return ended{ctx, end}
}

// Bearer is whoever has shown a token that counts.
type Bearer struct {
	Name    string
	Role    Role
	revoked context.Context
	left    time.Duration // until it expires; 0: never
}

// Context is ctx until the token is revoked or expires; the cause is then ErrRevoked or ErrExpired.
// The caller calls release when nothing is done for the bearer any more.
func (b *Bearer) Context(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.revoked, func() { cancel(ErrRevoked) })
	end := func() {}
	if b.left > 0 {
		var c context.CancelFunc
		ctx, c = context.WithTimeoutCause(ctx, b.left, ErrExpired)
		end = c
	}
	return ctx, func() { stop(); end(); cancel(nil) }
}

// Who returns whose token this is. The error is ErrExpired or ErrUnknown, which stands for every
// other reason: who guesses learns nothing.
func (s *Store) Who(text string) (*Bearer, error) {
	secret, err := Parse(text)
	if err != nil {
		return nil, ErrUnknown
	}
	l := s.live.Load()
	i := l.set.Find(secret.Hash())
	if i < 0 {
		return nil, ErrUnknown
	}
	t, now := &l.set[i], s.cfg.Now()
	if t.Expired(now) {
		return nil, ErrExpired
	}
	b := &Bearer{Name: t.Name, Role: t.Role, revoked: l.ends[t.Name].ctx}
	if !t.Expires.IsZero() {
		b.left = t.Expires.Sub(now)
	}
	return b, nil
}

// List returns all tokens, sorted by name.
func (s *Store) List() Set { return s.live.Load().set }

// Now is the time by which tokens end.
func (s *Store) Now() time.Time { return s.cfg.Now() }

// Create makes a token; life 0 means that it counts until it is revoked. note is called when nothing
// is in the way and before the token counts; its error is returned and the token not made. The error
// is a *wire.Error.
func (s *Store) Create(ctx context.Context, name string, role Role, life time.Duration, by string,
	note func(Token) error) (Token, Secret, error) {
	fail := func(err error) (Token, Secret, error) { return Token{}, Secret{}, err }
	if life != 0 && (life < MinLife || life > MaxLife) {
		return fail(wire.New(wire.CodeBadValue, "/ttl", "a token counts for a minute at least and ten years at most"))
	}
	if err := s.take(ctx); err != nil {
		return fail(err)
	}
	defer s.give()
	old, secret := s.live.Load(), NewSecret()
	t := Token{Name: name, Role: role, Hash: secret.Hash(), Created: s.cfg.Now().UTC().Truncate(time.Second), By: by}
	if life != 0 {
		t.Expires = t.Created.Add(life)
	}
	if err := old.set.Check(t); err != nil {
		return fail(err)
	}
	if err := note(t); err != nil {
		return fail(err)
	}
	next := &live{set: old.set.With(t), ends: map[string]ended{t.Name: newEnded()}}
	for n, e := range old.ends {
		next.ends[n] = e
	}
	if err := s.write(next.set); err != nil {
		return fail(wire.New(wire.CodeStorage, "", "the token was not made: "+err.Error()))
	}
	s.live.Store(next)
	return t, secret, nil
}

// Revoke ends a token and everything that is done in its name, at once. When the error is of
// wire.CodeStorage it has ended all the same, but would count again after a restart: to revoke it
// again tries to write the file again.
func (s *Store) Revoke(ctx context.Context, name string) (Token, error) {
	if err := s.take(ctx); err != nil {
		return Token{}, err
	}
	defer s.give()
	old := s.live.Load()
	next := &live{set: old.set.Without(name), left: old.left, ends: map[string]ended{}}
	var t Token
	if i := old.set.index(name); i >= 0 {
		t = old.set[i]
		next.left = old.left.Without(name).With(t)
	} else if i := old.left.index(name); i >= 0 {
		t = old.left[i]
	} else {
		return Token{}, wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no token %.80q", name))
	}
	for n, e := range old.ends {
		if n != name {
			next.ends[n] = e
		}
	}
	s.live.Store(next)
	if e, ok := old.ends[name]; ok {
		e.end(ErrRevoked)
	}
	if err := s.write(next.set); err != nil {
		return t, wire.New(wire.CodeStorage, "", "the token does not count any more, but the disk did not take that: "+
			"it would count again after a restart. Make room and revoke it again ("+err.Error()+")")
	}
	s.live.Store(&live{set: next.set, ends: next.ends})
	return t, nil
}

func (s *Store) write(set Set) error {
	return durable.WriteFile(s.cfg.Path, set.Encode(), 0o600, s.cfg.Steps)
}

// take waits for the turn to change the tokens.
func (s *Store) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return wire.New(wire.CodeTimeout, "", "the tokens are being changed by somebody else")
	}
}

func (s *Store) give() { <-s.turn }
