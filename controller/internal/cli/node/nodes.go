package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

func list(a *command.App) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "nodes", Short: "List the nodes: what each runs, what it should run, and why not",
		Example: "  tandem nodes\n  tandem nodes --watch", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return a.Connect(func(c *client.Client) error { return watchNodes(cmd.Context(), a, c) })
			}
			return command.Ask(cmd.Context(), a, op.ListNodes, op.None{}, func(a *command.App, all op.Nodes) {
				printNodes(a, all.Nodes)
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "go on showing changes until interrupted")
	return cmd
}

// watchNodes draws the table anew on a terminal; elsewhere each change is a line.
func watchNodes(ctx context.Context, a *command.App, c *client.Client) error {
	known, first := map[string]view.Node{}, true
	err := client.Follow(ctx, c, op.WatchNodes, op.Watched{Watch: true}, func(ch op.NodeChange) error {
		if a.JSON {
			if err := a.PrintJSON(ch); err != nil {
				return err
			}
			return a.Flush()
		}
		line := ""
		switch {
		case ch.Node != nil:
			known[ch.Node.Node] = *ch.Node
			if !first {
				line = changeLine(*ch.Node, summarize(a, *ch.Node))
			}
		case ch.Gone != "":
			delete(known, ch.Gone)
			line = term.Clean(ch.Gone) + " is not known any more"
		}
		if line != "" && !a.OutTerminal {
			a.Print("%s  %s\n", a.Now().In(a.Zone).Format("15:04:05"), line)
		}
		if ch.Complete && (first || a.OutTerminal) {
			if a.OutTerminal {
				a.Clear()
			}
			printNodes(a, slices.Collect(maps.Values(known)))
		}
		first = first && !ch.Complete
		return a.Flush()
	})
	return command.Interrupted(ctx, err)
}

func changeLine(n view.Node, s summary) string {
	up := "offline"
	if n.Online {
		up = "online"
	}
	line := fmt.Sprintf("%s %s, runs %s, should run %s: %s",
		n.Node, up, cmp.Or(s.running, "nothing"), cmp.Or(s.desired, "nothing"), s.state)
	if s.why != "" {
		line += ": " + s.why
	}
	return term.Clean(line)
}

// summary compares a node's desired and running document of the unit's own source. What the node is in error
// with is why, too.
type summary struct {
	running, desired, state, why string
	colour                       term.Colour
	since                        time.Time
}

func summarize(a *command.App, n view.Node) summary {
	if isRevoked(n) {
		return summary{state: n.Identity.State, colour: term.Red, since: n.Identity.Revoked}
	}
	s := documentSummary(a, n)
	if n.Info != nil && n.Info.Error != nil {
		s.why = strings.TrimPrefix(s.why+"; in error: "+command.Brief(n.Info.Error), "; ")
	}
	return s
}

// isRevoked reports whether a node is not let in any more: nothing is expected of it.
func isRevoked(n view.Node) bool { return n.Identity != nil && n.Identity.State == "revoked" }

func documentSummary(a *command.App, n view.Node) summary {
	d, ok := n.Documents[a.UnitSource()]
	if !ok && n.FirstSeen.IsZero() && n.Identity != nil {
		return summary{state: n.Identity.State} // enrolled or joined, and not heard of yet
	}
	if !ok {
		return summary{state: "unconfigured"}
	}
	s := summary{state: "waiting", since: d.ReportedAt}
	if d.Running != nil {
		s.running = d.Running.Version
	}
	switch {
	case d.Desired == nil:
		s.state = "unconfigured"
		if d.Last != nil {
			s.state, s.since, s.why = string(d.Last.State), d.Last.At, command.Brief(d.Last.Error)
		}
		return s
	case d.Last != nil && d.Last.Stamp() == d.Desired.Stamp():
		s.state, s.since, s.why = string(d.Last.State), d.Last.At, command.Brief(d.Last.Error)
		s.colour = command.StateColour(d.Last.State)
	default:
		s.since = d.Desired.Issued
		if !n.Online {
			s.why = "offline"
		}
	}
	if d.Error != nil {
		s.why, s.colour = command.Brief(d.Error), term.Red
	}
	s.desired = d.Desired.Version
	return s
}

// printNodes lists nodes by name.
func printNodes(a *command.App, nodes []view.Node) {
	if len(nodes) == 0 {
		a.Print("no node has connected yet\n")
		return
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(x, y view.Node) int { return cmp.Compare(x.Node, y.Node) })
	t := &term.Table{Head: []string{
		"NODE", "TYPE", "ONLINE", "RUNNING", "DESIRED", "STATE", "AGE", "HEALTH", "WHY",
	}}
	online, inStep, inError, revoked := 0, 0, 0, 0
	for _, n := range nodes {
		s := summarize(a, n)
		up := term.Green.Cell("yes")
		switch {
		case n.Online:
		case n.FirstSeen.IsZero():
			up = term.Yellow.Cell("not yet")
		default:
			up = term.Yellow.Cell("no, " + a.Age(n.Since))
		}
		if isRevoked(n) {
			revoked++
		} else {
			online += count(n.Online)
			inStep += count(n.InSync)
			inError += count(n.Info != nil && n.Info.Error != nil)
		}
		t.Add(n.Node, cmp.Or(n.Type, "-"), up, cmp.Or(s.running, "-"), cmp.Or(s.desired, "-"),
			s.colour.Cell(s.state), a.Age(s.since), healthCell(n), s.why)
	}
	a.Table(t)
	text := fmt.Sprintf("%s, %d online, %d in step", term.Plural(len(nodes)-revoked, "node"), online, inStep)
	if inError > 0 {
		text += fmt.Sprintf(", %d in error", inError)
	}
	if revoked > 0 {
		text += fmt.Sprintf("; and %d revoked", revoked)
	}
	a.Print("\n%s\n", text)
}

// count is 1 if ok, else 0.
func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}
