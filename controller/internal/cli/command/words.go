package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// StateColour is the colour of what became of a document.
func StateColour(s wire.State) term.Colour {
	switch s {
	case wire.StateInstalled:
		return term.Green
	case wire.StateRejected, wire.StateFailed, wire.StateRolledBack:
		return term.Red
	case wire.StateReceived, wire.StateApplying, wire.StateTrying:
		return term.Yellow
	}
	return term.Plain
}

// LaggardState says in one word what a node is doing about its newest document.
func LaggardState(l view.Laggard) string {
	switch {
	case l.State != "":
		return string(l.State)
	case l.Online:
		return "waiting"
	}
	return "offline"
}

// Laggards lists the nodes that do not have their newest document yet.
func (a *App) Laggards(p view.Progress) {
	if len(p.Missing) == 0 {
		return
	}
	t := &term.Table{Head: []string{"NODE", "ONLINE", "STATE", "WHY"}}
	for _, l := range p.Missing {
		t.Add(l.Node, term.YesNo(l.Online), StateColour(l.State).Cell(LaggardState(l)), Brief(l.Error))
	}
	a.Print("\n")
	a.Table(t)
	if p.Omitted > 0 {
		a.Print("and %d more\n", p.Omitted)
	}
}

// StatusRows describes the state of a source, whose command is word.
func (a *App) StatusRows(t *term.Table, word string, st view.SourceStatus) {
	t.Add("State", map[string]term.Colour{"installed": term.Green, "failed": term.Red}[st.State].Cell(st.State))
	if st.Version != "" {
		t.Add("Version", st.Version+", for "+a.Age(st.Since))
	}
	if st.Error != nil {
		t.Add("Error", term.Red.Cell(Brief(st.Error)))
		t.Add("", "recover with a valid update, or with: tandem "+word+" restore")
	}
	if st.Trial != nil {
		t.Add("On trial", fmt.Sprintf("%s until %s (%s left); keep it with: tandem %s confirm",
			st.Trial.Version, a.Clock(st.Trial.Deadline), a.Left(st.Trial.Deadline), word))
	}
	if r := st.Attempted; r != nil {
		what := "unreadable document"
		if r.Version != "" {
			what = r.Version
		}
		if r.Who != "" {
			what += " from " + r.Who
		}
		t.Add("Refused", what+", "+a.Ago(r.At)+": "+Brief(r.Error))
	}
	p := st.Progress
	nodes := fmt.Sprintf("%d known, %d online; %d up to date", p.Nodes, p.Online, p.Installed)
	switch {
	case p.OnlineMissing == 0:
	case st.State == "failed": // nothing new is sent to them
		nodes += fmt.Sprintf(", %d behind", p.OnlineMissing)
	default:
		nodes += fmt.Sprintf(", %d on the way", p.OnlineMissing)
	}
	if p.Failed > 0 {
		nodes += fmt.Sprintf(", %d failed", p.Failed)
	}
	t.Add("Nodes", nodes)
	if st.NoBroker != "" {
		t.Add("Broker", term.Red.Cell(why.NoBroker(st.NoBroker)))
	}
}

// Until says when something ends, and how long that is from now.
func (a *App) Until(t time.Time) string { return fmt.Sprintf("until %s (%s)", a.Clock(t), a.Left(t)) }

// Whom names the nodes that settings are for.
func Whom(s *view.Scope) string {
	switch {
	case s.All:
		return "all nodes"
	case len(s.Types) > 0:
		return "nodes of type " + term.List(s.Types)
	}
	return term.List(s.Nodes)
}

// Amount renders a measured value: a fraction, or bytes per second.
func Amount(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(float64(int64(v*10000+0.5))/10000, 'f', -1, 64)
}

// SettingsText renders settings of health in one line.
func SettingsText(h *wire.HealthSettings) string {
	var parts []string
	for _, f := range []struct {
		name string
		span wire.Span
	}{
		{"reset", h.Reset}, {"fallback", h.Fallback}, {"test", h.Test},
		{"deadline", h.Deadline}, {"contact", h.Contact}, {"watchdog", h.Watchdog},
	} {
		if f.span != 0 {
			parts = append(parts, f.name+" "+term.Exact(f.span.Std()))
		}
	}
	for _, f := range []struct {
		name  string
		value *bool
	}{{"approval", h.Approval}, {"reboot", h.Reboot}} {
		if f.value != nil {
			parts = append(parts, f.name+" "+term.YesNo(*f.value))
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
			text := f.name + " above " + Amount(f.limit.Max)
			if f.limit.For != 0 {
				text += " for " + term.Exact(f.limit.For.Std())
			}
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "nothing: the node's own settings, and the defaults"
	}
	return strings.Join(parts, ", ")
}

// By says who did something; "": nobody is known.
func By(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// Size is a number of bytes for people.
func Size(n int64) string { return term.Size(uint64(max(n, 0))) }

// ShortDigest is as much of a digest as a table shows. It is enough to name an artefact.
func ShortDigest(digest string) string {
	const digits = 12
	hex := strings.TrimPrefix(digest, wire.HashPrefix)
	return term.Clean(hex[:min(len(hex), digits)])
}
