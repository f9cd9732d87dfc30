package enrol

import (
	"time"

	"tandem.internal/controller/internal/record"
)

// WithdrawTokens withdraws the open tokens of a subject, and leaves its certificates alone.
type WithdrawTokens struct{ Subject, Reason string }

func (WithdrawTokens) event() {}

func (s *State) withdrawTokens(now time.Time, ev WithdrawTokens) Decision {
	if sub := s.subjects[ev.Subject]; sub == nil || !sub.hasOpenToken(now) {
		return Decision{}
	}
	return Decision{Record: record.TokenWithdrawnData(ev)}
}

// WithOpenToken returns, sorted, the subjects with which somebody can join.
func (s *State) WithOpenToken(now time.Time) (all []string) {
	s.Each(func(sub *Subject) {
		if sub.hasOpenToken(now) {
			all = append(all, sub.Name)
		}
	})
	return all
}
