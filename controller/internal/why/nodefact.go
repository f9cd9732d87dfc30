package why

import (
	"cmp"
	"slices"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// NodeFact is what Look goes by of one node. FactOf makes it; it does not change by time alone.
type NodeFact struct {
	Node, Type  string
	State       string           // as an identity has it: "revoked", "joined", "enrolled"; "": it has none
	Known       bool             // it has connected
	Online      bool             // it is connected
	Since       time.Time        // of Online
	Refused     []RefusedDoc     // documents that it did not take, by kind
	InError     wire.Code        // it tells that it is in error; "": it does not
	Alerts      []string         // parameters of those that are raised, each once
	Health      view.HealthState // "": it has not told
	HealthText  string           // of HealthError: what is wrong
	Checks      []string         // that fail
	Trial       string           // version of its agent, or "component version", that is on trial
	TrialUntil  time.Time        // it is rolled back then unless it may stay; zero: not known
	Approval    bool             // the trial needs approval
	Workloads   int              // slots that do not stay up
	ClockOff    bool             // its clock is wrong
	Certificate time.Time        // its end; zero: there is none
}

// RefusedDoc is a document that a node did not take.
type RefusedDoc struct {
	Kind wire.Kind
	Code wire.Code
}

// FactOf makes the fact of a node as a list shows it, with its identity; report is what it told of its health, nil:
// nothing; troubles and raised alerts are those that it has.
func FactOf(n *view.Node, report *wire.Health, troubles []rollout.Trouble, raised []view.Alert) NodeFact {
	f := NodeFact{Node: n.Node, Type: n.Type, Known: !n.FirstSeen.IsZero(), Online: n.Online, Since: n.Since}
	if id := n.Identity; id != nil {
		f.State, f.Certificate = id.State, id.Expires
	}
	if n.Info != nil && n.Info.Error != nil {
		f.InError = n.Info.Error.Code
	}
	for name, d := range n.Documents {
		if d.Desired != nil && !d.InSync {
			if err := refused(d); err != nil {
				f.Refused = append(f.Refused, RefusedDoc{name, err.Code})
			}
		}
		if l := d.Last; l != nil && l.At.Sub(d.ReportedAt) > clockSlack {
			f.ClockOff = true
		}
	}
	slices.SortFunc(f.Refused, func(a, b RefusedDoc) int { return cmp.Compare(a.Kind, b.Kind) })
	for _, t := range troubles {
		switch t.Aspect {
		case plan.Checks:
			f.Checks = append(f.Checks, t.Name)
		case plan.Workloads:
			f.Workloads++
		}
	}
	for _, a := range raised {
		if !slices.Contains(f.Alerts, a.Parameter) {
			f.Alerts = append(f.Alerts, a.Parameter)
		}
	}
	if n.Health != nil {
		f.Health = n.Health.State
		if f.Health == view.HealthError {
			f.HealthText = n.Health.Text
		}
		if report != nil {
			f.ofReport(report, n.Health.ReportedAt)
		}
	}
	return f
}

// clockSlack is how far a node may seem to be ahead before its clock is called wrong.
const clockSlack = 5 * time.Minute

// ofReport adds what a health report says, which came at that time.
func (f *NodeFact) ofReport(h *wire.Health, at time.Time) {
	f.ClockOff = f.ClockOff || h.Indicator == wire.IndicatorClock
	t := h.Trial
	if t == nil {
		return
	}
	f.Trial, f.Approval = t.Version, t.Approval == wire.ApprovalNeeded
	if t.Component != "" {
		f.Trial = t.Component + " " + t.Version
	}
	if t.Deadline > 0 {
		f.TrialUntil = at.Add(t.Deadline.Std())
	}
}
