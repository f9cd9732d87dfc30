package command

import (
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

// Findings is a table of what is known about something.
func (a *App) Findings(all []view.Finding) *term.Table {
	colours := map[string]term.Colour{
		view.FindingGood: term.Green, view.FindingBad: term.Red, view.FindingWaits: term.Yellow,
	}
	t := &term.Table{}
	for _, f := range all {
		when := ""
		switch {
		case f.At.IsZero():
		case f.At.After(a.Now()):
			when = "in " + a.Left(f.At)
		default:
			when = a.Ago(f.At)
		}
		t.Add(f.About, colours[f.State].Cell(f.State), when, f.Text)
	}
	return t
}
