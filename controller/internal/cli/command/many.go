package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/shared/wire"
)

// Many are the flags of a command that orders something of one node, or of all that a filter selects.
type Many struct {
	where  string
	dryRun bool
	yes    bool
	all    bool
	expect string
}

// Flags adds the flags to a command.
func (m *Many) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.where, "where", "", "instead of NODE, all nodes that this `FILTER` selects; see tandem nodes --help")
	f.BoolVar(&m.dryRun, "dry-run", false, "with --where: only say which nodes these are")
	f.BoolVar(&m.yes, "yes", false, "with --where: do not ask, however many they are")
	f.StringVar(&m.expect, "expect", "", "with --where: do not ask, and do nothing unless they are `N` nodes, or, "+
		"with what --dry-run shows, those")
	f.BoolVar(&m.all, "yes-all-nodes", false, "with --where: they may be all nodes")
}

// Args demands NODE and one argument for each further placeholder, or without NODE with --where.
func (m *Many) Args(placeholders ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("where") {
			if len(args) == len(placeholders)+1 {
				return Usage("%s takes NODE or --where FILTER, not both", cmd.CommandPath())
			}
			return Args(placeholders...)(cmd, args)
		}
		for _, name := range []string{"dry-run", "yes", "expect", "yes-all-nodes"} {
			if cmd.Flags().Changed(name) {
				return Usage("%s: --%s goes with --where FILTER", cmd.CommandPath(), name)
			}
		}
		if err := Args(append([]string{"NODE"}, placeholders...)...)(cmd, args); err != nil {
			return err
		}
		return CheckNode(cmd, args[0])
	}
}

// Given reports whether the order is to those that a filter selects.
func (m *Many) Given(cmd *cobra.Command) bool { return cmd.Flags().Changed("where") }

// shownNames is how many names a question or a dry run has for people.
const shownNames = 10

// Order gives an order to the nodes that are selected. What it is, is in in; what is what they do, for people, as in
// "reboot". Without --yes and --expect whoever is at the terminal is asked first.
func (m *Many) Order(cmd *cobra.Command, a *App, in op.NodesOrder, what string) error {
	if _, err := filter.Parse(m.where); err != nil {
		return &Failure{Exit: ExitUsage, Err: err}
	}
	in.Where, in.AllNodes = m.where, m.all
	if cmd.Flags().Changed("expect") {
		if in.Expect = m.expect; m.expect == "" {
			return Usage("--expect is empty: it is a number of nodes, or what --dry-run shows")
		}
	}
	if m.dryRun {
		in.DryRun = true
		return Ask(cmd.Context(), a, op.OrderNodes, in, func(a *App, v op.NodesOrdered) {
			a.Print("%s: %s\n", what, reached(&v))
			if v.Selected > 0 {
				a.Print("to order it of these and no others: --expect %s\n", term.Clean(v.Expect))
			}
		})
	}
	if !m.yes && in.Expect == "" {
		goOn, err := m.asked(cmd.Context(), a, &in, what)
		if err != nil || !goOn {
			return err
		}
	}
	return m.send(cmd, a, in, what)
}

// asked asks whoever is at the terminal whether to go on; if they do, the nodes are expected that were shown.
// It returns false if there is no node.
func (m *Many) asked(ctx context.Context, a *App, in *op.NodesOrder, what string) (bool, error) {
	var v op.NodesOrdered
	err := a.Connect(func(c *client.Client) (err error) {
		dry := *in
		dry.DryRun = true
		v, err = client.Call(ctx, c, op.OrderNodes, dry)
		return err
	})
	if err != nil {
		return false, err
	}
	if v.Selected == 0 {
		v.DryRun = false
		return false, printOrdered(a, what, &v)
	}
	in.Expect = v.Expect
	question, yes := "Go on? [y/N] ", func(typed string) bool {
		return strings.EqualFold(typed, "y") || strings.EqualFold(typed, "yes")
	}
	if v.AllNodes && !m.all {
		question = fmt.Sprintf("These are all nodes. Type %d, their number, to go on: ", v.Selected)
		yes = func(typed string) bool { return typed == strconv.Itoa(v.Selected) }
	}
	typed, asked, err := a.Question(fmt.Sprintf("%s: %s\n%s", what, reached(&v), question))
	switch {
	case err != nil:
		return false, err
	case !asked && v.AllNodes && !m.all:
		return false, Refuse(ExitRefused, wire.CodeNotAllowed, "the filter selects every node: %d of %[1]d; if that "+
			"is meant: --yes-all-nodes --expect %s", v.Selected, term.Clean(v.Expect))
	case !asked:
		return false, Refuse(ExitRefused, wire.CodeNotAllowed, "the filter selects %s, and nobody can be asked here; "+
			"if they are meant: --expect %s, or --yes for any number", term.Plural(v.Selected, "node"),
			term.Clean(v.Expect))
	case !yes(typed):
		return false, Refuse(ExitRefused, wire.CodeNotAllowed, "nothing was ordered")
	}
	in.AllNodes = v.AllNodes
	return true, nil
}

// send gives the order, and says what came of it. The answer comes when the last node has answered: it is waited for as
// long as that takes, unless --timeout says how long.
func (m *Many) send(cmd *cobra.Command, a *App, in op.NodesOrder, what string) error {
	if !cmd.Flags().Changed("timeout") {
		a.timeout = 0
	}
	var v op.NodesOrdered
	err := a.Connect(func(c *client.Client) (err error) {
		v, err = client.Call(cmd.Context(), c, op.OrderNodes, in)
		return err
	})
	if e, ok := errors.AsType[*wire.Error](err); ok && (e.Path == wire.PathAllNodes || e.Path == "/expect") {
		refused := *e
		if refused.Path = ""; e.Path == wire.PathAllNodes { // it is a flag here
			refused.Message = fmt.Sprintf("the filter selects every node: %d of %[1]d; if that is meant: "+
				"--yes-all-nodes", e.Nodes)
		}
		return &refused
	}
	if err != nil {
		return err
	}
	err = printOrdered(a, what, &v)
	i := slices.IndexFunc(v.Nodes, func(n op.NodeOrdered) bool { return n.Error != nil })
	if err != nil || i < 0 {
		return err
	}
	return Refuse(ExitIncomplete, v.Nodes[i].Error.Code, "not taken by %d of %s", v.Failed,
		term.Plural(v.Selected, "node"))
}

// reached says which nodes an order reaches.
func reached(v *op.NodesOrdered) string {
	if v.Selected == 0 {
		return "no such node"
	}
	text := term.Plural(v.Selected, "node")
	if v.Offline > 0 {
		text += fmt.Sprintf(", %d of them offline", v.Offline)
	}
	var names []string
	for i := range v.Nodes[:min(len(v.Nodes), shownNames)] {
		names = append(names, v.Nodes[i].Node)
	}
	text += ": " + term.Clean(strings.Join(names, ", "))
	if more := v.Selected - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printOrdered says what came of an order, and at which nodes nothing.
func printOrdered(a *App, what string, v *op.NodesOrdered) error {
	switch {
	case a.JSON:
		return a.PrintJSON(v)
	case v.Selected == 0:
		a.Print("no such node\n")
		return nil
	}
	a.Print("%s: taken by %d of %s\n", what, v.Done, term.Plural(v.Selected, "node"))
	if v.Failed == 0 {
		return nil
	}
	t := &term.Table{Head: []string{"NODE", "WHY NOT"}}
	listed := 0
	for i := range v.Nodes {
		if e := v.Nodes[i].Error; e != nil && listed < MaxShown {
			listed++
			t.Add(v.Nodes[i].Node, Brief(e))
		}
	}
	a.Print("\n")
	a.Table(t)
	if more := v.Failed - listed; more > 0 {
		a.Print("and %d more; --json lists them\n", more)
	}
	return nil
}
