package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
)

func list(a *command.App) *cobra.Command {
	var in op.PickIn
	var sel selection
	var watch, all bool
	cmd := &cobra.Command{
		Use: "nodes [FILTER...]", Short: "List the nodes: what each runs, what it should run, and why not",
		Long: "List the nodes: what each runs, what it should run, and why not.\n\n" +
			fmt.Sprintf("Of more than %d nodes a terminal gets those that are not in order, unless there is ", brief) +
			"--all or\na filter. A pipe gets every node.\n\n" + filterHelp,
		Example: "  tandem nodes\n  tandem nodes --watch\n  tandem nodes --behind --name 'press-*'\n" +
			"  tandem nodes --state rejected --fields node,type\n" +
			"  tandem nodes state:offline type:press 'version:<2.1'\n  tandem nodes --sort state -- -class:in-step",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.NodesIn = sel.selected()
			in.Q = strings.Join(args, " ")
			if _, err := filter.Parse(in.Q); err != nil {
				return &command.Failure{Exit: command.ExitUsage, Err: err}
			}
			switch {
			case watch && !(in.All() && in.Fields == ""):
				return command.Usage("--watch follows every node; it does not go with flags that select some of them")
			case watch:
				return a.Connect(func(c *client.Client) error { return watchNodes(cmd.Context(), a, c, all) })
			case cmd.Flags().Changed("fields"):
				return command.Ask(cmd.Context(), a, op.PickNodes, in, func(a *command.App, v op.Picked) {
					printPicked(a, strings.Split(in.Fields, ","), v)
				})
			}
			return command.Ask(cmd.Context(), a, op.ListNodes, in.NodesIn, func(a *command.App, v op.Nodes) {
				if len(v.Nodes) == 0 && !in.All() {
					nobody(a, &in.NodesIn)
					return
				}
				printNodes(a, v.Nodes, all || !in.All(), in.Sort != "")
				printNext(a, v.Next)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&watch, "watch", false, "go on showing changes until interrupted")
	f.BoolVar(&all, "all", false, "show every node, also on a terminal")
	sel.flags(f)
	f.StringVar(&sel.in.After, "after", "", "only those whose names come after this `NODE`")
	f.IntVar(&sel.in.Limit, "limit", 0, "show at most `N`")
	f.StringVar(&sel.in.Sort, "sort", "", "in the order of `KEY`: "+strings.Join(op.Sorts, ", ")+"; otherwise of names")
	f.StringVar(&in.Fields, "fields", "", "show only these `FIELDS` of --json, and state, with commas between them")
	return cmd
}

// filterHelp is the language of filters in brief.
const filterHelp = `A FILTER has words that all have to be true: state:offline, class:in-step,
type:press, version:<2.1, desired:, agent:, name:press-*, online:yes,
offline-for:2h, health:check, alert:cpu, label.KEY:VALUE. a,b is any of them, a
minus before a word is not (after --), and a word without a colon is a part of
the name.`

// selection are the flags that select nodes.
type selection struct {
	in      op.NodesIn
	offline command.Duration
}

func (s *selection) flags(f *pflag.FlagSet) {
	f.StringVar(&s.in.Name, "name", "", "only those whose names match `PATTERN`: * is any characters, ? is one")
	f.StringVar(&s.in.Type, "type", "", "only those of this node `TYPE`")
	f.StringSliceVar(&s.in.States, "state", nil, "only those in this `STATE`; more than one: any of them")
	f.BoolVar(&s.in.Online, "online", false, "only those that are connected")
	f.BoolVar(&s.in.Offline, "offline", false, "only those that are not connected")
	f.Var(&s.offline, "offline-for", "only those that are not connected for at least so long")
	f.BoolVar(&s.in.Behind, "behind", false, "only those that are not in step")
}

// selected is what the flags select.
func (s *selection) selected() op.NodesIn {
	in := s.in
	in.OfflineFor = s.offline.Std()
	return in
}

// printPicked lists some fields of nodes.
func printPicked(a *command.App, fields []string, v op.Picked) {
	t := &term.Table{}
	for _, name := range fields {
		t.Head = append(t.Head, strings.ToUpper(name))
	}
	for _, n := range v.Nodes {
		row := make([]any, len(fields))
		for i, name := range fields {
			row[i] = "-"
			if value, ok := n[name]; ok {
				row[i] = fieldText(value)
			}
		}
		t.Add(row...)
	}
	a.Table(t)
	printNext(a, v.Next)
}

// fieldText is a JSON string's text, or any other value as it is.
func fieldText(value jsontext.Value) string {
	if text, err := jsontext.AppendUnquote(nil, value); err == nil {
		return string(text)
	}
	return string(value)
}

func printNext(a *command.App, next string) {
	if next != "" {
		a.Print("more follow: --after %s\n", term.Clean(next))
	}
}

// nobody says that no node was found, and what may have been meant.
func nobody(a *command.App, in *op.NodesIn) {
	a.Print("no such node\n")
	states := filter.States()
	for _, word := range strings.Fields(in.Q) {
		if slices.Contains(states, word) {
			a.Warn("%[1]s was looked for in names; which nodes are so: tandem nodes state:%[1]s", word)
		}
	}
	for _, state := range in.States {
		if !slices.Contains(states, state) {
			a.Warn("there is no state %.80q%s", state, command.Suggest(state, states, "there are "+term.List(states)))
		}
	}
}

// watchNodes draws the table anew on a terminal; elsewhere each change that can be seen is a line.
func watchNodes(ctx context.Context, a *command.App, c *client.Client, all bool) error {
	known, lines, first := map[string]view.Node{}, map[string]string{}, true
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
			now := changeLine(*ch.Node, summarize(a, *ch.Node))
			if !first && now != lines[ch.Node.Node] {
				line = now
			}
			lines[ch.Node.Node] = now
		case ch.Gone != "":
			delete(known, ch.Gone)
			delete(lines, ch.Gone)
			line = term.Clean(ch.Gone) + " is not known any more"
		}
		if line != "" && !a.OutTerminal {
			a.Print("%s  %s\n", a.Now().In(a.Zone).Format("15:04:05"), line)
		}
		if ch.Complete && (first || a.OutTerminal) {
			if a.OutTerminal {
				a.Clear()
			}
			printNodes(a, slices.Collect(maps.Values(known)), all, false)
		}
		first = first && !ch.Complete
		return a.Flush()
	})
	return command.Interrupted(ctx, err)
}

// changeLine says how a node is that has changed, with its health where that is not good.
func changeLine(n view.Node, s why.Summary) string {
	text := why.Changed(&n, &s)
	if h := n.Health; h != nil && (h.State != view.HealthOK || h.Alerts > 0) {
		text += "; health: " + healthCell(n).Text
	}
	return term.Clean(text)
}

func summarize(a *command.App, n view.Node) why.Summary { return why.Summarize(&n, a.UnitSource()) }

// isRevoked reports whether a node is not let in any more: nothing is expected of it.
func isRevoked(n view.Node) bool { return n.Identity != nil && n.Identity.State == "revoked" }

// brief is how many nodes a terminal shows unless all are asked for.
const brief = 100

// urgency orders what is not in order: 0 is not in step, 1 in error or ill health, 2 offline; 3 is in order, or
// revoked.
func urgency(n *view.Node) int {
	switch {
	case isRevoked(*n):
		return 3
	case !n.Online:
		return 2
	case !n.InSync:
		return 0
	case n.Info != nil && n.Info.Error != nil,
		n.Health != nil && (n.Health.State != view.HealthOK || n.Health.Alerts > 0):
		return 1
	}
	return 3
}

// inBrief are the nodes that are not in order, the most urgent first, and a line about those that are left out.
func inBrief(nodes []view.Node) (shown []view.Node, rest string) {
	for _, n := range nodes {
		if urgency(&n) < 3 {
			shown = append(shown, n)
		}
	}
	slices.SortStableFunc(shown, func(x, y view.Node) int { return cmp.Compare(urgency(&x), urgency(&y)) })
	rest = term.Plural(len(nodes)-len(shown), "node") + " in order"
	if more := len(shown) - brief; more > 0 {
		shown, rest = shown[:brief], term.Plural(more, "more node")+" not in order and "+rest
	}
	return shown, "not shown: " + rest + "; --all shows every node\n"
}

// printNodes lists nodes by name, or as they come if they are sorted. Of many a terminal gets those that are not in
// order, unless it is to have all.
func printNodes(a *command.App, nodes []view.Node, all, sorted bool) {
	if len(nodes) == 0 {
		a.Print("no node has connected yet\n")
		return
	}
	if !sorted {
		nodes = slices.SortedFunc(slices.Values(nodes), func(x, y view.Node) int { return cmp.Compare(x.Node, y.Node) })
	}
	shown, rest := nodes, ""
	if a.OutTerminal && !all && len(nodes) > brief {
		shown, rest = inBrief(nodes)
	}
	t := &term.Table{Head: []string{
		"NODE", "TYPE", "ONLINE", "RUNNING", "DESIRED", "STATE", "AGE", "HEALTH", "WHY",
	}}
	for _, n := range shown {
		s := summarize(a, n)
		up := term.Green.Cell("yes")
		switch {
		case n.Online:
		case n.FirstSeen.IsZero():
			up = term.Yellow.Cell("not yet")
		default:
			up = term.Yellow.Cell("no, " + a.Age(n.Since))
		}
		t.Add(n.Node, cmp.Or(n.Type, "-"), up, cmp.Or(s.Running, "-"), cmp.Or(s.Desired, "-"),
			command.LevelColour(s.Level).Cell(s.State), a.Age(s.Since), healthCell(n), s.Why)
	}
	if len(shown) > 0 {
		a.Table(t)
		a.Print("\n")
	}
	a.Print("%s\n%s", counts(nodes), rest)
}

// counts says in words how many nodes there are, and how many of them are as they should be.
func counts(nodes []view.Node) string {
	online, inStep, inError, revoked := 0, 0, 0, 0
	for _, n := range nodes {
		if isRevoked(n) {
			revoked++
		} else {
			online += count(n.Online)
			inStep += count(n.InSync)
			inError += count(n.Info != nil && n.Info.Error != nil)
		}
	}
	text := fmt.Sprintf("%s, %d online, %d in step", term.Plural(len(nodes)-revoked, "node"), online, inStep)
	if inError > 0 {
		text += fmt.Sprintf(", %d in error", inError)
	}
	if revoked > 0 {
		text += fmt.Sprintf("; and %d revoked", revoked)
	}
	return text
}

// count is 1 if ok, else 0.
func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}
