// Package tokens owns the tokens of operators and programs that call the API over TCP. A token has a
// name, a role and perhaps an end. Only the hash of its secret is kept.
//
// It guarantees that a token's text is available once, when it is made; that the duration of a
// comparison reveals nothing; that a token is valid only after it is on the disk, and is invalid from
// the moment at which it is revoked, in requests in progress as well, also if an older file is put back; and that the
// file is whole after any crash. It must not know HTTP, or the unit.
//
// Set and the file's format are pure; Store adds the file, and package apitoken has the secrets. ADR 014 says why there
// is a file beside the journal.
package tokens

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// Role is what a token may do.
type Role = op.Role

// The roles, as package op has them.
const (
	Metrics = op.Metrics
	View    = op.View
	Operate = op.Operate
	Admin   = op.Admin
)

// Roles lists them, the least first.
var Roles = op.Roles

// Token is a token without its secret.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Hash    Hash      `json:"hash"` // of the secret
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"` // who made it
	Expires time.Time `json:"expires,omitzero"`
	Once    bool      `json:"once,omitzero"` // it is a link's: it is for Redeem alone
	// of a link, also after that was used: the link could be used until then; zero: as long as the token counts
	Within time.Time `json:"within,omitzero"`
}

// Expired reports whether its end has come.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Late reports whether it is a link's and was not used in time.
func (t *Token) Late(now time.Time) bool {
	return t.Once && !t.Within.IsZero() && !now.Before(t.Within)
}

// Hash is SHA-256 of a secret; in JSON "sha256:" and hexadecimal.
type Hash [sha256.Size]byte

// MarshalText writes the hash.
func (h Hash) MarshalText() ([]byte, error) {
	return []byte(wire.HashPrefix + hex.EncodeToString(h[:])), nil
}

// UnmarshalText reads a hash.
func (h *Hash) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), wire.HashPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != len(h) {
		return errors.New("a hash is sha256: and 64 hexadecimal digits")
	}
	copy(h[:], b)
	return nil
}

// Max is how many tokens there may be.
const Max = 256

// Set is all tokens, sorted by name. It is immutable: With and Without return another one.
type Set []Token

// Check reports why a token cannot be added to the set; the error is a *wire.Error.
func (s Set) Check(t Token) error {
	switch {
	case !wire.ValidName(t.Name):
		return wire.New(wire.CodeBadValue, "/name", fmt.Sprintf("%.80q cannot name a token: letters, digits, and . _ "+
			"- after the first, at most 63", t.Name))
	case !t.Role.Valid():
		return wire.New(wire.CodeBadValue, "/role", fmt.Sprintf("%.80q is no role: metrics, "+
			"view, operate or admin", string(t.Role)))
	case s.index(t.Name) >= 0:
		return wire.New(wire.CodeAlreadyExists, "/name", "there is a token "+t.Name+" already; revoke it first, or "+
			"choose another name")
	case len(s) >= Max:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("there are %d tokens already; revoke some that are not "+
			"needed any more", Max))
	}
	return nil
}

func (s Set) index(name string) int {
	return slices.IndexFunc(s, func(t Token) bool { return t.Name == name })
}

// With returns the set with one more token, for which Check has returned nil.
func (s Set) With(t Token) Set {
	all := append(slices.Clone(s), t)
	slices.SortFunc(all, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Without returns the set without a token.
func (s Set) Without(name string) Set {
	return slices.DeleteFunc(slices.Clone(s), func(t Token) bool { return t.Name == name })
}

// Find returns the index of the token with that hash, -1 if there is none. Its duration does not
// depend on the hash.
func (s Set) Find(h Hash) int {
	found := -1
	for i := range s {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(h[:], s[i].Hash[:]), i, found)
	}
	return found
}

// format is the version of the file. Every other version is refused.
const format = 1

type file struct {
	Format int  `json:"format"`
	Sum    Hash `json:"sum,omitzero"` // of the tokens without white space; older programs wrote none
	Tokens Set  `json:"tokens"`
}

// sum proves the set: a role or an end that was changed is not taken for what was written.
func (s Set) sum() Hash { return sha256.Sum256(marshal(s)) }

func marshal(v any, options ...json.Options) []byte {
	b, err := json.Marshal(v, append(options, json.Deterministic(true))...)
	if err != nil {
		panic("tokens: cannot encode: " + err.Error())
	}
	return b
}

// Encode writes the set as its file.
func (s Set) Encode() []byte {
	return append(marshal(file{Format: format, Sum: s.sum(), Tokens: s}, jsontext.WithIndent(" ")), '\n')
}

// Decode reads the file. It accepts only what Encode writes, or has written: a set that was read in part could accept
// a revoked token.
func Decode(data []byte) (Set, error) {
	var f file
	if err := json.Unmarshal(data, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, wire.AsError(err)
	}
	switch {
	case f.Format != format:
		return nil, fmt.Errorf("format %d; this program knows %d", f.Format, format)
	case f.Sum != Hash{} && f.Sum != f.Tokens.sum():
		return nil, errors.New("it is damaged: the tokens are not those that were written")
	}
	var s Set
	for _, t := range f.Tokens {
		if err := s.Check(t); err != nil {
			return nil, err
		}
		if s.Find(t.Hash) >= 0 || t.Hash == (Hash{}) {
			return nil, fmt.Errorf("token %s has no hash of its own", t.Name)
		}
		s = s.With(t)
	}
	return s, nil
}
