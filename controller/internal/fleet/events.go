package fleet

import (
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// gap is what came of a node's events before its turn. Messages of one burst may be handled in any
// order, so an event that skips some is held until they have come.
type gap struct {
	held  map[uint64]*Heard // by sequence number; nil: none
	asked int               // how often the missing ones were asked for

	question string // the ID of the newest question, without the node's name; "": it proves nothing any more
	agreed   bool   // the node has agreed to answer it
	first    uint64 // the lowest that the node has sent since; 0: none
	proven   uint64 // what was first in answer to the last questions
	proofs   int    // and to how many of them
}

// maxHeld bounds the events that wait for their turn; what does not fit is asked for again.
const (
	maxHeld     = 64
	maxHeldSize = 16 << 10 // bytes of one event
)

// heardEvent journals events in order, each once.
func (s *step) heardEvent(h *Heard) {
	e, n := h.Event, s.nodes[h.Node]
	var newest uint64
	if n != nil {
		newest = n.EventSeq
	}
	switch {
	case e.Seq <= newest:
		return
	case n != nil && h.Since.Before(n.EventsSince):
		return // played again, from before its disk was wiped
	case !s.hears(h, n):
		return
	case e.Seq <= newest+1+e.Lost:
		s.takeEvent(h)
		s.takeHeld(s.nodes[h.Node])
	case n == nil:
		// The first word of a node is an event in the middle: it will say that it is there, and
		// is asked then.
		return
	default:
		if n.gap.held == nil {
			n.gap.held = map[uint64]*Heard{}
		}
		if len(n.gap.held) < maxHeld && len(h.Raw) <= maxHeldSize {
			n.gap.held[e.Seq] = h
		}
		n.liveEvents = max(n.liveEvents, e.Seq)
		if n.gap.first == 0 || e.Seq < n.gap.first {
			n.gap.first = e.Seq
		}
		if n.gap.asked == 0 {
			s.askEvents(n)
		}
	}
	s.review(s.nodes[h.Node], s.now)
}

func (s *step) takeEvent(h *Heard) {
	s.emit(record.Record{Type: record.Event, Node: h.Node, Kind: h.Event.Type, Data: h.Raw}, h.Event)
	n := s.nodes[h.Node]
	n.liveEvents = max(n.liveEvents, h.Event.Seq)
	n.gap.anew()
	s.limiter.charge(s.now, h)
	if n.EventSeq >= n.ackedEvents+ackEvery {
		s.ackEvents(n)
	}
}

// takeHeld journals what is no longer ahead of its turn.
func (s *step) takeHeld(n *Node) {
	for {
		h := n.gap.next()
		if h == nil || h.Event.Seq > n.EventSeq+1+h.Event.Lost {
			break
		}
		delete(n.gap.held, h.Event.Seq)
		if h.Event.Seq > n.EventSeq {
			s.takeEvent(h)
		}
	}
	if len(n.gap.held) == 0 {
		n.gap.held = nil
	}
}

// next returns the held event with the lowest number, nil if there is none.
func (g *gap) next() *Heard {
	var lowest *Heard
	for _, h := range g.held {
		if lowest == nil || h.Event.Seq < lowest.Event.Seq {
			lowest = h
		}
	}
	return lowest
}

// anew forgets what was asked and answered: another event is missing now, or what was sent in answer
// was not listened to.
func (g *gap) anew() {
	g.asked = 0
	g.broken()
}

// broken forgets what was answered: of what was sent in answer some may have been lost with a session.
func (g *gap) broken() {
	g.question, g.agreed, g.first, g.proven, g.proofs = "", false, 0, 0, 0
}

// weigh looks at what came of the newest question, and reports whether the node does not have any more
// what is missing: asked twice in one session, it has agreed each time and then begun with what is held.
// A question that is lost, or refused by a node whose clock is wrong, proves nothing, and an answer that
// came twice is one.
func (g *gap) weigh(held *Heard) bool {
	if held == nil || !g.agreed || g.first != held.Event.Seq {
		return false
	}
	if g.proven != g.first {
		g.proven, g.proofs = g.first, 0
	}
	g.proofs++
	return g.proofs >= 2
}

// chaseEvents asks for what is missing. If the node does not have it, what it sent then stands.
func (s *step) chaseEvents(n *Node) {
	if h := n.gap.next(); n.gap.weigh(h) {
		delete(n.gap.held, h.Event.Seq)
		s.takeEvent(h)
		s.takeHeld(n)
		return
	}
	s.askEvents(n)
}

// ackEvery is how many events a node keeps before they are acknowledged.
const ackEvery = 100

// askEvents asks for what comes after the newest event here.
func (s *step) askEvents(n *Node) {
	g := &n.gap
	g.asked++
	g.question, g.agreed, g.first = s.ackEvents(n), false, 0
}

// ackEvents asks for what comes after the newest event here, which acknowledges all up to it: the node forgets
// them. It returns the question's ID.
func (s *step) ackEvents(n *Node) string {
	n.ackedEvents = n.EventSeq
	params := wire.Encode(&wire.EventsParams{After: n.EventSeq})
	return s.ask(wire.MethodEvents, []string{n.Name}, func(string) []byte { return params })
}
