package policy

import (
	"slices"
	"time"

	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// announced is what was weighed for an event of the plan.
type announced struct {
	plan   planID
	state  wire.PolicyState   // as of the newest step
	states []wire.PolicyState // that there was an event of; it is never changed, only replaced
	left   uint64             // states that had been told of and came again, since the newest event
}

// planID tells plans apart: a policy may be planned again, and another version is another plan.
type planID struct {
	policy string
	rev    uint64
	at     time.Time
	hash   string
}

func (p *Plan) id() planID {
	id := planID{policy: p.Policy, rev: p.Rev, at: p.At}
	if p.Target != nil {
		id.hash = p.Target.Hash
	}
	return id
}

// newAnnounced takes the state of a saved plan for announced.
func newAnnounced(p *Plan) announced {
	return announced{plan: p.id(), state: p.State, states: []wire.PolicyState{p.State}}
}

// tell tells of the plan's state by an event, once for each state of a plan: a download that fails and begins again
// for hours must not bury what matters. What is left out is counted in the next event.
func (t *step) tell() {
	a := &t.asked.announced
	if id := t.Plan.id(); a.plan != id {
		a.plan, a.state, a.states = id, "", nil
	}
	state := t.Plan.State
	if state == a.state {
		return
	}
	switch a.state = state; {
	case state == "" || state == wire.PolicyWaiting:
	case slices.Contains(a.states, state):
		a.left++
	default:
		t.do(Log{event.PolicyDetail{PolicyStatus: t.Plan.status(), Suppressed: a.left}})
		a.states, a.left = append(slices.Clip(a.states), state), 0
	}
}
