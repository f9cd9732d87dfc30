// Package machine runs the agent's pure state machines. There is one way from an event to its effects: the machine
// takes a step; what the step has changed is saved, together with the events that tell of it; then its effects run.
//
// It guarantees that no effect runs before its state is on the disk, unless the machine says that the save may come
// later. It must not know what a machine decides.
package machine

import (
	"slices"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// Machine is one pure state machine, and what its owner does for it. S is its state, Ev its events, Ef its effects.
// All of it belongs to one goroutine. Running an effect may handle further events.
type Machine[S, Ev, Ef any] struct {
	State   S    // after the newest step
	Unsaved bool // State is not known to be on the disk

	Now  func() clock.Now
	Step func(S, clock.Now, Ev) (S, []Ef)
	// Failed takes the place of a step that had to be saved and was not; nil: no step has to be.
	Failed func(S, clock.Now, Ev, *wire.Error) (S, []Ef)
	Next   func(S) (time.Duration, bool) // the deadline of the next Tick; nil: there is none
	Tick   Ev
	Sort   func(Ef) Order
	// Answer answers an effect that only asks and changes nothing: with the event that follows, which is a part of the
	// same step, and of its save. false: it is run as the others are. Nil: nothing is answered.
	Answer func(Ef) (Ev, bool)
	// Commit saves events and every Unsaved state. Without must it keeps the events that it cannot save.
	Commit func(events []wire.Event, must bool) error
	Run    func(Ef)
	After  func() // called after the effects of each event; nil: nothing is
}

// Order is what an effect means for the save of its step. The zero Order is an effect that is only run.
type Order struct {
	Save bool        // the state has changed
	Must bool        // the step counts only if it is saved
	Emit *wire.Event // saved together with the state
}

// Handle takes the machine over one event.
func (m *Machine[S, Ev, Ef]) Handle(ev Ev) {
	now, before := m.Now(), m.State
	next, effects := m.Step(before, now, ev)
	for i := 0; m.Answer != nil && i < len(effects); i++ {
		if answer, ok := m.Answer(effects[i]); ok {
			var more []Ef
			next, more = m.Step(next, now, answer)
			effects = append(slices.Delete(effects, i, i+1), more...)
			i--
		}
	}
	save, must := m.Unsaved, false
	var events []wire.Event
	for _, e := range effects {
		o := m.Sort(e)
		save, must = save || o.Save, must || o.Must
		if o.Emit != nil {
			events = append(events, *o.Emit)
		}
	}
	m.State, m.Unsaved = next, save
	if save || len(events) > 0 {
		if err := m.Commit(events, must); err != nil && must {
			failed := wire.New(wire.CodeStorage, "", "the node's state cannot be saved: "+err.Error())
			m.State, effects = m.Failed(before, now, ev, failed)
		}
	}
	for _, e := range effects {
		m.Run(e)
	}
	if m.After != nil {
		m.After()
	}
}

// Due is when Elapse has something to do, on the monotonic clock; false: never.
func (m *Machine[S, Ev, Ef]) Due() (time.Duration, bool) {
	if m.Next == nil {
		return 0, false
	}
	return m.Next(m.State)
}

// Elapse handles a Tick if one is due.
func (m *Machine[S, Ev, Ef]) Elapse(now time.Duration) {
	if t, ok := m.Due(); ok && t <= now {
		m.Handle(m.Tick)
	}
}
