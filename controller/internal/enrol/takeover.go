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
// and whose key does not count any more, is refused.
type TakeOver struct {
	Subject string
	Serial  string
	Key     string // hash
	Expires time.Time
	CA      string // fingerprint
	From    string // address of who shows it
}

func (TakeOver) event() {}

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
	if s.checkKey(sub, ev.Key) != nil {
		return Decision{Err: wire.New(wire.CodeNotAllowed, "", "the key of the certificate does not count any more")}
	}
	if len(sub.Certificates) == 0 {
		return Decision{Record: record.JoinedData{Subject: ev.Subject, Serial: ev.Serial, Key: ev.Key,
			Expires: ev.Expires, CA: ev.CA, From: ev.From}}
	}
	return Decision{Record: record.RenewedData{Subject: ev.Subject, Serial: ev.Serial, Key: ev.Key,
		Expires: ev.Expires, CA: ev.CA, From: ev.From}}
}
