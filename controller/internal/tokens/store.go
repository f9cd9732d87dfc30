package tokens

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// FileName is the name of the file in the controller's state directory.
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

// Store holds the tokens and their file. It is safe for concurrent use; Who and List never wait for a
// change.
type Store struct {
	cfg     Config
	revoked *revoked.List // what was revoked or redeemed, whatever the file says; used under the lock
	changes chan struct{} // lock for changes, full while it is held; a channel, so that lock can obey a context
	current atomic.Pointer[state]
}

// state is the tokens at one moment. It is immutable: a change stores a new one.
type state struct {
	set         Set
	revocations map[string]revocation // of the tokens in set, by name
	unsaved     Set                   // revoked, but still in the file because it could not be written
}

// revocation is a context that ends when its token is revoked, and the function that ends it.
type revocation struct {
	ctx    context.Context
	revoke context.CancelCauseFunc
}

// ErrRevoked is the cause with which a request's context ends when its token is revoked.
var ErrRevoked = wire.New(wire.CodeNotAllowed, "", "the token was revoked")

// ErrExpired is the cause with which a request's context ends when its token expires.
var ErrExpired = wire.New(wire.CodeNotAllowed, "", "the token has expired; ask for another one")

// ErrUnknown is the answer to a token that is not in the set.
var ErrUnknown = wire.New(wire.CodeNotAllowed, "", "the token is not one that this controller knows; it may have "+
	"been revoked")

// ErrOnce is the answer to a link's token that is used for anything but Redeem.
var ErrOnce = wire.New(wire.CodeNotAllowed, "", "the token is that of a link, which logs in once: open the link")

// Open reads the file, if there is one. The error's message says what to do.
func Open(cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := durable.Clean(cfg.Path); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	gone, err := revoked.Open(filepath.Join(filepath.Dir(cfg.Path), revoked.TokensFile), cfg.Steps)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	s := &Store{cfg: cfg, revoked: gone, changes: make(chan struct{}, 1)}
	st := &state{revocations: map[string]revocation{}}
	if st.set, err = Read(cfg.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := gone.All()
	st.set = slices.DeleteFunc(st.set, func(t Token) bool { _, is := all[revoked.OfToken(t.Hash)]; return is })
	for _, t := range st.set {
		st.revocations[t.Name] = newRevocation()
	}
	s.current.Store(st)
	return s, nil
}

// Read reads the file of tokens. The error's message says what to do; it is fs.ErrNotExist if there is none.
func Read(path string) (Set, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("tokens: %s: others may use it (mode %04o); chmod 600 it", path, info.Mode().Perm())
	}
	set, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w; restore it from a backup, or remove it and make new tokens", path, err)
	}
	return set, nil
}

func newRevocation() revocation {
	ctx, revoke := context.WithCancelCause(context.Background())
	return revocation{ctx, revoke}
}

// Bearer is a caller that presented a valid token.
type Bearer struct {
	Name    string
	Role    Role
	Once    bool            // may do nothing but Redeem
	hash    Hash            // of the secret that was presented
	revoked context.Context // ends when the token is revoked
	left    time.Duration   // time until the token expires; 0: it never does
}

// Context returns a context that also ends when the token is revoked or expires, with the cause
// ErrRevoked or ErrExpired. The caller calls release after its work for the bearer.
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

// Who returns the bearer of a token. The error is ErrExpired, or ErrUnknown for every other reason, so
// that guessing reveals nothing.
func (s *Store) Who(text string) (*Bearer, error) {
	secret, err := apitoken.Parse(text)
	if err != nil {
		return nil, ErrUnknown
	}
	st := s.current.Load()
	i := st.set.Find(secret.Hash())
	if i < 0 {
		return nil, ErrUnknown
	}
	t, now := &st.set[i], s.cfg.Now()
	if t.Expired(now) || t.Late(now) {
		return nil, ErrExpired
	}
	b := &Bearer{Name: t.Name, Role: t.Role, Once: t.Once, hash: t.Hash, revoked: st.revocations[t.Name].ctx}
	if !t.Expires.IsZero() {
		b.left = t.Expires.Sub(now)
	}
	return b, nil
}

// List returns all tokens, sorted by name.
func (s *Store) List() Set { return s.current.Load().set }

// Now is the clock that decides whether a token has expired.
func (s *Store) Now() time.Time { return s.cfg.Now() }

// Link says that a token is for a link, which logs in once.
type Link struct {
	Within time.Duration // it has to be used so soon; 0: while the token counts
}

// Create makes a token with a lifetime; 0 means that it never expires. With link it is a link's. Create calls note
// after all checks and before the token becomes valid. If note fails, Create returns its error and makes no token.
// Every other error is a *wire.Error. Tokens of links that had to be used soon go from the list after their end.
func (s *Store) Create(ctx context.Context, name string, role Role, life time.Duration, link *Link, by string,
	note func(Token) error) (Token, apitoken.Secret, error) {
	fail := func(err error) (Token, apitoken.Secret, error) { return Token{}, apitoken.Secret{}, err }
	if life != 0 && (life < MinLife || life > MaxLife) {
		return fail(wire.New(wire.CodeBadValue, "/ttl", "a token counts for a minute at least and ten years at most"))
	}
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.unlock()
	old, secret := s.current.Load(), apitoken.New()
	t := Token{Name: name, Role: role, Hash: secret.Hash(), Created: s.cfg.Now().UTC().Truncate(time.Second), By: by,
		Once: link != nil}
	if life != 0 {
		t.Expires = t.Created.Add(life)
	}
	if link != nil && link.Within != 0 {
		t.Within = t.Created.Add(link.Within)
	}
	now := s.cfg.Now()
	set := slices.DeleteFunc(slices.Clone(old.set), func(t Token) bool {
		return !t.Within.IsZero() && (t.Expired(now) || t.Late(now))
	})
	if err := set.Check(t); err != nil {
		return fail(err)
	}
	if err := note(t); err != nil {
		return fail(err)
	}
	next := &state{set: set.With(t), revocations: map[string]revocation{}}
	for _, k := range next.set {
		next.revocations[k.Name] = old.revocations[k.Name]
	}
	next.revocations[t.Name] = newRevocation()
	if err := s.write(next.set); err != nil {
		return fail(wire.New(wire.CodeStorage, "", "the token was not made: "+err.Error()))
	}
	s.current.Store(next)
	return t, secret, nil
}

// Revoke ends a token and its requests in progress, at once. With an error of wire.CodeStorage the
// token is revoked, but would be valid again after a restart; revoking it again repeats the write.
func (s *Store) Revoke(ctx context.Context, name string) (Token, error) {
	if err := s.lock(ctx); err != nil {
		return Token{}, err
	}
	defer s.unlock()
	old := s.current.Load()
	next := &state{set: old.set.Without(name), unsaved: old.unsaved, revocations: map[string]revocation{}}
	var t Token
	if i := old.set.index(name); i >= 0 {
		t = old.set[i]
		next.unsaved = old.unsaved.Without(name).With(t)
	} else if i := old.unsaved.index(name); i >= 0 {
		t = old.unsaved[i]
	} else {
		return Token{}, wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no token %.80q", name))
	}
	for n, r := range old.revocations {
		if n != name {
			next.revocations[n] = r
		}
	}
	s.current.Store(next)
	if r, ok := old.revocations[name]; ok {
		r.revoke(ErrRevoked)
	}
	if err := errors.Join(s.write(next.set), s.never(t.Hash)); err != nil {
		return t, wire.New(wire.CodeStorage, "", "the token does not count any more, but the disk did not take that: "+
			"it would count again after a restart. Make room and revoke it again ("+err.Error()+")")
	}
	s.current.Store(&state{set: next.set, revocations: next.revocations})
	return t, nil
}

func (s *Store) write(set Set) error {
	return durable.WriteFile(s.cfg.Path, set.Encode(), 0o600, s.cfg.Steps)
}

// never has a secret not count after a start either, although the file of an older backup may have it.
func (s *Store) never(h Hash) error {
	return s.revoked.Note(map[string]time.Time{revoked.OfToken(h): s.cfg.Now()})
}

// lock begins a change of the tokens. It waits for another change, until ctx ends.
func (s *Store) lock(ctx context.Context) error {
	select {
	case s.changes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return wire.New(wire.CodeTimeout, "", "the tokens are being changed by somebody else")
	}
}

func (s *Store) unlock() { <-s.changes }
