package document

import (
	"fmt"
	"strings"

	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// slotFailure returns nil if every slot there is runs or has completed, else why not.
func (o *outcome) slotFailure(incomplete func(wire.Code, string) error) error {
	p, s := o.Progress, o.Slots
	switch {
	case o.Settled && p.Failed == 0 && s.Failed == 0:
		return nil
	case o.Settled && p.Failed > 0:
		return incomplete(wire.CodeApplyFailed, o.nodesFailed())
	case o.Settled:
		return incomplete(wire.CodeApplyFailed,
			fmt.Sprintf("accepted, but %s failed:\n%s", term.Plural(s.Failed, noun(o.parts)), slotLines(s)))
	}
	var parts []string
	if p.Installed < p.Nodes {
		parts = append(parts, o.nodesMissing())
	}
	if len(s.Missing) > 0 {
		did := "ran what they should"
		if o.parts {
			did = "had their versions"
		}
		parts = append(parts, fmt.Sprintf("only %d of %s %s %s:\n%s", s.Running+s.Completed,
			term.Plural(s.Slots, noun(o.parts)), did, o.when(), slotLines(s)))
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("what runs had not run for %v %s", steady, o.when()))
	}
	text := "accepted, but " + strings.Join(parts, "\n")
	return incomplete(wire.CodeTimeout, term.ShortenLines(text, wire.MaxMessage-64))
}

// slotWords describes a successful outcome for workloads.
func (o *outcome) slotWords() string {
	s := o.Slots
	var parts []string
	if s.Running > 0 {
		parts = append(parts, term.Plural(s.Running, "slot")+" running")
	}
	switch {
	case o.parts && s.Slots > 0:
		parts = append(parts, term.Plural(s.Completed, "component")+" installed")
	case s.Completed > 0:
		parts = append(parts, term.Plural(s.Completed, "job")+" completed")
	}
	switch {
	case s.Slots == 0 && o.parts:
		parts = append(parts, "no component is to have a version")
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
		text += "; not reached: " + term.List(later)
	}
	if missing := listing(o.Progress, anyone, false); missing != "" {
		text += "; offline, and get it when back: " + missing
	}
	return text
}

// noun names a slot, or a component.
func noun(part bool) string {
	if part {
		return "component"
	}
	return "slot"
}

// slotLines lists the slots that are not as they should be, each on a line.
func slotLines(s *view.SlotProgress) string {
	var all []string
	for _, m := range s.Missing {
		line := "  " + m.Slot + ": " + m.State
		if m.Why != "" {
			line += ", " + m.Why
		}
		all = append(all, term.Clean(line))
	}
	if s.Omitted > 0 {
		all = append(all, fmt.Sprintf("  and %d more", s.Omitted))
	}
	return term.ShortenLines(strings.Join(all, "\n"), wire.MaxMessage/2)
}

// slotsLate names the slots that are waited for, for the progress line.
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
	return ", waiting for " + term.List(all)
}

// placedRows adds what a set comes to: slots, slots that stop, and nodes that are not known.
func placedRows(t *term.Table, p *view.Placed) {
	if p.Slots == 0 {
		t.Add("slots", "none")
	} else {
		t.Add("slots", fmt.Sprintf("%d on %s", p.Slots, term.Plural(p.Nodes, "node")))
	}
	if len(p.Stops) > 0 {
		t.Add(term.Yellow.Cell("stops"), term.List(p.Stops)+" ("+why.NotInSet+")")
	}
	if len(p.Unknown) > 0 {
		t.Add(term.Yellow.Cell("unknown"), term.List(p.Unknown)+" (never heard of; gets its slots when it comes)")
	}
}
