package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
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

// shows answers a question for the signature of a configuration.
func (s *script) shows(what string, flags []string, options map[string]string) Event {
	r := &wire.Reply{V: wire.Version, Node: flags[0], ID: s.show}
	if what == "hides" {
		r.Error = wire.New(wire.Code(flags[1]), "", "no")
		return s.heard(flags[0], r)
	}
	by, node := byte(1), flags[0]
	if v := options["by"]; v != "" {
		by = byte(number(s.t, v))
	}
	if v := options["for"]; v != "" {
		node = v
	}
	stamp, version, _ := strings.Cut(flags[1], ":")
	ref := s.ref(flags[0], wire.KindConfig, stamp, version)
	shown := &wire.Shown{Epoch: ref.Epoch, Rev: ref.Rev, Version: ref.Version, Hash: ref.Hash, Mode: wire.ModeApply}
	shown.Sig = testSigner(by).Sign(seal.DesiredPreimage(shown.Of("u1", node, wire.KindConfig)))
	r.Result = wire.Encode(shown)
	return s.heard(flags[0], r)
}

// proved proves a message with the beacon that heard=E@DURATION names.
func (s *script) proved(h Heard, heard string) Heard {
	var after string
	if _, err := fmt.Sscanf(heard, "heard=%d@%s", &h.Since.Epoch, &after); err != nil {
		s.t.Fatalf("%s: %v", heard, err)
	}
	d, err := time.ParseDuration(after)
	if err != nil {
		s.t.Fatal(err)
	}
	h.Since.Time = origin.Add(d)
	if h.Live != nil { // whose proof is in the journal
		h.Raw = wire.Prove(make([]byte, wire.ReportKeySize), "t", h.Raw, h.Since)
	}
	return h
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
