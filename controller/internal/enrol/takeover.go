package enrol

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// TakeOver takes over a certificate of the unit's CA that the journal does not have, because it was issued after the
// backup that the journal was restored from. Whoever asks has shown its key, and has made sure of when it was issued.
// What the subject had before does not count any more, as if it had joined or renewed here. Who is known as revoked,
// and whose key does not count any more, is refused; so is everybody once the restored journal has a join, a renewal
// or a revocation of the subject. Of several such certificates the one that is valid from the newest time wins, for
// good, whatever was renewed with an older one.
type TakeOver struct {
	Subject   string
	Serial    string
	Key       string    // hash
	NotBefore time.Time // of the certificate
	Expires   time.Time
	CA        string // fingerprint
	From      string // address of who shows it
	Restored  uint64 // number of the newest record that the backup had
}

func (TakeOver) event() {}

// Order is what decides between the certificates of a subject after a restore: numbers of records, which no clock
// moves. 0: none.
type Order struct {
	Settled   uint64    `json:"settled,omitempty"` // newest join or revocation
	Renewed   uint64    `json:"renewed,omitempty"` // newest renewal
	Taken     uint64    `json:"taken,omitempty"`   // newest TakeOver
	NotBefore time.Time `json:"notBefore,omitzero"`
}

func (s *State) takeOver(ev TakeOver) Decision {
	sub := s.subjects[ev.Subject]
	if sub != nil && slices.Contains(sub.Serials(), ev.Serial) {
		return Decision{} // by another connection
	}
	if sub == nil {
		sub = &Subject{}
	}
	if !sub.Revoked.IsZero() {
		return Decision{Err: Counts(true, true, nil, ev.Serial)}
	}
	o := sub.Order
	newer := o.Settled > ev.Restored || o.Renewed > ev.Restored && o.Taken <= ev.Restored
	if newer || !ev.NotBefore.After(o.NotBefore) {
		return Decision{Err: Counts(true, false, nil, ev.Serial)}
	}
	if s.checkKey(sub, ev.Key) != nil {
		return Decision{Err: wire.New(wire.CodeNotAllowed, "", "the key of the certificate does not count any more")}
	}
	if len(sub.Certificates) == 0 {
		return Decision{Record: record.JoinedData{Subject: ev.Subject, Serial: ev.Serial, Key: ev.Key,
			Expires: ev.Expires, CA: ev.CA, From: ev.From, NotBefore: ev.NotBefore}}
	}
	return Decision{Record: record.RenewedData{Subject: ev.Subject, Serial: ev.Serial, Key: ev.Key,
		Expires: ev.Expires, CA: ev.CA, From: ev.From, NotBefore: ev.NotBefore}}
}

// applyTaken puts down what a TakeOver has decided. The token with which the subject has joined is its newest one,
// withdrawn by now: its type holds.
func (sub *Subject) applyTaken(seq uint64, notBefore time.Time) {
	sub.Order.Taken, sub.Order.NotBefore = seq, notBefore.UTC()
	if n := len(sub.Tokens); n > 0 {
		sub.Type = sub.Tokens[n-1].Type
	}
}
