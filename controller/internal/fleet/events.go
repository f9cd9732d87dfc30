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

	answered int // how often the node has agreed to send them
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
	n.gap.asked, n.gap.answered = 0, 0
	s.limiter.charge(s.now, h)
	if n.EventSeq >= n.forgotten+forgetEvery {
		s.forgetEvents(n)
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

// chaseEvents asks for what is missing. A node that has agreed twice to send it and had nothing lower
// does not have it any more: what it sent then stands. A question that is lost, or refused by a node
// whose clock is wrong, proves nothing.
func (s *step) chaseEvents(n *Node) {
	if h := n.gap.next(); h != nil && n.gap.answered >= 2 {
		delete(n.gap.held, h.Event.Seq)
		s.takeEvent(h)
		s.takeHeld(n)
		return
	}
	s.askEvents(n)
}

// forgetEvery is how many events a node keeps before it is told that they are safe here.
const forgetEvery = 100

// askEvents asks for what comes after the newest event here.
func (s *step) askEvents(n *Node) {
	n.gap.asked++
	s.forgetEvents(n)
}

// forgetEvents asks for what comes after the newest event here, which tells the node to forget the
// rest.
func (s *step) forgetEvents(n *Node) {
	n.forgotten = n.EventSeq
	params := wire.Encode(&wire.EventsParams{After: n.EventSeq})
	s.ask(wire.MethodEvents, []string{n.Name}, func(string) []byte { return params })
}
