package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Forget takes nodes out of the unit, all of them or none; answered under Ticket. What one of them says from then on
// makes it a new node, unless it was revoked.
type Forget struct {
	Ticket uint64
	Nodes  []string
	Force  bool // also those that are online
	Reason string
	Who    string
}

func (Forget) event() {}

// Clear takes away what a node left retained.
type Clear struct{ Topics []string }

func (Clear) effect() {}

// maxForgotten bounds the names that are remembered as forgotten; the oldest go first.
const maxForgotten = 10_000

func (s *step) forget(ev Forget) {
	for _, name := range ev.Nodes {
		if err := s.mayForget(name, ev.Force); err != nil {
			s.effect(Answer{Ticket: ev.Ticket, Err: err})
			return
		}
	}
	for _, name := range ev.Nodes {
		s.leftCheck(name)
		s.emit(record.Record{Type: record.Forgotten, Node: name, Who: ev.Who}, record.ForgottenData{Reason: ev.Reason})
		of := topic.ForNode(s.opt.Unit, name)
		left := []string{of.Live()}
		for _, o := range s.outputs {
			left = append(left, of.Reported(o.Name))
			if len(o.from) > 0 {
				s.effect(Publish{Kind: o.Name, Nodes: []string{name}})
			}
		}
		s.effect(Clear{Topics: left})
	}
	s.effect(Answer{Ticket: ev.Ticket})
}

// mayForget returns why a node cannot be forgotten; nil: it can.
func (s *step) mayForget(name string, force bool) *wire.Error {
	n, sub := s.nodes[name], s.enrolled.Lookup(nodePrefix+name)
	_, forgotten := s.forgotten[name]
	switch {
	case n == nil && forgotten:
		return wire.New(wire.CodeNotFound, "", "node "+name+" was forgotten before")
	case n == nil && sub.Standing(s.now) == "":
		return neverHeardOf(name)
	case n != nil && n.Up && !force && !s.isRevoked(name):
		return wire.New(wire.CodeWrongState, "", "node "+name+" is online: with its next word it would be "+
			"a node of the unit again. Stop or revoke it first; if nothing is there, force it")
	}
	return nil
}

// applyForgotten takes a node out of the unit.
func (f *Fleet) applyForgotten(name string, at time.Time) {
	if n := f.nodes[name]; n != nil {
		f.agenda.remove(n)
	}
	delete(f.nodes, name)
	f.strangers.forget()
	delete(f.limiter.nodes, name)
	f.forgotten[name] = f.present(at)
	for len(f.forgotten) > maxForgotten {
		delete(f.forgotten, slices.MinFunc(slices.Collect(maps.Keys(f.forgotten)), func(a, b string) int {
			return cmp.Or(f.forgotten[a].Time.Compare(f.forgotten[b].Time), cmp.Compare(a, b))
		}))
	}
}

// disregards reports whether a message makes no node of a name that is not known: whoever was revoked comes back by
// joining anew; and of a node that was forgotten, what the broker retained is old, unless it says that it is online,
// and so is what was proved before. That it is gone is no news. What is retained is taken away.
func (s *step) disregards(h *Heard) bool {
	at, alive, will := s.forgotten[h.Node], h.Live != nil && h.Live.Up, h.Live != nil && !h.Live.Up
	repeated := h.Since.Epoch != 0 && h.Since.Before(at)
	switch {
	case h.Reply != nil || !s.isGone(h.Node):
		return false
	case !s.isRevoked(h.Node) && !repeated && !will && (!h.Retained || alive):
		return false
	case !h.Retained && !will: // a broker retains a will when it tells it
		return true
	}
	name := topic.ForNode(s.opt.Unit, h.Node).Live()
	if h.Reported != nil {
		name = topic.ForNode(s.opt.Unit, h.Node).Reported(h.Reported.Kind)
	}
	s.effect(Clear{Topics: []string{name}})
	return true
}

// isGone reports whether a name that is not known is that of a node that was revoked or forgotten.
func (f *Fleet) isGone(name string) bool {
	return f.nodes[name] == nil && (!f.forgotten[name].Time.IsZero() || f.isRevoked(name))
}

// isRevoked reports whether a node was revoked and has not joined anew.
func (f *Fleet) isRevoked(name string) bool {
	sub := f.enrolled.Lookup(nodePrefix + name)
	return sub != nil && !sub.Revoked.IsZero()
}

// takesDocuments reports whether documents may be issued to a node: it has told its type, which is the one that it was
// enrolled with, if that was said, and it was not revoked.
func (f *Fleet) takesDocuments(n *Node) bool {
	if n.Info == nil || f.isRevoked(n.Name) {
		return false
	}
	sub := f.enrolled.Lookup(nodePrefix + n.Name)
	return sub == nil || sub.Type == "" || sub.Type == n.Info.Type
}

// takeDocuments withdraws everything that was issued to some nodes.
func (s *step) takeDocuments(which func(*Node) bool) {
	for _, o := range s.outputs {
		s.withdraw(o, func(n *Node) bool { return n.Kinds[o.Name].Desired != nil && which(n) })
	}
}

// awaits ends what is remembered of a name that was forgotten, if a record says that somebody may come under it; and
// what was proved under it, if somebody has joined.
func (f *Fleet) awaits(d record.Enrolment) {
	switch d := d.(type) {
	case record.EnrolData:
		delete(f.forgotten, strings.TrimPrefix(d.Subject, nodePrefix))
	case record.JoinedData:
		name := strings.TrimPrefix(d.Subject, nodePrefix)
		delete(f.forgotten, name)
		if n := f.nodes[name]; n != nil {
			// No proof from before holds any more, and it may have no key yet.
			n.Heard, n.BootAt, n.PastBoots = wire.Heard{}, wire.Heard{}, nil
		}
	}
}

// Withdrawn lists where no document is to be retained, although one may be: of nodes that were revoked or forgotten.
func (f *Fleet) Withdrawn() (all []Publish) {
	nodes := slices.AppendSeq(slices.Collect(maps.Keys(f.forgotten)), maps.Keys(f.revoked()))
	for _, o := range f.outputs {
		if len(o.from) > 0 {
			all = append(all, Publish{Kind: o.Name, Nodes: nodes})
		}
	}
	return all
}
