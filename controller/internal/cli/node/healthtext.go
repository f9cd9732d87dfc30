package node

import (
	"cmp"
	"fmt"
	"strings"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// healthCell is a node's health in a table of nodes.
func healthCell(n view.Node) term.Cell {
	if n.Health == nil {
		return term.Cell{}
	}
	return healthWords(n.Health, n.Online)
}

// healthWords describes a node's health; of an offline node, what it was when it was last heard.
func healthWords(h *view.Health, online bool) term.Cell {
	c := term.Cell{Text: h.Text}
	switch h.State {
	case view.HealthOK:
		c.Colour = term.Green
	case view.HealthTrial, view.HealthRestart, view.HealthContact:
		c.Colour = term.Yellow
	case view.HealthCheck, view.HealthError:
		c.Colour = term.Red
	}
	if h.Alerts > 0 {
		c.Text += ", " + term.Plural(h.Alerts, "alert")
		if c.Colour == term.Green {
			c.Colour = term.Yellow
		}
	}
	if !online && h.State != view.HealthUnknown {
		return term.Cell{Text: "was " + c.Text}
	}
	return c
}

func printHealth(a *command.App, v view.NodeHealth) {
	t := &term.Table{}
	t.Add("Node", v.Node)
	up := term.Green.Cell("online for " + a.Age(v.Since))
	if !v.Online {
		up = term.Yellow.Cell("offline for " + a.Age(v.Since))
	}
	t.Add("Presence", up)
	words := healthWords(&v.Health, v.Online)
	if !v.Health.ReportedAt.IsZero() {
		words.Text += ", told " + a.Ago(v.Health.ReportedAt)
	}
	t.Add("Health", words)
	if v.Report != nil {
		healthRows(a, t, v.Node, v.Online, v.Report)
	}
	a.Table(t)
	if v.Report != nil {
		healthLists(a, v.Report)
	}
	printAlerts(a, v.Raised)
}

// healthRows describes a node's health report; of an offline node, its last one.
func healthRows(a *command.App, t *term.Table, node string, online bool, h *wire.Health) {
	indicator, contact := fmt.Sprintf("%d, %s", h.Indicator, h.Text), term.Yellow.Cell("no")
	if h.Contact.In {
		contact = term.Green.Cell("yes")
	}
	switch {
	case !online:
		indicator, contact = "was "+indicator, term.Cell{Text: "was " + contact.Text}
	case !h.Contact.Since.IsZero():
		contact.Text += ", for " + a.Age(h.Contact.Since)
	}
	if h.Contact.Result != "" {
		contact.Text += "; newest attempt: " + string(h.Contact.Result)
	}
	if !h.Contact.Last.IsZero() {
		contact.Text += "; newest word " + a.Ago(h.Contact.Last)
	}
	if !h.Contact.Document.IsZero() {
		contact.Text += "; newest document " + a.Ago(h.Contact.Document)
	}
	t.Add("Indicator", indicator)
	t.Add("Contact", contact)
	if h.Trial != nil {
		trialRows(a, t, node, h.Trial)
	}
	if r := h.Restart; r != nil {
		t.Add("Restart", term.Yellow.Cell(why.Restart(h, a.Clock(r.At))))
	}
	t.Add("Boot", fmt.Sprintf("%s, %s; started %s", term.Remark(string(h.Boot.Reason), h.Boot.Detail),
		a.Ago(h.Boot.At), term.Plural(int(min(h.Boot.Restarts, 1<<31-1)), "time")))
	if !h.Maintenance.IsZero() {
		t.Add("Maintenance", "its clocks stand still until "+a.Clock(h.Maintenance))
	}
	t.Add("Settings", command.SettingsText(&h.Settings))
}

// trialRows shows what is on trial, and what it takes to keep it.
func trialRows(a *command.App, t *term.Table, node string, x *wire.HealthTrial) {
	t.Add("Trial", term.Yellow.Cell(why.Trial(node, x)+"; for "+a.Age(x.Since)+" now"))
	for i, w := range x.WaitsFor {
		t.Add(map[bool]string{true: "Waits for"}[i == 0], strings.TrimSpace(string(w.Code)+" "+w.Name)+": "+w.Text)
	}
}

// healthLists shows the agent's slots, the components and the checks.
func healthLists(a *command.App, h *wire.Health) {
	if len(h.Slots) > 0 {
		a.Print("\n")
		t := &term.Table{Head: []string{"SLOT", "STATE", "VERSION", "VERIFIED", "RUNS"}}
		for _, s := range h.Slots {
			runs := map[bool]string{true: "yes"}[s.ID == h.Current]
			t.Add(s.ID, string(s.State), s.Version, term.YesNo(s.Verified), runs)
		}
		a.Table(t)
	}
	printComponents(a, h.Components)
	if len(h.Quarantine) > 0 {
		a.Print("\n")
		t := &term.Table{Head: []string{"IN QUARANTINE", "VERSION", "SINCE", "WHY"}}
		for _, q := range h.Quarantine {
			t.Add(cmp.Or(q.Component, "agent"), q.Version, a.Ago(q.At), q.Text)
		}
		a.Table(t)
	}
	if len(h.Checks) > 0 {
		a.Print("\n")
		t := &term.Table{Head: []string{"CHECK", "VERDICT", "SINCE", "WHY"}}
		for _, c := range h.Checks {
			verdict := term.Green.Cell("ok")
			if !c.OK {
				verdict = term.Red.Cell("fails")
			}
			t.Add(c.Name, verdict, a.Ago(c.Since), c.Message)
		}
		a.Table(t)
	}
}

// printComponents lists the components of a node and their updates.
func printComponents(a *command.App, all []wire.HealthComponent) {
	if len(all) == 0 {
		return
	}
	a.Print("\n")
	t := &term.Table{Head: []string{"COMPONENT", "STATE", "VERSION", "NEXT", "WHAT"}}
	for _, c := range all {
		t.Add(c.Name, string(c.State), c.Version, c.Next, c.Text)
	}
	a.Table(t)
}

// printAlerts lists raised alerts.
func printAlerts(a *command.App, raised []view.Alert) {
	if len(raised) == 0 {
		return
	}
	a.Print("\n")
	t := &term.Table{Head: []string{"ALERT", "VALUE", "RAISES AT", "FALLS BELOW", "SINCE"}}
	for _, r := range raised {
		t.Add(term.Red.Cell(r.Parameter), command.Amount(r.Value), command.Amount(r.Max), command.Amount(r.Min),
			a.Ago(r.Since))
	}
	a.Table(t)
}
