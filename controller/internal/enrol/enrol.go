// Package enrol decides who belongs to the unit: which tokens are open, which certificates still
// count, and who was revoked. It is pure: events go in, journal records and refusals come out.
//
// The state changes only by records: Decide says what to write and changes nothing that matters,
// the shell makes it durable, Apply then changes the state, as it does again at every replay. So
// what was used stays used and who was revoked stays revoked whatever happens to the process. A
// certificate is signed only after the record with its serial is durable.
//
// Secrets do not get here: a token is known by the SHA-256 of its secret. Who shows no open
// secret hears the same, whatever the reason; who knows the secret of a token hears why it does
// not help any more. A subject is an identity as at the broker: "node/n1", "cloud/eu",
// "operator/ann".
//
//tandem:pure
package enrol

import (
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// TokenLife is how long a token is open unless its issuer says otherwise, and MaxTokenLife how
// long at most: who needs more can issue another.
const (
	TokenLife    = 24 * time.Hour
	MaxTokenLife = 30 * 24 * time.Hour
)

// Bounds of what is remembered of one subject.
const (
	maxTokens = 4  // the newest
	maxBurned = 16 // keys that no longer count
	maxAgain  = 16 // answers that were lost: each is a record, and whoever has token and key could fill the journal
)

// renewPause is the least time between two certificates of one subject: a faulty one cannot fill
// the journal.
const renewPause = time.Minute

// TokenState is what became of a token. That it has expired is not a state but a matter of time.
type TokenState string

// The states of a token.
const (
	Open      TokenState = "issued"
	Used      TokenState = "used"
	Withdrawn TokenState = "revoked"
)

// Token is one token of a subject.
type Token struct {
	Hash    string     `json:"hash"` // of the secret
	State   TokenState `json:"state"`
	Issued  time.Time  `json:"issued"`
	Expires time.Time  `json:"expires"`
	Who     string     `json:"who,omitempty"`
	Key     string     `json:"key,omitempty"`   // that it was used for
	Again   int        `json:"again,omitempty"` // how often after the first time
}

// Certificate is one that counts.
type Certificate struct {
	Serial  string    `json:"serial"` // hexadecimal
	Key     string    `json:"key"`    // SHA-256 of the public key
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
}

// Subject is what is known of one identity.
type Subject struct {
	Name         string        `json:"name"` // "node/n1"
	Tokens       []Token       `json:"tokens,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"` // that count: at most the newest two
	Burned       []string      `json:"burned,omitempty"`       // keys that did
	Joined       time.Time     `json:"joined,omitzero"`        // last
	Revoked      time.Time     `json:"revoked,omitzero"`       // since; zero: it is not
	RevokedBy    string        `json:"revokedBy,omitempty"`
}

// State is who belongs to one unit. It belongs to one goroutine.
type State struct {
	subjects map[string]*Subject
	tokens   map[string]*Subject // by hash of the secret
	keys     map[string]*Subject // by hash of the key of a certificate that counts
	ca       string              // fingerprint of the CA that the newest certificate is from

	refusals flow.Throttle // only bounds the journal; not part of the state
}

// New returns the state of a unit that nobody belongs to.
func New() *State {
	return &State{subjects: map[string]*Subject{}, tokens: map[string]*Subject{}, keys: map[string]*Subject{}}
}

// Event is something that somebody wants.
type Event interface{ event() }

// Enrol makes a token for a subject; those that it had are withdrawn.
type Enrol struct {
	Subject string
	Hash    string        // of the secret
	Life    time.Duration // 0: TokenLife
	Who     string
}

// Join asks for the first certificate, with the secret of a token.
type Join struct {
	Subject string
	Hash    string // of the secret
	Key     string // of the request, which was checked
	Serial  string // of the certificate to be
	Expires time.Time
	CA      string // fingerprint of who signs
	From    string // address
}

// Renew asks for the next certificate, over a connection that the present one was shown on.
type Renew struct {
	Subject string
	Serial  string // of the certificate that was shown
	Key     string
	Next    string // serial of the certificate to be
	Expires time.Time
	CA      string
	From    string
}

// Certify is an administrator's order to certify a key without a token.
type Certify struct {
	Subject string
	Key     string
	Serial  string
	Expires time.Time
	CA      string
	Who     string
}

// Revoke ends everything that a subject has.
type Revoke struct {
	Subject string
	Reason  string
	Who     string
	Known   bool // the subject is known to the unit though it never joined
}

func (Enrol) event()   {}
func (Join) event()    {}
func (Renew) event()   {}
func (Certify) event() {}
func (Revoke) event()  {}

// Decision is the answer to an Event.
type Decision struct {
	Record record.Enrolment // to be journaled and applied, also with Err; nil: nothing
	Err    *wire.Error      // why not; nil: it is as was wished
	Guess  bool             // with Err: no open secret was shown
}

// Decide judges an event. An event of an unknown type is a bug in the caller and panics.
func (s *State) Decide(now time.Time, ev Event) Decision {
	switch ev := ev.(type) {
	case Enrol:
		return s.enrol(now, ev)
	case Join:
		d := s.join(now, ev)
		return s.refusal(now, d, ev.Subject, ev.From)
	case Renew:
		d := s.renew(now, ev)
		return s.refusal(now, d, ev.Subject, ev.From)
	case Certify:
		return s.certify(now, ev)
	case Revoke:
		return s.revoke(now, ev)
	}
	panic("enrol: unknown event")
}

func no(code wire.Code, format string, a ...any) Decision {
	return Decision{Err: wire.New(code, "", fmt.Sprintf(format, a...))}
}

func (s *State) enrol(now time.Time, ev Enrol) Decision {
	if ev.Life == 0 {
		ev.Life = TokenLife
	}
	switch {
	case !jointoken.ValidSubject(ev.Subject):
		return no(wire.CodeInvalidArgument, "%.80q is not an identity", ev.Subject)
	case ev.Life < time.Minute || ev.Life > MaxTokenLife:
		return no(wire.CodeInvalidArgument, "a token lives from 1 minute to %d days", MaxTokenLife/(24*time.Hour))
	case s.tokens[ev.Hash] != nil:
		return no(wire.CodeInternal, "the secret was drawn before")
	}
	return Decision{Record: record.EnrolData{Subject: ev.Subject, Hash: ev.Hash, Expires: now.Add(ev.Life).UTC()}}
}

// join judges a token. Its secret has 128 random bits and is looked up by its hash: what the time
// of the look-up could tell is of the hash, and of no use.
func (s *State) join(now time.Time, ev Join) Decision {
	sub, t := s.token(ev.Hash)
	if t == nil {
		d := no(wire.CodeNotAllowed, "the token is not valid here; make one with: tandem node enroll %s", nodeName(ev.Subject))
		d.Guess = true
		return d
	}
	again := t.State == Used && t.Key == ev.Key && sub.holds(ev.Key)
	switch {
	case sub.Name != ev.Subject:
		return no(wire.CodeWrongTarget, "the token is for another node")
	case t.State == Withdrawn:
		return no(wire.CodeNotAllowed, "the token was withdrawn; make a new one with: tandem node enroll %s", nodeName(ev.Subject))
	case t.State == Used && !again:
		return no(wire.CodeWrongState, "the token was used before; if that was not this node, revoke it. A new token: tandem node enroll %s", nodeName(ev.Subject))
	case again && t.Again >= maxAgain:
		return no(wire.CodeWrongState, "the token was used %d times; make a new one with: tandem node enroll %s", 1+t.Again, nodeName(ev.Subject))
	case !now.Before(t.Expires):
		return no(wire.CodeExpired, "the token was valid until %s; make a new one with: tandem node enroll %s", t.Expires.UTC().Format(time.RFC3339), nodeName(ev.Subject))
	}
	if err := s.keyOf(sub, ev.Key); err != nil {
		return Decision{Err: err}
	}
	return Decision{Record: record.JoinedData{Subject: ev.Subject, Token: ev.Hash, Serial: ev.Serial, Key: ev.Key, Expires: ev.Expires, CA: ev.CA,
		From: ev.From, Again: again, Replaced: sub.serials()}}
}

// token finds an issued token, whatever became of it.
func (s *State) token(hash string) (*Subject, *Token) {
	sub := s.tokens[hash]
	if sub == nil {
		return nil, nil
	}
	for i := range sub.Tokens {
		if t := &sub.Tokens[i]; subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hash)) == 1 {
			return sub, t
		}
	}
	return nil, nil
}

// keyOf refuses a key that is another's, or that was revoked: whoever has it would be believed.
func (s *State) keyOf(sub *Subject, key string) *wire.Error {
	if holder := s.keys[key]; holder != nil && holder != sub || slices.Contains(sub.Burned, key) {
		return wire.New(wire.CodeBadValue, "/csr", "the key is in use elsewhere or does not count any more; make a new one")
	}
	return nil
}

func (s *State) renew(now time.Time, ev Renew) Decision {
	sub := s.subjects[ev.Subject]
	if err := s.Counts(ev.Subject, ev.Serial); err != nil {
		return Decision{Err: err}
	}
	if err := s.keyOf(sub, ev.Key); err != nil {
		return Decision{Err: err}
	}
	newest := sub.Certificates[len(sub.Certificates)-1]
	if wait := newest.Issued.Add(renewPause).Sub(now); wait > 0 && wait <= renewPause {
		return no(wire.CodeUnavailable, "the certificate was renewed a moment ago; try again in %v", wait.Round(time.Second))
	}
	return Decision{Record: record.RenewedData{Subject: ev.Subject, Old: ev.Serial, Serial: ev.Next, Key: ev.Key, Expires: ev.Expires, CA: ev.CA, From: ev.From}}
}

// certify lets a subject have a key as well as the one it has.
func (s *State) certify(now time.Time, ev Certify) Decision {
	if !jointoken.ValidSubject(ev.Subject) {
		return no(wire.CodeInvalidArgument, "%.80q is not an identity", ev.Subject)
	}
	sub := s.subjects[ev.Subject]
	if sub == nil {
		sub = &Subject{}
	}
	if err := s.keyOf(sub, ev.Key); err != nil {
		return Decision{Err: err}
	}
	return Decision{Record: record.JoinedData{Subject: ev.Subject, Serial: ev.Serial, Key: ev.Key, Expires: ev.Expires, CA: ev.CA, Replaced: sub.serials()}}
}

func (s *State) revoke(now time.Time, ev Revoke) Decision {
	if !jointoken.ValidSubject(ev.Subject) {
		return no(wire.CodeInvalidArgument, "%.80q is not an identity", ev.Subject)
	}
	sub := s.subjects[ev.Subject]
	switch {
	case sub == nil && !ev.Known:
		return no(wire.CodeNotFound, "%s is not known", strings.Replace(ev.Subject, "/", " ", 1))
	case sub != nil && !sub.Revoked.IsZero() && !sub.pending(now):
		return Decision{} // it is already
	}
	return Decision{Record: record.RevokedData{Subject: ev.Subject, Reason: ev.Reason, Serials: sub.serials()}}
}

// Counts says whether a certificate that TLS has verified still counts; nil: it does. Anybody who
// is not on the list is refused, so a certificate that the journal does not know is worth nothing.
func (s *State) Counts(subject, serial string) *wire.Error {
	sub := s.subjects[subject]
	return Counts(sub != nil, sub != nil && !sub.Revoked.IsZero(), sub.serials(), serial)
}

// Counts is the rule of State.Counts: of a subject that is known or not, and revoked or not, these
// serials count.
func Counts(known, revoked bool, serials []string, serial string) *wire.Error {
	switch {
	case !known:
		return wire.New(wire.CodeNotAllowed, "", "nobody of this name has joined")
	case revoked:
		return wire.New(wire.CodeNotAllowed, "", "it was revoked; it needs a new token to join again")
	case !slices.Contains(serials, serial):
		return wire.New(wire.CodeNotAllowed, "", "the certificate does not count any more: a newer one was issued, or another machine has joined under this name")
	}
	return nil
}

// Lookup returns a subject, nil if it was never heard of. It must not be changed.
func (s *State) Lookup(subject string) *Subject { return s.subjects[subject] }

// Each calls fn for every subject in the order of names.
func (s *State) Each(fn func(*Subject)) {
	names := make([]string, 0, len(s.subjects))
	for name := range s.subjects {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fn(s.subjects[name])
	}
}

// CA returns the fingerprint of the CA that the unit's nodes trust; "" while none has joined.
func (s *State) CA() string { return s.ca }

// Serials returns the serials of the certificates that count.
func (sub *Subject) Serials() []string {
	if !sub.Revoked.IsZero() {
		return nil
	}
	return sub.serials()
}

func (sub *Subject) serials() []string {
	if sub == nil {
		return nil
	}
	var list []string
	for _, c := range sub.Certificates {
		list = append(list, c.Serial)
	}
	return list
}

func (sub *Subject) holds(key string) bool {
	return slices.ContainsFunc(sub.Certificates, func(c Certificate) bool { return c.Key == key })
}

// pending reports whether a token is open.
func (sub *Subject) pending(now time.Time) bool {
	return slices.ContainsFunc(sub.Tokens, func(t Token) bool { return t.State == Open && now.Before(t.Expires) })
}

// Standing is a subject's in one word: "joined", "revoked", "enrolled" (a token is open) or "".
func (sub *Subject) Standing(now time.Time) string {
	switch {
	case sub == nil:
		return ""
	case sub.pending(now) && len(sub.Serials()) == 0:
		return "enrolled"
	case !sub.Revoked.IsZero():
		return "revoked"
	case len(sub.Certificates) > 0:
		return "joined"
	}
	return ""
}

func nodeName(subject string) string { return strings.TrimPrefix(subject, "node/") }
