package enrol

import (
	"slices"
	"time"
)

// Serials returns the serials of the accepted certificates; none if the subject is revoked.
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

// hasOpenToken reports whether the subject has a token that can still be used.
func (sub *Subject) hasOpenToken(now time.Time) bool {
	return slices.ContainsFunc(sub.Tokens, func(t Token) bool { return t.State == Open && now.Before(t.Expires) })
}

// Standing is the state of a subject in one word: "joined", "revoked", "enrolled" (it has an open
// token and no certificate) or "".
func (sub *Subject) Standing(now time.Time) string {
	switch {
	case sub == nil:
		return ""
	case sub.hasOpenToken(now) && len(sub.Serials()) == 0:
		return "enrolled"
	case !sub.Revoked.IsZero():
		return "revoked"
	case len(sub.Certificates) > 0:
		return "joined"
	}
	return ""
}

// Lookup returns a subject, nil if there is none of this name. The caller must not change it.
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
