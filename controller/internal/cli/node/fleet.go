package node

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

// most is how many types and versions a screen shows.
const most = 8

func fleet(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "fleet", Short: "Show all nodes at a glance: how many there are, how they stand, what to look at",
		Long: "Show all nodes at a glance: how many there are, how they stand, what to look at.\n\n" +
			"The last column is a filter of \"tandem nodes\".",
		Example: "  tandem fleet", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ShowFleet, op.None{}, printFleet)
		},
	}
}

func printFleet(a *command.App, f view.Fleet) {
	for _, s := range f.Look {
		colour := map[view.Level]term.Colour{view.LevelError: term.Red, view.LevelWarning: term.Yellow}[s.Level]
		t := &term.Table{}
		t.Add(colour.Cell(s.Text))
		a.Table(t)
		if s.Filter != "" {
			a.Print("  tandem nodes %s\n", term.Clean(s.Filter))
		}
	}
	if len(f.Look) > 0 {
		a.Print("\n")
	}
	a.Print("%s, %d online\n", term.Plural(f.Nodes, "node"), f.Online)
	t := &term.Table{Indent: "  "}
	for _, c := range []struct {
		text   string
		n      int
		colour term.Colour
		filter string
	}{
		{"failed", f.Counts.Failed, term.Red, "class:failed"},
		{"unwell", f.Counts.Unwell, term.Red, "class:unwell"},
		{"offline", f.Counts.Offline, term.Yellow, "class:offline"},
		{"on the way", f.Counts.OnTheWay, term.Yellow, "class:on-the-way"},
		{"in step", f.Counts.InStep, term.Green, "class:in-step"},
		{"revoked", f.Counts.Revoked, term.Plain, "class:revoked"},
	} {
		if c.n == 0 {
			c.colour = term.Plain
		}
		t.Add(c.colour.Cell(c.text), strconv.Itoa(c.n), c.filter)
	}
	a.Table(t)
	countTable(a, "type", "not told", f.Types)
	countTable(a, "version", "nothing", f.Versions)
}

// countTable shows by how many nodes each value is had, the most frequent first.
func countTable(a *command.App, key, none string, counts map[string]int) {
	values := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	if len(values) == 0 {
		return
	}
	a.Print("\n%ss\n", key)
	t := &term.Table{Indent: "  "}
	for _, v := range values[:min(most, len(values))] {
		t.Add(cmp.Or(v, none), strconv.Itoa(counts[v]), key+":"+cmp.Or(v, `""`))
	}
	a.Table(t)
	if more := len(values) - most; more > 0 {
		a.Print("  and %d more\n", more)
	}
}
