package enrol

import (
	"slices"

	"tandem.internal/controller/internal/record"
)

// Prove says that a subject has proved a message, with the report key of a certificate.
type Prove struct{ Subject, Serial string }

func (Prove) event() {}

// prove has the first proof recorded since a subject joined.
func (s *State) prove(ev Prove) Decision {
	if sub := s.subjects[ev.Subject]; sub == nil || !sub.Proves.IsZero() || !slices.Contains(sub.Serials(), ev.Serial) {
		return Decision{} // it is known already, or that certificate does not count any more
	}
	return Decision{Record: record.ProvesData{Subject: ev.Subject}}
}
