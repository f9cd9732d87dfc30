package workloads

import (
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
)

// The states of slots in a view.Tally, as view.SlotProgress counts them.
const (
	tallyRunning   = "running"
	tallyCompleted = "completed"
	tallyStopped   = "stopped"
	tallyFailed    = "failed"
	tallyAway      = "away"
	tallyWaiting   = "waiting" // none of the others, yet
)

// tally counts the slots that a node should have. What is wrong with them is said of them, not of the node.
func tally(u kind.Unit, n kind.Node, t *view.Tally) (unwell bool) {
	set := installed(u)
	if set.of(n.Name) == nil {
		return false
	}
	node := sight{Node: n, known: true}
	slots := slotsOf(nil, set, stopped(u), &node)
	for i := range slots {
		if s := &slots[i]; s.Desired != "" {
			t.Workloads[standing(s)]++
		}
	}
	return false
}

// standing is the state of a slot of the set.
func standing(s *view.Slot) string {
	var p view.SlotProgress
	count(&p, s, &sight{})
	switch {
	case p.Completed > 0:
		return tallyCompleted
	case p.Stopped > 0:
		return tallyStopped
	case p.Running > 0:
		return tallyRunning
	case p.Away > 0:
		return tallyAway
	case p.Failed > 0:
		return tallyFailed
	}
	return tallyWaiting
}
