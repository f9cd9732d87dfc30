package fleet

import (
	"fmt"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// admit reports whether a report or a presence message may be journaled now. If not, it is held,
// and heard again by releaseHeld.
func (s *step) admit(h *Heard) bool {
	ok, began := s.limiter.admit(s.now, h)
	if began {
		n := topic.ForNode(s.opt.Unit, h.Node)
		name := n.Live()
		if h.Reported != nil {
			name = n.Reported(h.Reported.Kind)
		}
		s.bad(Bad{Node: h.Node, Topic: name, Err: wire.New(wire.CodeNotAllowed, "", fmt.Sprintf(
			"more than %g reports a second after a burst of %g: the newest of each is kept and journaled later",
			s.limiter.limits.StateRate, s.limiter.limits.StateBurst))})
	}
	return ok
}

// hears reports whether an event may be looked at now. If not, it stays in the node's queue and is
// asked for by releaseHeld. n is nil for a node that is not known yet.
func (s *step) hears(h *Heard, n *Node) bool {
	ok, began := s.limiter.hears(s.now, h.Node)
	if ok {
		return true
	}
	if began {
		s.bad(Bad{Node: h.Node, Topic: topic.ForNode(s.opt.Unit, h.Node).Event(),
			Err: wire.New(wire.CodeNotAllowed, "", fmt.Sprintf(
				"more than %g events a second after a burst of %g: they stay at the node until they are asked for",
				s.limiter.limits.EventRate, s.limiter.limits.EventBurst))})
	}
	if n != nil {
		n.liveEvents = max(n.liveEvents, h.Event.Seq)
		n.gap.anew() // what it sends in answer is not listened to, so silence proves nothing
		s.review(n, s.now)
	}
	return false
}

// releaseHeld goes on with what was beyond a node's limits.
func (s *step) releaseHeld() {
	held, ask := s.limiter.release(s.now)
	for _, h := range held {
		s.heard(h)
	}
	for _, h := range held {
		if n := s.nodes[h.Node]; n != nil {
			s.review(n, s.now) // it may not have been news any more
		}
	}
	for _, name := range ask {
		n := s.nodes[name]
		if n == nil {
			continue
		}
		if n.Up && n.EventSeq < n.liveEvents {
			n.gap.anew()
			s.askEvents(n)
		}
		s.review(n, s.now)
	}
}
