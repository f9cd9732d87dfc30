package cli

import (
	"context"
	"fmt"
	"strings"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// workloadStages follows the unit's workloads: nodes have their documents, and slots run.
func workloadStages(c *client.Client) follower {
	return func(ctx context.Context, each func(stage) error) error {
		return c.WatchWorkloads(ctx, func(st view.WorkloadStatus) error {
			return each(stage{rev: st.Rev, versions: []string{st.Version}, progress: st.Progress, slots: &st.Slots})
		})
	}
}

// slotFailure is why waiting for slots did not end well, nil if it did.
func (o *outcome) slotFailure(incomplete func(wire.Code, string) error) error {
	p, s := o.Progress, o.Slots
	switch {
	case o.Settled && p.Failed == 0 && s.Failed == 0:
		return nil
	case o.Settled && p.Failed > 0:
		return incomplete(wire.CodeApplyFailed, fmt.Sprintf("accepted, but %s did not take it:\n%s", plural(p.Failed, "node"), lines(p, settled)))
	case o.Settled:
		return incomplete(wire.CodeApplyFailed, fmt.Sprintf("accepted, but %s failed:\n%s", plural(s.Failed, "slot"), slotLines(s)))
	}
	var parts []string
	if p.Installed < p.Nodes {
		parts = append(parts, fmt.Sprintf("only %d of %s had it %s:\n%s", p.Installed, plural(p.Nodes, "node"), o.when(), lines(p, anyone)))
	}
	if len(s.Missing) > 0 {
		parts = append(parts, fmt.Sprintf("only %d of %s ran what they should %s:\n%s", s.Running+s.Completed, plural(s.Slots, "slot"), o.when(), slotLines(s)))
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("what runs had not run for %v %s", steady, o.when()))
	}
	text := "accepted, but " + strings.Join(parts, "\n")
	return incomplete(wire.CodeTimeout, clipLines(text, wire.MaxMessage-64))
}

// slotWords says that it went well.
func (o *outcome) slotWords() string {
	s := o.Slots
	var parts []string
	if s.Running > 0 {
		parts = append(parts, plural(s.Running, "slot")+" running")
	}
	if s.Completed > 0 {
		parts = append(parts, plural(s.Completed, "job")+" completed")
	}
	switch {
	case s.Slots == 0: // what ran may be on its way out
		parts = append(parts, "nothing is to run")
	case len(parts) == 0:
		parts = append(parts, "nothing runs yet")
	}
	var later []string
	for _, m := range s.Missing {
		later = append(later, m.Slot)
	}
	text := strings.Join(parts, ", ")
	if len(later) > 0 {
		text += "; not reached: " + listed(later)
	}
	if missing := listing(o.Progress, anyone, false); missing != "" {
		text += "; offline, and get it when back: " + missing
	}
	return text
}

// slotLines lists the slots that are not as they should be, each on a line.
func slotLines(s *view.SlotProgress) string {
	var all []string
	for _, m := range s.Missing {
		line := "  " + m.Slot + ": " + m.State
		if m.Why != "" {
			line += ", " + m.Why
		}
		all = append(all, clean(line))
	}
	if s.Omitted > 0 {
		all = append(all, fmt.Sprintf("  and %d more", s.Omitted))
	}
	return clipLines(strings.Join(all, "\n"), wire.MaxMessage/2)
}

// slotsLate names what is waited for, for the progress line.
func slotsLate(s *view.SlotProgress) string {
	var all []string
	for _, m := range s.Missing {
		if !m.Online {
			continue
		}
		text := m.Slot + " (" + m.State
		if m.Report != nil && m.Report.Doing != "" {
			text += ", " + m.Report.Doing
		}
		all = append(all, text+")")
	}
	if len(all) == 0 {
		return ""
	}
	return ", waiting for " + listed(all)
}

// placedRows tells what a set comes to.
func placedRows(t *table, p *view.Placed) {
	if p.Slots == 0 {
		t.add("slots", "none")
	} else {
		t.add("slots", fmt.Sprintf("%d on %s", p.Slots, plural(p.Nodes, "node")))
	}
	if len(p.Stops) > 0 {
		t.rows = append(t.rows, []cell{{"stops", yellow}, {text: listed(p.Stops) + " (not in the set any more)"}})
	}
	if len(p.Unknown) > 0 {
		t.rows = append(t.rows, []cell{{"unknown", yellow}, {text: listed(p.Unknown) + " (never heard of; gets its slots when it comes)"}})
	}
}
