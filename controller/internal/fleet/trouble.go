package fleet

import (
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// Bad is a message that could not be taken: garbage, or something its sender has no business
// saying.
type Bad struct {
	Node  string
	Topic string
	Err   *wire.Error
	Again bool // what the node reported is lost: it is to report again

	Retained bool // the broker has kept it
}

func (Bad) event() {}

// troubles has, by their names, the senders whose bad messages were journaled of late.
type troubles map[string]*trouble

// trouble is the newest one of a sender that was journaled.
type trouble struct {
	at      time.Time
	skipped int // since
}

// One record in troubleEvery for each sender, and at most maxTroubled senders at a time, so that
// garbage cannot fill the journal.
const (
	troubleEvery = 10 * time.Second
	maxTroubled  = 1000
)

// admit reports whether one more of a sender may be journaled now, and how many were skipped before it.
func (all troubles) admit(now time.Time, sender string) (skipped int, ok bool) {
	t := all[sender]
	switch {
	case t != nil && now.Sub(t.at) < troubleEvery:
		t.skipped++
		return 0, false
	case t == nil && !all.room(now):
		return 0, false
	case t == nil:
		t = &trouble{}
		all[sender] = t
	}
	skipped, t.at, t.skipped = t.skipped, now, 0
	return skipped, true
}

// room reports whether there is room for another sender. Who was quiet for long enough makes it.
func (all troubles) room(now time.Time) bool {
	if len(all) >= maxTroubled {
		for name, old := range all {
			if now.Sub(old.at) >= troubleEvery {
				delete(all, name)
			}
		}
	}
	return len(all) < maxTroubled
}

func (s *step) bad(b Bad) {
	if b.Retained && s.isGone(b.Node) {
		s.effect(Clear{Topics: []string{b.Topic}})
		return
	}
	if skipped, ok := s.troubles.admit(s.now, b.Node); ok {
		s.emit(record.Record{Type: record.Trouble, Node: b.Node},
			record.TroubleData{Topic: b.Topic, Error: b.Err, Skipped: skipped})
		if n := s.nodes[b.Node]; b.Again && n != nil && n.Up {
			s.ask(wire.MethodReport, []string{n.Name}, nil)
		}
	}
}
