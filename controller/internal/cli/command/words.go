package command

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/controller/internal/words"
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

// The pieces of text of package words, under the names by which commands know them.

// Whom is words.Whom.
func Whom(s *view.Scope) string { return words.Whom(s) }

// Amount is words.Amount.
func Amount(v float64) string { return words.Amount(v) }

// SettingsText is words.SettingsText.
func SettingsText(h *wire.HealthSettings) string { return words.SettingsText(h) }

// By is phrase.By.
func By(who string) string { return phrase.By(who) }

// Size is words.Size.
func Size(n int64) string { return words.Size(n) }

// ShortDigest is as much of a digest as a table shows. It is enough to name an artefact.
func ShortDigest(digest string) string {
	const digits = 12
	hex := strings.TrimPrefix(digest, wire.HashPrefix)
	return term.Clean(hex[:min(len(hex), digits)])
}
