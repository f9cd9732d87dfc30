package command

import (
	"fmt"

	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

// PrintDiff prints what differs between two versions or files.
func (a *App) PrintDiff(v view.Diff) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	if len(v.Changes) == 0 {
		a.Print("no difference between %s and %s\n", term.Clean(v.From), term.Clean(v.To))
		return nil
	}
	a.Changes(v.Changes, v.Omitted)
	return nil
}

// Changes prints values that differ, and how many others there are.
func (a *App) Changes(all []view.Change, omitted int) {
	entry := ""
	for _, c := range all {
		if c.Entry != entry {
			entry = c.Entry
			a.Print("%s\n", term.Clean(entry))
		}
		sign, colour, what := "~", term.Yellow, string(c.Before)+" -> "+string(c.After)
		switch {
		case c.Before == nil:
			sign, colour, what = "+", term.Green, string(c.After)
		case c.After == nil:
			sign, colour, what = "-", term.Red, string(c.Before)
		}
		line := a.Paint(colour, fmt.Sprintf("%s %s: %s", sign, term.Clean(c.Pointer), term.Clean(what)))
		if entry != "" {
			line = "  " + line
		}
		a.Print("%s\n", line)
	}
	if omitted > 0 {
		a.Print("and %d more\n", omitted)
	}
}
