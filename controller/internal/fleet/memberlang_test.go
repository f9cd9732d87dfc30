package fleet

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/enrol"
)

// memberEvent reads an event about who belongs to the unit.
func (s *script) memberEvent(what string, args []string, has func(string) bool) Event {
	if what == "retained" {
		h := s.event(args[0], args[1:]).(Heard)
		h.Retained = true
		return h
	}
	s.tickets++
	if what == "forget" {
		force := has("force")
		nodes := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "force" })
		return Forget{Ticket: s.tickets, Nodes: nodes, Force: force, Reason: "gone", Who: "ann"}
	}
	return Enrolment{Ticket: s.tickets, Event: member(what, args[0], args[len(args)-1]), Who: "ann"}
}

// member is one step of a node's way into the unit, or its end.
func member(what, node, token string) enrol.Event {
	switch what {
	case "enrol":
		return enrol.Enrol{Subject: nodePrefix + node, Hash: token}
	case "join":
		return enrol.Join{Subject: nodePrefix + node, Hash: token, Key: "key-" + token, Serial: "1-" + token,
			Expires: origin.Add(90 * 24 * time.Hour), CA: "ca", From: "10.0.0.9"}
	}
	return enrol.Revoke{Subject: nodePrefix + node}
}

// ofMembers has a node join or be revoked, or forgets some.
func (d *drawn) ofMembers() Event {
	if rapid.Bool().Draw(d.T, "forget") {
		nodes := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n1", "n2", "n3", "n4"}), 1, 3, rapid.ID)
		force := rapid.Bool().Draw(d.T, "force")
		return Forget{Ticket: 1, Nodes: nodes.Draw(d.T, "forgotten"), Force: force, Who: "ann"}
	}
	token := rapid.SampledFrom([]string{"t1", "t2"}).Draw(d.T, "token")
	what := rapid.SampledFrom([]string{"enrol", "join", "revoke"}).Draw(d.T, "member")
	return Enrolment{Ticket: 1, Event: member(what, d.node(), token), Who: "ann"}
}
