package fleet

import (
	"fmt"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Whoever may speak at a door without certificates can speak for names that nobody has. Each would be a node for ever.
const (
	maxStrangers  = 1_000   // nodes that have not joined, as soon as one has
	maxUnenrolled = 100_000 // nodes, as long as none has
)

// strangers counts the nodes that have joined, and the others. It is counted when it is asked for first, and kept from
// then on.
type strangers struct {
	counted        bool
	joined, others int
}

// forget has the nodes counted anew: who belongs to the unit, or which nodes there are, has changed.
func (s *strangers) forget() { s.counted = false }

// add counts a node that is new.
func (s *strangers) add(joined bool) {
	if joined {
		s.joined++
	} else {
		s.others++
	}
}

// count returns how many nodes have joined, and how many have not.
func (f *Fleet) count() (joined, others int) {
	if s := &f.strangers; !s.counted {
		*s = strangers{counted: true}
		for name := range f.nodes {
			s.add(f.hasJoined(name))
		}
	}
	return f.strangers.joined, f.strangers.others
}

func (f *Fleet) hasJoined(name string) bool {
	sub := f.enrolled.Lookup(nodePrefix + name)
	return sub != nil && !sub.Joined.IsZero()
}

// isCrowdedOut reports whether a message is of a name that is not known and was not enrolled, and makes no node because
// there are too many of those. That is told under no node's name, so that names cost nothing.
func (s *step) isCrowdedOut(h *Heard) bool {
	if s.nodes[h.Node] != nil || h.Reply != nil || h.Event != nil {
		return false
	}
	if sub := s.enrolled.Lookup(nodePrefix + h.Node); sub != nil && sub.Standing(s.now) != "" {
		return false
	}
	joined, others := s.count()
	most := maxUnenrolled
	if joined > 0 {
		most = maxStrangers
	}
	if others < most {
		return false
	}
	s.bad(Bad{Topic: topic.ForNode(s.opt.Unit, h.Node).Live(), Err: wire.New(wire.CodeTooLarge, "", fmt.Sprintf(
		"%d nodes have not joined: no further name becomes one; see who speaks at the door without certificates, and "+
			"take those that are none away: tandem node forget", others))})
	return true
}
