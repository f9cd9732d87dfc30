// Package enrol decides who belongs to the unit: which tokens are open, which certificates still
// count, and who was revoked. It is pure: events go in, journal records and refusals come out.
//
// The state changes only by records, but for who waits for an approval, which is in memory alone. Decide returns the
// record to write and leaves the state as it is. The shell makes the record durable. Apply then changes the state, at
// first and at every replay. So a used token stays used and a revoked subject stays revoked, whatever happens to the
// process. A certificate is signed only after the record with its serial is durable.
//
// Secrets never reach this package: a token is known by the SHA-256 of its secret. A caller without
// the secret of an issued token always gets the same answer; a caller with such a secret is told why
// the token is not valid any more. A subject is an identity as at the broker: "node/n1", "cloud/eu",
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

// TokenLife is the default lifetime of a token, MaxTokenLife the longest that its issuer may choose.
const (
	TokenLife    = 24 * time.Hour
	MaxTokenLife = 30 * 24 * time.Hour
)

// Bounds of what is kept of one subject.
const (
	maxTokens = 4  // tokens; the newest are kept
	maxBurned = 16 // keys that are not accepted any more; the newest are kept
	// maxAgain bounds the repeated joins with one token and key, after a lost answer. Each is a record,
	// and without a bound whoever has the token and the key could fill the journal.
	maxAgain = 16
)

// renewPause is the least time between two certificates of one subject, so that a faulty node cannot
// fill the journal.
const renewPause = time.Minute

// TokenState is the state of a token. Expiry is not a state: it follows from Token.Expires.
type TokenState string

// The states of a token.
const (
	Open      TokenState = "issued"
	Used      TokenState = "used"
	Withdrawn TokenState = "revoked"
)

// Token is one token of a subject.
type Token struct {
	Hash    string     `json:"hash"` // SHA-256 of the secret, in hexadecimal
	State   TokenState `json:"state"`
	Issued  time.Time  `json:"issued"`
	Expires time.Time  `json:"expires"`
	Who     string     `json:"who,omitempty"`   // issuer of the token
	Key     string     `json:"key,omitempty"`   // hash of the key that was certified with it
	Again   int        `json:"again,omitempty"` // joins with the same token and key after the first one
	Type    string     `json:"type,omitempty"`  // see Enrol
	Batch   bool       `json:"batch,omitzero"`  // it is the secret of a batch, with which others join, too
}

// Certificate is a certificate that is accepted.
type Certificate struct {
	Serial  string    `json:"serial"` // hexadecimal
	Key     string    `json:"key"`    // SHA-256 of the public key, in hexadecimal
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	CA      string    `json:"ca,omitempty"` // fingerprint of the CA that signed it
}

// Subject is what is known of one identity.
type Subject struct {
	Name         string        `json:"name"` // "node/n1"
	Tokens       []Token       `json:"tokens,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"` // accepted ones: at most two, the newest last
	Burned       []string      `json:"burned,omitempty"`       // hashes of keys that are not accepted any more
	Joined       time.Time     `json:"joined,omitzero"`        // time of the newest join
	Revoked      time.Time     `json:"revoked,omitzero"`       // time of the revocation; zero: not revoked
	RevokedBy    string        `json:"revokedBy,omitempty"`
	Proves       time.Time     `json:"proves,omitzero"` // since when it proves its messages; zero: it has not yet
	Type         string        `json:"type,omitempty"`  // the only node type that it may report; "": any
	Order        Order         `json:"order,omitzero"`
}

// State holds the subjects of one unit. One goroutine owns it.
type State struct {
	subjects map[string]*Subject // by name
	tokens   map[string]*Subject // owner of a token, by hash of the secret
	keys     map[string]*Subject // owner of an accepted certificate, by hash of its key
	batches  map[string]*Batch   // by hash of the secret
	ca       string              // fingerprint of the CA that signed the newest certificate

	waiting  queue         // for an approval; not part of the journaled state
	refusals flow.Throttle // bounds the records of refusals; not part of the journaled state
}

// New returns the state of a unit without subjects.
func New() *State {
	return &State{subjects: map[string]*Subject{}, tokens: map[string]*Subject{}, keys: map[string]*Subject{},
		batches: map[string]*Batch{}, waiting: newQueue()}
}

// Event is a request to Decide: one of the types below.
type Event interface{ event() }

// Enrol issues a token for a subject and withdraws its open tokens.
type Enrol struct {
	Subject string
	Hash    string        // of the token's secret
	Life    time.Duration // 0: TokenLife
	Who     string
	Type    string // the only node type that who joins with it may report; "": any
}

// Join asks for the first certificate, with the secret of a token or of a batch.
type Join struct {
	Subject string
	Hash    string // of the token's secret
	Key     string // hash of the key in the certificate request, whose signature was verified
	Serial  string // of the certificate to issue
	Expires time.Time
	CA      string // fingerprint of the CA that signs
	From    string // address of the caller
	Known   bool   // the unit knows a node of this name, although this package may not
}

// Renew asks for the next certificate, on a connection that is authenticated with the present one.
type Renew struct {
	Subject string
	Serial  string // of the present certificate
	Shown   string // hash of its key, which the caller has shown that it has
	Key     string // hash of the key in the certificate request
	Next    string // serial of the certificate to issue
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

// Revoke withdraws all tokens and certificates of a subject.
type Revoke struct {
	Subject string
	Reason  string
	Who     string
	Known   bool // the unit knows the subject, although this package may not
}

func (Enrol) event()   {}
func (Join) event()    {}
func (Renew) event()   {}
func (Certify) event() {}
func (Revoke) event()  {}

// Decision is the answer to an Event.
type Decision struct {
	Record record.Enrolment // to journal and apply, also when Err is set; nil: nothing to journal
	Err    *wire.Error      // reason of the refusal; nil: granted
	Guess  bool             // with Err: the secret is not that of an issued token
}

// Decide judges an event. An event of an unknown type is a bug in the caller and panics.
func (s *State) Decide(now time.Time, ev Event) Decision {
	switch ev := ev.(type) {
	case Enrol:
		return s.enrol(now, ev)
	case Join:
		d := s.join(now, ev)
		if d.Err != nil && d.Err.Code == wire.CodeUnavailable {
			return d // it waits for approval, and asks again: no refusal
		}
		return s.refusal(now, d, ev.Subject, ev.From)
	case Renew:
		d := s.renew(now, ev)
		return s.refusal(now, d, ev.Subject, ev.From)
	case Certify:
		return s.certify(now, ev)
	case Revoke:
		return s.revoke(now, ev)
	case WithdrawTokens:
		return s.withdrawTokens(ev)
	case TakeOver:
		return s.takeOver(ev)
	case NewBatch:
		return s.newBatch(now, ev)
	case RevokeBatch:
		return s.revokeBatch(ev)
	case Approve:
		return s.approve(now, ev)
	case Refuse:
		return s.refuseNodes(now, ev)
	case Prove:
		return s.prove(ev)
	}
	panic("enrol: unknown event")
}

// refuse returns a decision that refuses, without a record.
func refuse(code wire.Code, format string, a ...any) Decision {
	return Decision{Err: wire.New(code, "", fmt.Sprintf(format, a...))}
}

func (s *State) enrol(now time.Time, ev Enrol) Decision {
	if ev.Life == 0 {
		ev.Life = TokenLife
	}
	switch {
	case !jointoken.ValidSubject(ev.Subject):
		return refuse(wire.CodeInvalidArgument, "%.80q is not an identity", ev.Subject)
	case ev.Life < time.Minute || ev.Life > MaxTokenLife:
		return refuse(wire.CodeInvalidArgument, "a token lives from 1 minute to %d days", MaxTokenLife/(24*time.Hour))
	case s.tokens[ev.Hash] != nil || s.batches[ev.Hash] != nil:
		return refuse(wire.CodeInternal, "the secret was drawn before")
	}
	return Decision{Record: record.EnrolData{Subject: ev.Subject, Hash: ev.Hash, Expires: now.Add(ev.Life).UTC(),
		NodeType: ev.Type}}
}

// join judges a token. Its secret has 128 random bits and is looked up by its hash. The duration of
// the look-up could reveal something about the hash only, which does not help to guess the secret.
func (s *State) join(now time.Time, ev Join) Decision {
	if b := s.batches[ev.Hash]; b != nil {
		return s.joinBatch(now, ev, b)
	}
	sub, t := s.token(ev.Hash)
	if t == nil {
		d := refuse(wire.CodeNotAllowed, "the token is not valid here; make one with: tandem node enroll %s",
			nodeName(ev.Subject))
		d.Guess = true
		return d
	}
	again := t.State == Used && t.Key == ev.Key && sub.holds(ev.Key)
	switch {
	case sub.Name != ev.Subject:
		return refuse(wire.CodeWrongTarget, "the token is for another node")
	case t.State == Withdrawn:
		return refuse(wire.CodeNotAllowed, "the token was withdrawn; make a new one with: tandem node enroll %s",
			nodeName(ev.Subject))
	case t.State == Used && !again:
		return refuse(wire.CodeWrongState, "the token was used before; if that was not this node, revoke it. "+
			"A new token: tandem node enroll %s", nodeName(ev.Subject))
	case again && t.Again >= maxAgain:
		return refuse(wire.CodeWrongState, "the token was used %d times; make a new one with: tandem node enroll %s",
			1+t.Again, nodeName(ev.Subject))
	case !now.Before(t.Expires):
		return refuse(wire.CodeExpired, "the token was valid until %s; make a new one with: tandem node enroll %s",
			t.Expires.UTC().Format(time.RFC3339), nodeName(ev.Subject))
	}
	if err := s.checkKey(sub, ev.Key); err != nil {
		return Decision{Err: err}
	}
	return Decision{Record: record.JoinedData{Subject: ev.Subject, Token: ev.Hash, Serial: ev.Serial, Key: ev.Key,
		Expires: ev.Expires, CA: ev.CA, From: ev.From, Again: again, Replaced: sub.serials()}}
}

// token finds an issued token in any state, and its subject; nil if there is none.
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

// checkKey refuses a key that another subject has, or that is burned: several parties may hold it.
func (s *State) checkKey(sub *Subject, key string) *wire.Error {
	if holder := s.keys[key]; holder != nil && holder != sub || slices.Contains(sub.Burned, key) {
		return wire.New(wire.CodeBadValue, "/csr",
			"the key is in use elsewhere or does not count any more; make a new one")
	}
	return nil
}

func (s *State) renew(now time.Time, ev Renew) Decision {
	sub := s.subjects[ev.Subject]
	if err := s.Counts(ev.Subject, ev.Serial); err != nil {
		return Decision{Err: err}
	}
	// A CA that others have certifies any key under a serial number that counts. What was certified here is in the
	// journal.
	i := slices.IndexFunc(sub.Certificates, func(c Certificate) bool { return c.Serial == ev.Serial })
	switch present := &sub.Certificates[i]; {
	case present.Key != ev.Shown:
		return refuse(wire.CodeNotAllowed, "the certificate has another key than the one that was certified")
	case !now.Before(present.Expires):
		return refuse(wire.CodeExpired, "the certificate was valid until %s; join again with a new token: tandem "+
			"node enroll %s", present.Expires.UTC().Format(time.RFC3339), nodeName(ev.Subject))
	}
	if err := s.checkKey(sub, ev.Key); err != nil {
		return Decision{Err: err}
	}
	newest := sub.Certificates[len(sub.Certificates)-1]
	if wait := newest.Issued.Add(renewPause).Sub(now); wait > 0 && wait <= renewPause {
		return refuse(wire.CodeUnavailable, "the certificate was renewed a moment ago; try again in %v",
			wait.Round(time.Second))
	}
	return Decision{Record: record.RenewedData{Subject: ev.Subject, Old: ev.Serial, Serial: ev.Next, Key: ev.Key,
		Expires: ev.Expires, CA: ev.CA, From: ev.From}}
}

// certify judges an administrator's order. It replaces the subject's certificates, as a join does; see replacedBy.
func (s *State) certify(now time.Time, ev Certify) Decision {
	if !jointoken.ValidSubject(ev.Subject) {
		return refuse(wire.CodeInvalidArgument, "%.80q is not an identity", ev.Subject)
	}
	sub := s.subjects[ev.Subject]
	if sub == nil {
		sub = &Subject{}
	}
	if err := s.checkKey(sub, ev.Key); err != nil {
		return Decision{Err: err}
	}
	return Decision{Record: record.JoinedData{Subject: ev.Subject, Serial: ev.Serial, Key: ev.Key,
		Expires: ev.Expires, CA: ev.CA, Replaced: replacedBy(ev.Subject, sub)}}
}

// replacedBy returns the serials that do not count any more when a subject is certified. A broker's newest one goes
// on counting: it serves until somebody has installed the next.
func replacedBy(subject string, sub *Subject) []string {
	all := sub.serials()
	if isBroker(subject) {
		all = all[:max(0, len(all)-1)]
	}
	return all
}

func isBroker(subject string) bool { return strings.HasPrefix(subject, jointoken.BrokerRole+"/") }

func (s *State) revoke(now time.Time, ev Revoke) Decision {
	if !jointoken.ValidSubject(ev.Subject) {
		return refuse(wire.CodeInvalidArgument, "%.80q is not an identity", ev.Subject)
	}
	sub := s.subjects[ev.Subject]
	switch {
	case sub == nil && !ev.Known:
		return refuse(wire.CodeNotFound, "%s is not known", strings.Replace(ev.Subject, "/", " ", 1))
	case sub != nil && !sub.Revoked.IsZero() && !sub.hasOpenToken(now):
		return Decision{} // already revoked
	}
	return Decision{Record: record.RevokedData{Subject: ev.Subject, Reason: ev.Reason, Serials: sub.serials()}}
}

// Counts reports whether a certificate that TLS has verified is still accepted; nil: it is. The
// subject and the serial must be on the list, so a certificate without a record is refused.
func (s *State) Counts(subject, serial string) *wire.Error {
	sub := s.subjects[subject]
	return Counts(sub != nil, sub != nil && !sub.Revoked.IsZero(), sub.serials(), serial)
}

// Counts is the rule of State.Counts without a State: serials are the accepted serials of a subject
// that is known or not, and revoked or not.
func Counts(known, revoked bool, serials []string, serial string) *wire.Error {
	switch {
	case !known:
		return wire.New(wire.CodeNotAllowed, "", "nobody of this name has joined")
	case revoked:
		return wire.New(wire.CodeNotAllowed, "", "it was revoked; it needs a new token to join again")
	case !slices.Contains(serials, serial):
		return wire.New(wire.CodeNotAllowed, "", "the certificate does not count any more: a newer one was issued, "+
			"or another machine has joined under this name")
	}
	return nil
}

// CA returns the fingerprint of the CA that the unit's nodes trust; "" while none has joined.
func (s *State) CA() string { return s.ca }

func nodeName(subject string) string { return strings.TrimPrefix(subject, "node/") }
