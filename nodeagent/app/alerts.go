package app

import (
	"tandem.internal/nodeagent/internal/machine"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/event"
)

// EventAlert is the type of the events that carry an alert (seed 000, Alert Rules).
const EventAlert = event.Alert

// alertMachine is the machine of the node's alerts.
type alertMachine = machine.Machine[alert.State, alert.Event, alert.Effect]

// newAlertMachine returns the machine of the node's alerts from what was saved. Alerts bound their own number.
func (a *Agent) newAlertMachine(saved alert.Durable) alertMachine {
	return alertMachine{
		State: alert.New(a.id.Node, saved, alert.Limits{}),
		Now:   a.now,
		Step: func(s alert.State, _ clock.Now, ev alert.Event) (alert.State, []alert.Effect) {
			s, effects := s.Step(ev)
			a.heedAlerts(effects)
			return s, effects
		},
		Sort: func(e alert.Effect) machine.Order {
			if e, ok := e.(alert.Emit); ok {
				ev := a.newEvent(EventAlert, nil, e.Alert)
				return machine.Order{Emit: &ev}
			}
			return machine.Order{Save: true}
		},
		Commit: a.saveStep,
		Run:    func(alert.Effect) {},
	}
}
