package enrol

import "tandem.internal/controller/internal/record"

// Prove says that a subject has proved a message.
type Prove struct{ Subject string }

func (Prove) event() {}

// prove has the first proof recorded since a subject joined.
func (s *State) prove(ev Prove) Decision {
	if sub := s.subjects[ev.Subject]; sub == nil || !sub.Proves.IsZero() || len(sub.Serials()) == 0 {
		return Decision{} // it is known already, or nothing of it counts any more
	}
	return Decision{Record: record.ProvesData{Subject: ev.Subject}}
}
