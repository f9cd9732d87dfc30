package fleet

import (
	"fmt"
	"slices"
	"strings"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/wire"
)

// EnrolList has tokens made for some nodes, all of them or none; answered under Ticket. No node is there twice.
type EnrolList struct {
	Ticket uint64
	Tokens []enrol.Enrol
	Known  Known
	Who    string
}

func (EnrolList) event() {}

// Known says what is to be done about nodes of a list that the unit knows.
type Known string

// What may be done about them.
const (
	KnownRefuse  Known = "refuse"  // refuse the list, and name them
	KnownSkip    Known = "skip"    // make no token for them
	KnownReplace Known = "replace" // make one, in place of one that is open
)

func (s *step) enrolList(ev EnrolList) {
	var known []string
	todo := make([]enrol.Enrol, 0, len(ev.Tokens))
	for _, t := range ev.Tokens {
		name := strings.TrimPrefix(t.Subject, nodePrefix)
		if ev.Known != KnownReplace && s.knows(name) {
			known = append(known, name)
			continue
		}
		if d := s.enrolled.Decide(s.now, t); d.Err != nil {
			s.effect(Answer{Ticket: ev.Ticket, Err: d.Err})
			return
		}
		todo = append(todo, t)
	}
	if ev.Known == KnownRefuse && len(known) > 0 {
		s.effect(Answer{Ticket: ev.Ticket, Err: wire.New(wire.CodeAlreadyExists, "", fmt.Sprintf(
			"the unit knows %d of these nodes: %s; leave them out with --known skip, or --known replace",
			len(known), firstOf(known)))})
		return
	}
	for _, t := range todo {
		s.enrolment(Enrolment{Event: t, Who: ev.Who})
	}
	s.effect(Answer{Ticket: ev.Ticket})
}

// knows reports whether a node has joined, may join, was revoked, or has said something.
func (s *step) knows(node string) bool {
	return s.nodes[node] != nil || s.enrolled.Lookup(nodePrefix+node).Standing(s.now) != ""
}

// maxListed bounds the names in an error about a list.
const maxListed = 20

func firstOf(names []string) string {
	if n := len(names) - maxListed; n > 0 {
		return strings.Join(names[:maxListed], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}

// HasToken reports whether a node has a token with this hash.
func (f *Fleet) HasToken(node, hash string) bool {
	sub := f.enrolled.Lookup(nodePrefix + node)
	return sub != nil && slices.ContainsFunc(sub.Tokens, func(t enrol.Token) bool { return t.Hash == hash })
}
