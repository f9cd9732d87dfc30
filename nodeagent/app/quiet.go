package app

import (
	"time"

	"tandem.internal/nodeagent/internal/quiet"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// What the agent tells of how long nothing has happened, by package quiet.

// quietNow is what the report of the node's health says of it.
func (a *Agent) quietNow() *wire.HealthQuiet {
	for _, d := range a.documents {
		a.heed(d)
	}
	return a.quiet.Quiet(time.Since(a.began))
}

// heed looks at what a kind runs, and whether it stays up.
func (a *Agent) heed(d *documents) {
	now := time.Since(a.began)
	running, _ := d.inbox.State.Report()
	a.quiet.Running(now, d.name, running)
	if d.kind.Troubles != nil {
		a.quiet.Troubles(now, quiet.Workloads, string(d.name), d.kind.Troubles())
	}
}

// heedChecks looks at the functional checks of a report that is new.
func (a *Agent) heedChecks(checks []wire.HealthCheck) {
	var failing []string
	for _, c := range checks {
		if !c.OK {
			failing = append(failing, c.Name)
		}
	}
	a.quiet.Troubles(time.Since(a.began), quiet.Checks, "", failing)
}

// heedAlerts looks at what the alerts have come to.
func (a *Agent) heedAlerts(effects []alert.Effect) {
	for _, e := range effects {
		if e, ok := e.(alert.Emit); ok && e.Alert.State != alert.Continue {
			a.quiet.Happened(time.Since(a.began), quiet.Alerts)
		}
	}
}

// heedEvent looks at an event: a slot may have been ill between two reports.
func (a *Agent) heedEvent(kind string) {
	switch kind {
	case event.WorkloadExit, event.WorkloadUnhealthy, event.WorkloadBack, event.WorkloadRefused, event.WorkloadDamaged,
		event.WorkloadUndone:
		a.quiet.Happened(time.Since(a.began), quiet.Workloads)
	}
}
