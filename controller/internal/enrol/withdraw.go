package enrol

import (
	"slices"

	"tandem.internal/controller/internal/record"
)

// WithdrawTokens withdraws the unused tokens of a subject, also those that are over by the clock, which may be wrong,
// and leaves its certificates alone.
type WithdrawTokens struct{ Subject, Reason string }

func (WithdrawTokens) event() {}

func (s *State) withdrawTokens(ev WithdrawTokens) Decision {
	if sub := s.subjects[ev.Subject]; sub == nil || !sub.hasUnusedToken() {
		return Decision{}
	}
	return Decision{Record: record.TokenWithdrawnData(ev)}
}

// WithUnusedToken returns, sorted, the subjects as which somebody can join, if the clock lets them.
func (s *State) WithUnusedToken() (all []string) {
	s.Each(func(sub *Subject) {
		if sub.hasUnusedToken() {
			all = append(all, sub.Name)
		}
	})
	return all
}

func (sub *Subject) hasUnusedToken() bool {
	return slices.ContainsFunc(sub.Tokens, func(t Token) bool { return t.State == Open })
}
