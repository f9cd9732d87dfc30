package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// exact renders a length of time to the second: 7d, 2m30s.
func exact(s wire.Span) string {
	days := s.Std() / (24 * time.Hour)
	rest := s.Std() % (24 * time.Hour)
	text := ""
	if days > 0 {
		text = fmt.Sprintf("%dd", days)
	}
	for _, u := range []struct {
		size time.Duration
		mark string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := rest / u.size; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.mark)
		}
		rest %= u.size
	}
	if text == "" {
		return "0s"
	}
	return text
}

// amount renders a measured value: a fraction, or bytes per second.
func amount(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(float64(int64(v*10000+0.5))/10000, 'f', -1, 64)
}

// settingsText renders settings in one line.
func settingsText(h *wire.HealthSettings) string {
	var parts []string
	for _, f := range []struct {
		name string
		span wire.Span
	}{{"reset", h.Reset}, {"fallback", h.Fallback}, {"test", h.Test}, {"deadline", h.Deadline}, {"contact", h.Contact}, {"watchdog", h.Watchdog}} {
		if f.span != 0 {
			parts = append(parts, f.name+" "+exact(f.span))
		}
	}
	for _, f := range []struct {
		name  string
		value *bool
	}{{"approval", h.Approval}, {"reboot", h.Reboot}} {
		if f.value != nil {
			parts = append(parts, f.name+" "+map[bool]string{true: "yes", false: "no"}[*f.value])
		}
	}
	if c := h.Checks; c != nil {
		for _, f := range []struct {
			name  string
			limit *wire.HealthLimit
		}{{"cpu", c.CPU}, {"ram", c.RAM}, {"disk", c.Disk}, {"network", c.Network}} {
			if f.limit == nil {
				continue
			}
			text := f.name + " above " + amount(f.limit.Max)
			if f.limit.For != 0 {
				text += " for " + exact(f.limit.For)
			}
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "nothing: the node's own settings, and the defaults"
	}
	return strings.Join(parts, ", ")
}

// healthCell is a node's health in a table of nodes.
func healthCell(n view.Node) cell {
	if n.Health == nil {
		return cell{}
	}
	return healthWords(n.Health, n.Online)
}

// healthWords says a node's health; of a node that is away, what it was.
func healthWords(h *view.Health, online bool) cell {
	c := cell{text: h.Text}
	switch h.State {
	case view.HealthOK:
		c.colour = green
	case view.HealthTrial, view.HealthRestart, view.HealthContact:
		c.colour = yellow
	case view.HealthCheck, view.HealthError:
		c.colour = red
	}
	if h.Alerts > 0 {
		c.text += ", " + plural(h.Alerts, "alert")
		if c.colour == green {
			c.colour = yellow
		}
	}
	if !online && h.State != view.HealthUnknown {
		return cell{text: "was " + c.text}
	}
	return c
}

// with appends words in parentheses, if there are any.
func with(text, more string) string {
	if more == "" {
		return text
	}
	return text + " (" + more + ")"
}

func (a *app) printHealth(v view.NodeHealth) {
	t := &table{}
	t.add("Node", v.Node)
	up := cell{"online for " + a.age(v.Since), green}
	if !v.Online {
		up = cell{"offline for " + a.age(v.Since), yellow}
	}
	t.rows = append(t.rows, []cell{{text: "Presence"}, up})
	words := healthWords(&v.Health, v.Online)
	if !v.Health.ReportedAt.IsZero() {
		words.text += ", told " + a.ago(v.Health.ReportedAt)
	}
	t.rows = append(t.rows, []cell{{text: "Health"}, words})
	if v.Report != nil {
		a.healthRows(t, v.Node, v.Online, v.Report)
	}
	a.printTable(t)
	if v.Report != nil {
		a.healthLists(v.Report)
	}
	a.printAlerts(v.Raised)
}

// healthRows shows what a node tells; of a node that is away, what it told.
func (a *app) healthRows(t *table, node string, online bool, h *wire.Health) {
	indicator, contact := fmt.Sprintf("%d, %s", h.Indicator, h.Text), cell{"no", yellow}
	if h.Contact.In {
		contact = cell{"yes", green}
	}
	switch {
	case !online:
		indicator, contact = "was "+indicator, cell{text: "was " + contact.text}
	case !h.Contact.Since.IsZero():
		contact.text += ", for " + a.age(h.Contact.Since)
	}
	if h.Contact.Result != "" {
		contact.text += "; newest attempt: " + string(h.Contact.Result)
	}
	if !h.Contact.Last.IsZero() {
		contact.text += "; newest word " + a.ago(h.Contact.Last)
	}
	if !h.Contact.Document.IsZero() {
		contact.text += "; newest document " + a.ago(h.Contact.Document)
	}
	t.add("Indicator", indicator)
	t.rows = append(t.rows, []cell{{text: "Contact"}, contact})
	if x := h.Trial; x != nil {
		where := "in slot " + x.Slot
		if x.Component != "" {
			where = "of component " + x.Component
		}
		text := fmt.Sprintf("%s %s for %s", x.Version, where, a.age(x.Since))
		if x.Remaining > 0 {
			text += "; " + exact(x.Remaining) + " of test time left"
		}
		if x.Deadline > 0 {
			text += "; rolled back unless kept within " + exact(x.Deadline)
		}
		if x.Offline {
			text += "; the site was offline before"
		}
		if x.Approval == wire.ApprovalNeeded {
			text += "; to keep it: tandem node approve " + node + " --version " + x.Version
		} else if x.Approval != "" {
			text += "; approved by " + x.Approval
		}
		t.rows = append(t.rows, []cell{{text: "Trial"}, {text, yellow}})
		for i, w := range x.WaitsFor {
			t.add(map[bool]string{true: "Waits for"}[i == 0], strings.TrimSpace(string(w.Code)+" "+w.Name)+": "+w.Text)
		}
	}
	if r := h.Restart; r != nil {
		when := ", not before " + a.clock(r.At)
		if h.Postponed() {
			when = ", once the trial is over"
		}
		t.rows = append(t.rows, []cell{{text: "Restart"}, {with(string(r.Reason), r.Detail) + when, yellow}})
	}
	t.add("Boot", fmt.Sprintf("%s, %s; started %s", with(string(h.Boot.Reason), h.Boot.Detail), a.ago(h.Boot.At), plural(int(min(h.Boot.Restarts, 1<<31-1)), "time")))
	if !h.Maintenance.IsZero() {
		t.add("Maintenance", "its clocks stand still until "+a.clock(h.Maintenance))
	}
	t.add("Settings", settingsText(&h.Settings))
}

func (a *app) healthLists(h *wire.Health) {
	if len(h.Slots) > 0 {
		a.print("\n")
		t := &table{head: []string{"SLOT", "STATE", "VERSION", "VERIFIED", "RUNS"}}
		for _, s := range h.Slots {
			t.rows = append(t.rows, []cell{{text: s.ID}, {text: string(s.State)}, {text: s.Version}, {text: map[bool]string{true: "yes", false: "no"}[s.Verified]},
				{text: map[bool]string{true: "yes"}[s.ID == h.Current]}})
		}
		a.printTable(t)
	}
	a.printComponents(h.Components)
	if len(h.Checks) > 0 {
		a.print("\n")
		t := &table{head: []string{"CHECK", "VERDICT", "SINCE", "WHY"}}
		for _, c := range h.Checks {
			verdict := cell{"ok", green}
			if !c.OK {
				verdict = cell{"fails", red}
			}
			t.rows = append(t.rows, []cell{{text: c.Name}, verdict, {text: a.ago(c.Since)}, {text: c.Message}})
		}
		a.printTable(t)
	}
}

// printComponents lists the parts of a node that programs update.
func (a *app) printComponents(all []wire.HealthComponent) {
	if len(all) == 0 {
		return
	}
	a.print("\n")
	t := &table{head: []string{"COMPONENT", "STATE", "VERSION", "NEXT", "WHAT"}}
	for _, c := range all {
		t.rows = append(t.rows, []cell{{text: c.Name}, {text: string(c.State)}, {text: c.Version}, {text: c.Next}, {text: c.Text}})
	}
	a.printTable(t)
}

// printAlerts lists the raised ones.
func (a *app) printAlerts(raised []view.Alert) {
	if len(raised) == 0 {
		return
	}
	a.print("\n")
	t := &table{head: []string{"ALERT", "VALUE", "RAISED AT", "FALLS BELOW", "SINCE"}}
	for _, r := range raised {
		t.rows = append(t.rows, []cell{{r.Parameter, red}, {text: amount(r.Value)}, {text: amount(r.Max)}, {text: amount(r.Min)}, {text: a.ago(r.Since)}})
	}
	a.printTable(t)
}
