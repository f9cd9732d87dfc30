// Package rootlist owns the lists of CAs and signing keys that a root key signs away from the unit (ADR 057). A node
// that was given the public half believes such a list whoever brings it: so it can follow its unit when no CA that it
// believes is left there, or when somebody else has that one.
//
// It guarantees: a list counts for one unit, under a signature made for lists, by a key that was known before it and
// that it names itself; numbers only rise. It must not know how lists travel, or what is done with their CAs.
//
//tandem:pure
package rootlist

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
)

// Bounds of what is read.
const (
	MaxList   = 6 << 10  // bytes of a list
	MaxLists  = 6        // lists of a chain
	MaxAnswer = 64 << 10 // bytes of a chain as it is encoded
	MaxRoots  = 4        // root keys that count at a time
	maxCAs    = 4
	maxKeys   = 16
)

// List is what a root key signs: which CAs and which signing keys a unit has. Further members are passed over, so that
// later programs may say more.
type List struct {
	Unit     string     `json:"unit"`
	Number   uint64     `json:"number"`          // rises; the time of the export in Unix seconds
	CAs      [][]byte   `json:"cas"`             // certificates in DER, the oldest first
	Signs    string     `json:"signs"`           // fingerprint of the one that certifies
	CAsRev   uint64     `json:"casRev,omitzero"` // number of the unit's list of CAs, as the join door says it
	UnitKeys []wire.Key `json:"unitKeys"`        // the oldest first
	KeysRev  uint64     `json:"keysRev,omitzero"`
	Roots    []string   `json:"roots"` // public keys, of which one has to sign the next list
}

// Signed is a list with its signature, as minisign makes it.
type Signed struct {
	List      []byte `json:"list"` // as it was signed
	Signature string `json:"signature"`
}

// Chain is the newest list, and before it those of before that named other root keys, the oldest first.
type Chain struct {
	Lists []Signed `json:"lists"`
}

// Encode writes a list as it is signed: for people, too, who have to read it.
func (l *List) Encode() ([]byte, error) {
	b, err := json.Marshal(l, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("write a list of CAs: %w", err)
	}
	return append(b, '\n'), nil
}

// Time is when the list was exported.
func (l *List) Time() time.Time { return time.Unix(int64(min(l.Number, 1<<40)), 0).UTC() }

// Comment is the trusted comment that a signature of the list needs: no signature of anything else counts for it.
func (l *List) Comment() string { return fmt.Sprintf("root-list %s %d", l.Unit, l.Number) }

// Parse reads a list, and checks all but the certificates, which the caller has to verify.
func Parse(data []byte) (*List, error) {
	if len(data) > MaxList {
		return nil, fmt.Errorf("it has more than %d bytes", MaxList)
	}
	var l List
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, errors.New("it is not a list of CAs as tandem ca export writes it")
	}
	if _, err := ParseRoots(l.Roots); err != nil {
		return nil, err
	}
	signs := func(der []byte) bool {
		sum := sha256.Sum256(der)
		return l.Signs == wire.HashPrefix+hex.EncodeToString(sum[:])
	}
	switch {
	case !wire.ValidName(l.Unit):
		return nil, errors.New("it names no unit")
	case l.Number == 0:
		return nil, errors.New("it has no number")
	case len(l.CAs) == 0 || len(l.CAs) > maxCAs:
		return nil, fmt.Errorf("it has not 1 to %d CAs", maxCAs)
	case !slices.ContainsFunc(l.CAs, signs):
		return nil, errors.New("it does not have the CA that certifies")
	case len(l.UnitKeys) == 0 || len(l.UnitKeys) > maxKeys:
		return nil, fmt.Errorf("it has not 1 to %d signing keys", maxKeys)
	}
	for i, k := range l.UnitKeys {
		same := func(o wire.Key) bool { return o.ID == k.ID }
		if len(k.Ed25519) != 32 || !wire.ValidName(k.ID) || slices.ContainsFunc(l.UnitKeys[:i], same) {
			return nil, errors.New("a signing key is not an Ed25519 key with an ID, or there twice")
		}
	}
	return &l, nil
}

// ParseRoots reads 1 to MaxRoots public keys, each of another ID.
func ParseRoots(texts []string) (keys publisher.Keys, err error) {
	if len(texts) == 0 || len(texts) > MaxRoots {
		return nil, fmt.Errorf("not 1 to %d root keys", MaxRoots)
	}
	for _, text := range texts {
		k, err := publisher.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q is no root key: %w", text, err)
		}
		keys = append(keys, k)
	}
	if len(keys.IDs()) != len(keys) {
		return nil, errors.New("a root key is there twice")
	}
	return keys, nil
}

// What may be wrong with a list, beside the errors of package publisher.
var (
	ErrComment = errors.New("its signature was not made for this list: the trusted comment is another one")
	ErrUnnamed = errors.New("the key that has signed it is not among the root keys that it names")
	ErrUnit    = errors.New("it is of another unit")
	ErrOld     = errors.New("it is no newer than one that was taken before")
)

// verify checks the signature of a list, which is s as it was read, by one of the roots.
func (l *List) verify(s Signed, roots publisher.Keys) error {
	sig, err := publisher.Parse(s.Signature)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	h := publisher.NewHash()
	h.Write(s.List)
	digest := h.Sum(nil)
	if err := roots.Verify(sig, digest); err != nil {
		return err
	}
	if sig.Comment() != l.Comment() {
		return ErrComment
	}
	// As in TUF, what names other roots is signed by the roots of before and by those that it names: nobody is left
	// with a key of which nobody has the secret half.
	named, err := ParseRoots(l.Roots)
	if err == nil && named.Verify(sig, digest) != nil {
		err = ErrUnnamed
	}
	return err
}

// Signer is the ID of the root key that a list says that it is signed with; "": it has no signature.
func (s Signed) Signer() publisher.ID {
	sig, err := publisher.Parse(s.Signature)
	if err != nil {
		return ""
	}
	return sig.ID()
}

// Known is what somebody knows of a unit's root keys.
type Known struct {
	Roots  []string // public keys, of which one has to have signed the next list
	Number uint64   // of the newest list that was taken; 0: none was
}

// Follow goes through the lists of a chain, as they come, and takes each that is newer than the one before it and
// signed by a root key of that. newest is the last one that was taken; nil: none was, and the error says why; it is
// ErrOld if nothing else is wrong.
func (k Known) Follow(unit string, chain []Signed) (next Known, newest *List, err error) {
	next, err = k, ErrOld
	for _, s := range chain {
		l, lerr := Parse(s.List)
		if lerr == nil && l.Unit != unit {
			lerr = ErrUnit
		}
		if lerr == nil && l.Number <= next.Number {
			continue // it may be signed by a key that does not count any more
		}
		var roots publisher.Keys
		if lerr == nil {
			roots, lerr = ParseRoots(next.Roots)
		}
		if lerr == nil {
			lerr = l.verify(s, roots)
		}
		if lerr != nil {
			if errors.Is(err, ErrOld) {
				err = lerr
			}
			continue
		}
		next, newest = Known{Roots: l.Roots, Number: l.Number}, l
	}
	if newest != nil {
		err = nil
	}
	return next, newest, err
}

// Begin takes the newest list of a chain by the root keys that it names itself: for who knows none yet, and has the
// chain from somebody whom he believes.
func Begin(unit string, chain []Signed) (Known, *List, error) {
	if len(chain) == 0 {
		return Known{}, nil, ErrOld
	}
	last := chain[len(chain)-1]
	l, err := Parse(last.List)
	if err != nil {
		return Known{}, nil, err
	}
	return Known{Roots: l.Roots}.Follow(unit, []Signed{last})
}

// Append returns a chain with another list at its end. Of those before it the first ones stay that named these root
// keys, the newest of them: who was away needs them to get from key to key.
func Append(chain []Signed, s Signed) []Signed {
	next := slices.Clone(chain)
	if n := len(next); n > 0 {
		last := roots(next[n-1])
		if n == 1 && len(last) == 1 || n > 1 && slices.Equal(last, roots(next[n-2])) {
			next = next[:n-1]
		}
	}
	next = append(next, s)
	return next[max(0, len(next)-MaxLists):]
}

// roots are the root keys that a list names, in order.
func roots(s Signed) []string {
	l, err := Parse(s.List)
	if err != nil {
		return nil
	}
	return slices.Sorted(slices.Values(l.Roots))
}

// EncodeChain writes a chain as the join door answers it.
func EncodeChain(chain []Signed) ([]byte, error) {
	if chain == nil {
		chain = []Signed{}
	}
	b, err := json.Marshal(&Chain{Lists: chain}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write a chain of lists: %w", err)
	}
	return b, nil
}

// DecodeChain reads a chain, within its bounds; its lists are not verified. The error is a *wire.Error.
func DecodeChain(data []byte) (*Chain, error) {
	var c Chain
	if len(data) > MaxAnswer {
		return nil, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("more than %d bytes", MaxAnswer))
	}
	if err := json.Unmarshal(data, &c, json.RejectUnknownMembers(true)); err != nil {
		return nil, wire.New(wire.CodeMalformed, "", "not a chain of lists of CAs")
	}
	if len(c.Lists) > MaxLists {
		return nil, wire.New(wire.CodeTooLarge, "/lists", fmt.Sprintf("more than %d", MaxLists))
	}
	for i, s := range c.Lists {
		if len(s.List) > MaxList || len(s.Signature) > publisher.MaxSignature {
			return nil, wire.New(wire.CodeTooLarge, fmt.Sprintf("/lists/%d", i), "a list or its signature")
		}
	}
	return &c, nil
}
