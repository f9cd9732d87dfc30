package health

import (
	"fmt"
	"strings"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// brief is the node's health in a few words, nil if it has told nothing of it.
func brief(n kind.Node) *view.Health {
	h, reported := n.Detail.(*wire.Health)
	if !reported && len(n.Alerts) == 0 {
		return nil
	}
	v := &view.Health{State: view.HealthUnknown, Text: "not reported", Alerts: len(n.Alerts)}
	if reported {
		v.State, v.Text = inWords(h)
		v.ReportedAt = n.At
	}
	return v
}

// Whole returns all that is known of a node's health.
func Whole(n kind.Node) view.NodeHealth {
	h, _ := n.Detail.(*wire.Health)
	v := view.NodeHealth{Node: n.Name, Online: n.Up, Since: n.Since, Report: h, Raised: n.Alerts}
	v.Health = view.Health{State: view.HealthUnknown, Text: "not reported"}
	if b := brief(n); b != nil {
		v.Health = *b
	}
	return v
}

// inWords says what matters most about a node's health.
func inWords(h *wire.Health) (view.HealthState, string) {
	switch {
	case h.Postponed(): // the trial's own words
		return view.HealthTrial, inTrial(h.Trial)
	case h.Restart != nil && h.Restart.Reason == wire.BootFallback:
		return view.HealthRestart, "rollback wanted"
	case h.Restart != nil && h.Restart.Reason == wire.BootUpdate:
		return view.HealthRestart, "trial wanted"
	case h.Restart != nil:
		return view.HealthRestart, "reboot wanted"
	case h.Trial != nil:
		return view.HealthTrial, inTrial(h.Trial)
	case h.Indicator == wire.IndicatorCheck:
		return view.HealthCheck, "check " + failing(h.Checks)
	case h.Indicator >= wire.IndicatorRefused:
		text := wire.IndicatorTexts[h.Indicator]
		if text == "" {
			text = h.Text // a newer node's
		}
		return view.HealthError, text
	case !h.Contact.In:
		return view.HealthContact, "no contact"
	}
	return view.HealthOK, "ok"
}

// failing names the checks that fail.
func failing(checks []wire.HealthCheck) string {
	var names []string
	for _, c := range checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	const most = 2
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}

func inTrial(t *wire.HealthTrial) string {
	return strings.TrimSpace("trial "+t.Component) + " " + t.Version + trialWaits(t)
}

// trialWaits says what a trial waits for: what time alone does not bring goes first.
func trialWaits(t *wire.HealthTrial) string {
	texts := map[wire.WaitCode]string{
		wire.WaitWayBack: " has no way back", wire.WaitApproval: " needs approval", wire.WaitContact: " no contact",
		wire.WaitMaintenance: " paused",
	}
	for _, w := range t.WaitsFor {
		if w.Code == wire.WaitCheck {
			return " check " + w.Name
		}
	}
	for _, code := range []wire.WaitCode{wire.WaitWayBack, wire.WaitContact, wire.WaitMaintenance} {
		for _, w := range t.WaitsFor {
			if w.Code == code {
				return texts[code]
			}
		}
	}
	if t.Remaining > 0 {
		return " " + short(t.Remaining) + " left"
	}
	if t.Approval == wire.ApprovalNeeded {
		return texts[wire.WaitApproval]
	}
	return ""
}

// short renders a length of time with one unit, rounded up.
func short(s wire.Span) string {
	const second = wire.Span(1e9)
	for _, u := range []struct {
		size wire.Span
		mark string
	}{{24 * 60 * 60 * second, "d"}, {60 * 60 * second, "h"}, {60 * second, "m"}} {
		if s >= u.size {
			return fmt.Sprintf("%d%s", (s+u.size-1)/u.size, u.mark)
		}
	}
	return fmt.Sprintf("%ds", s/second)
}

// trouble says in words what operators should look at.
func trouble(u kind.Unit) []string {
	var refused, alerts, alarmed, waits int
	u.Each(wire.KindHealth, func(n kind.Node) {
		if k := n.Document; k != nil && k.Desired != nil && k.Settled() && !k.InStep() {
			refused++
		}
		if len(n.Alerts) > 0 {
			alerts, alarmed = alerts+len(n.Alerts), alarmed+1
		}
		if h, ok := n.Detail.(*wire.Health); ok && h.Trial != nil && h.Trial.Approval == wire.ApprovalNeeded {
			waits++
		}
	})
	var all []string
	if refused > 0 {
		all = append(all, kind.Many(refused, "node")+" did not take the newest health settings")
	}
	if alerts > 0 {
		all = append(all, "raised: "+kind.Many(alerts, "alert")+" on "+kind.Many(alarmed, "node"))
	}
	if waits > 0 {
		all = append(all, "a version on trial needs approval on "+kind.Many(waits, "node"))
	}
	return all
}

// tally counts a node by its health.
func tally(_ kind.Unit, n kind.Node, t *view.Tally) (unwell bool) {
	h, reported := n.Detail.(*wire.Health)
	if !reported {
		t.Health[view.HealthUnknown]++
		return false
	}
	state, _ := inWords(h)
	t.Health[state]++
	if l := h.Load; l != nil && n.Up {
		t.CPU.Add(l.CPU)
		t.RAM.Add(l.RAM)
	}
	switch {
	case h.Trial == nil:
	case h.Trial.Component == "":
		t.Trials["agent"]++
	default:
		t.Trials["component"]++
	}
	return state == view.HealthCheck || state == view.HealthError || state == view.HealthContact
}
