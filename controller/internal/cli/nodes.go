package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func (a *app) nodes() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "nodes", Short: "List the nodes: what each runs, what it should run, and why not",
		Example: "  tandem nodes\n  tandem nodes --watch", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client.Client) error {
				if watch {
					return a.watchNodes(cmd.Context(), c)
				}
				list, err := c.Nodes(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(list)
				}
				a.printNodes(list.Nodes)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "go on showing changes until interrupted")
	return cmd
}

// watchNodes redraws the table on a terminal; elsewhere each change is a line.
func (a *app) watchNodes(ctx context.Context, c *client.Client) error {
	known := map[string]view.Node{}
	first := true
	err := c.WatchNodes(ctx, func(ch op.NodeChange) error {
		if a.json {
			if err := a.printJSON(ch); err != nil {
				return err
			}
			return a.out.Flush()
		}
		switch {
		case ch.Node != nil:
			known[ch.Node.Node] = *ch.Node
			if !first && !a.OutTerminal {
				s := summarize(*ch.Node)
				a.print("%s  %s\n", a.Now().In(a.Zone).Format("15:04:05"), changeLine(*ch.Node, s))
			}
		case ch.Gone != "":
			delete(known, ch.Gone)
			if !a.OutTerminal {
				a.print("%s  %s is not known any more\n", a.Now().In(a.Zone).Format("15:04:05"), clean(ch.Gone))
			}
		}
		if ch.Complete && (first || a.OutTerminal) {
			if a.OutTerminal {
				a.print("\x1b[H\x1b[2J")
			}
			a.printNodes(slices.SortedFunc(maps.Values(known), func(x, y view.Node) int { return cmp.Compare(x.Node, y.Node) }))
		}
		first = first && !ch.Complete
		return a.out.Flush()
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // that is how one leaves
	}
	return err
}

func changeLine(n view.Node, s summary) string {
	line := n.Node + " "
	if n.Online {
		line += "online"
	} else {
		line += "offline"
	}
	line += ", runs " + cmp.Or(s.running, "nothing") + ", should run " + cmp.Or(s.desired, "nothing") + ": " + s.state
	if s.why != "" {
		line += ": " + s.why
	}
	return clean(line)
}

// summary is a node's unit configuration in words.
type summary struct {
	running, desired, state, why string
	colour                       string
	since                        time.Time
}

func summarize(n view.Node) summary {
	d, ok := n.Documents[wire.KindConfig]
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
			s.state, s.since, s.why = string(d.Last.State), d.Last.At, brief(d.Last.Error)
		}
		return s
	case d.Last != nil && d.Last.Stamp() == d.Desired.Stamp():
		s.state, s.since, s.why = string(d.Last.State), d.Last.At, brief(d.Last.Error)
		s.colour = colour(d.Last.State)
	default:
		s.since = d.Desired.Issued
		if !n.Online {
			s.why = "offline"
		}
	}
	s.desired = d.Desired.Version
	return s
}

func (a *app) printNodes(nodes []view.Node) {
	if len(nodes) == 0 {
		a.print("no node has connected yet\n")
		return
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(x, y view.Node) int { return cmp.Compare(x.Node, y.Node) })
	t := &table{head: []string{"NODE", "TYPE", "ONLINE", "RUNNING", "DESIRED", "STATE", "AGE", "HEALTH", "WHY"}}
	online, inStep := 0, 0
	for _, n := range nodes {
		s := summarize(n)
		up := cell{"yes", green}
		switch {
		case n.Online:
			online++
		case n.FirstSeen.IsZero():
			up = cell{"not yet", yellow}
		default:
			up = cell{"no, " + a.age(n.Since), yellow}
		}
		if n.InSync {
			inStep++
		}
		t.rows = append(t.rows, []cell{{text: n.Node}, {text: cmp.Or(n.Type, "-")}, up, {text: cmp.Or(s.running, "-")},
			{text: cmp.Or(s.desired, "-")}, {s.state, s.colour}, {text: a.age(s.since)}, healthCell(n), {text: s.why}})
	}
	a.printTable(t)
	a.print("\n%s, %d online, %d in step\n", plural(len(nodes), "node"), online, inStep)
}

func (a *app) node() *cobra.Command {
	cmd := &cobra.Command{
		Use: "node ID", Short: "Show everything that is known of one node, let it in and cut it off, or order it about", Example: "  tandem node node-1\n  tandem node enroll node-1", Args: subject("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNode(cmd, args[0]); err != nil {
				return err
			}
			return a.with(func(c *client.Client) error {
				n, err := c.Node(cmd.Context(), args[0])
				if err != nil {
					return a.unknownNode(cmd.Context(), c, args[0], err, names(cmd)...)
				}
				if a.json {
					return a.printJSON(n)
				}
				a.printNode(n)
				return nil
			})
		},
	}
	cmd.AddCommand(a.enroll(), a.revoke(), a.reboot(), a.try(), a.approve())
	return cmd
}

func (a *app) printNode(n view.Node) {
	t := &table{}
	t.add("Node", n.Node)
	t.add("Type", cmp.Or(n.Type, "not reported yet"))
	if n.FirstSeen.IsZero() {
		a.identityRow(t, n.Identity)
		t.add("Presence", "has not connected yet")
		a.printTable(t)
		return
	}
	up := cell{"online for " + a.age(n.Since), green}
	if !n.Online {
		up = cell{"offline for " + a.age(n.Since), yellow}
	}
	t.rows = append(t.rows, []cell{{text: "Presence"}, up})
	t.add("First seen", a.ago(n.FirstSeen))
	a.identityRow(t, n.Identity)
	if i := n.Info; i != nil {
		t.add("System", fmt.Sprintf("%s on %s, %d CPUs, %s RAM", i.OS, i.Arch, i.CPUs, size(i.RAM)))
		for _, p := range i.Partitions {
			t.add("Partition", fmt.Sprintf("%s at %s, %s", p.Name, p.Path, size(p.Size)))
		}
		for _, k := range slices.Sorted(maps.Keys(i.Attributes)) {
			t.add("Attribute", k+" = "+i.Attributes[k])
		}
		t.add("Agent", i.AgentVersion)
		if i.Error != nil {
			t.rows = append(t.rows, []cell{{text: "Trouble"}, {brief(i.Error), red}})
		}
	}
	if n.Boot != "" {
		t.add("Boot", fmt.Sprintf("%s, session %d, %d events", n.Boot, n.Session, n.Events))
	}
	if n.Health != nil {
		t.rows = append(t.rows, []cell{{text: "Health"}, healthCell(n)})
	}
	a.printTable(t)
	for _, kind := range slices.Sorted(maps.Keys(n.Documents)) {
		a.print("\n")
		a.printDocumentState(string(kind), n.Documents[kind])
	}
	if len(n.Slots) > 0 {
		a.print("\nslots\n")
		a.printSlots(n.Slots, "  ")
	}
	a.printComponents(n.Components)
	a.printAlerts(n.Raised)
}

// printDocumentState shows one kind of document: what should be, what is, what was last tried.
func (a *app) printDocumentState(kind string, d view.Document) {
	state := "not in step"
	if d.InSync {
		state = "in step"
	}
	a.print("%s, %s\n", clean(kind), state)
	t := &table{indent: "  "}
	if d.Desired != nil {
		mode := ""
		if d.Desired.Mode == wire.ModeTry {
			mode = ", on trial"
		}
		t.add("desired", docRef(&d.Desired.DocRef)+mode+", issued "+a.ago(d.Desired.Issued))
	}
	if d.Running != nil {
		t.add("running", docRef(d.Running))
	} else {
		t.add("running", "nothing reported")
	}
	if l := d.Last; l != nil {
		text := fmt.Sprintf("%s %s, %s", docRef(&wire.DocRef{Epoch: l.Epoch, Rev: l.Rev, Version: l.Version}), l.State, a.ago(l.At))
		if l.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", l.Attempt)
		}
		t.rows = append(t.rows, []cell{{text: "last"}, {text, colour(l.State)}})
		if l.Error != nil {
			t.rows = append(t.rows, []cell{{text: "error"}, {brief(l.Error), red}})
			if m, ok := wire.Meanings[l.Error.Code]; ok {
				t.add("", m)
			}
		}
	}
	a.printTable(t)
}

func docRef(r *wire.DocRef) string {
	return strings.TrimSpace(fmt.Sprintf("%s (epoch %d, rev %d)", r.Version, r.Epoch, r.Rev))
}
