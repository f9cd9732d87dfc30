package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func health(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "health NODE", Short: "Show what a node tells of its health, or set its timers and limits",
		Example: "  tandem health node-1\n  tandem health set --all --reset 7d --fallback 5m\n" +
			"  tandem health settings --node node-1",
		Args: command.NodeOrCommand("NODE"),
		RunE: asked(a, op.NodeHealth, printHealth),
	}
	cmd.AddCommand(setHealth(a), healthSettings(a), unsetHealth(a))
	return cmd
}

// scopeFlags adds the flags that say whom settings are for.
func scopeFlags(cmd *cobra.Command) *view.Scope {
	s := &view.Scope{}
	f := cmd.Flags()
	f.StringArrayVar(&s.Nodes, "node", nil, "for this node; its `ID`; repeatable")
	f.StringArrayVar(&s.Types, "type", nil, "for the nodes of this `type`; repeatable")
	f.BoolVar(&s.All, "all", false, "for all nodes that nothing else is set for")
	return s
}

func checkScope(cmd *cobra.Command, s *view.Scope) error {
	given := 0
	for _, there := range []bool{s.All, len(s.Types) > 0, len(s.Nodes) > 0} {
		if there {
			given++
		}
	}
	if given != 1 {
		return command.Usage("%s is for nodes (--node ID), for types (--type TYPE) or for --all: one of them; "+
			"for example:\n%s", cmd.CommandPath(), cmd.Example)
	}
	for _, n := range s.Nodes {
		if err := command.CheckNode(cmd, n); err != nil {
			return err
		}
	}
	return nil
}

func setHealth(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set (--node ID… | --type TYPE… | --all) [FILE]",
		Short: "Set timers and limits, in the place of what is set there",
		Long: `Set timers and limits of health, for nodes, for node types, or for all.

For a node the first that there is counts, as a whole: its own, that of its type, that
for all. What is not named is the node's own setting, or the default. FILE has them as
JSON, as the wire has them; - is standard input.`,
		Example: "  tandem health set --all --reset 7d --fallback 5m --test 10m --watchdog 1m\n" +
			"  tandem health set --type press --approval yes --check disk=0.9:5m --check cpu=0.95:5m\n" +
			"  tandem health set --node node-1 health.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return command.Args()(cmd, args)
		},
	}
	s, flags := scopeFlags(cmd), newSettingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkScope(cmd, s); err != nil {
			return err
		}
		h, err := flags.settings(a, cmd, args)
		if err != nil {
			return err
		}
		done := fmt.Sprintf("set for %s: %s", command.Whom(s), command.SettingsText(h))
		return changeSettings(cmd.Context(), a, op.SetHealthSettings, op.SetHealth{Scope: *s, Settings: h}, s, done)
	}
	return cmd
}

func unsetHealth(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "unset (--node ID… | --type TYPE… | --all)",
		Short:   "Take settings back: what is set for the type or for all counts again, or the node's own",
		Example: "  tandem health unset --node node-1\n  tandem health unset --all", Args: command.Args(),
	}
	s := scopeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkScope(cmd, s); err != nil {
			return err
		}
		done := "nothing is set any more for " + command.Whom(s)
		return changeSettings(cmd.Context(), a, op.UnsetHealthSettings, *s, s, done)
	}
	return cmd
}

// changeSettings makes a change and says what becomes of it. It names the nodes and types of the scope that the unit
// does not know: they may come, or be misspelt.
func changeSettings[In any](
	ctx context.Context, a *command.App, o op.Op[In, view.SettingsChange], in In, s *view.Scope, done string,
) error {
	return a.Connect(func(c *client.Client) error {
		change, err := client.Call(ctx, c, o, in)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(change)
		}
		a.Print("%s\n", term.Clean(done))
		switch change.Issued {
		case 0:
			a.Print("No node needs a new document.\n")
		case 1:
			a.Print("A new document goes to 1 node; to see what becomes of it: tandem node NODE\n")
		default:
			a.Print("New documents go to %d nodes; to see what becomes of them: tandem node NODE\n", change.Issued)
		}
		if len(change.Unknown) == 0 && len(s.Types) == 0 {
			return nil
		}
		nodes, err := client.Call(ctx, c, op.ListNodes, op.NodesIn{})
		if err != nil {
			return err
		}
		unknown := unknownScope(s, change.Unknown, nodes.Nodes)
		for _, line := range unknown {
			a.Print("%s\n", term.Clean(line))
		}
		if len(unknown) > 0 {
			a.Print("It counts as soon as there is one.\n")
		}
		return nil
	})
}

// unknownScope says which nodes and types of a scope are not known.
func unknownScope(s *view.Scope, unknownNodes []string, nodes []view.Node) (lines []string) {
	var ids, types []string
	for _, n := range nodes {
		ids, types = append(ids, n.Node), append(types, n.Type)
	}
	slices.Sort(types)
	types = slices.Compact(types)
	for _, n := range unknownNodes {
		lines = append(lines, "Node "+n+" has never been heard of"+command.Suggest(n, ids, ""))
	}
	for _, t := range s.Types {
		if !slices.Contains(types, t) {
			lines = append(lines, "No node is of type "+t+command.Suggest(t, types, ""))
		}
	}
	return lines
}

func healthSettings(a *command.App) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "settings", Short: "Show the timers and limits that are set, or those of one node",
		Example: "  tandem health settings\n  tandem health settings --node node-1", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckNodeFlag(cmd, node); err != nil {
				return err
			}
			if node == "" {
				return command.Ask(cmd.Context(), a, op.HealthSettings, op.None{}, printSettings)
			}
			settings := func(ctx context.Context, c *client.Client) (view.NodeSettings, error) {
				s, err := client.Call(ctx, c, op.NodeSettings, op.OfNode{Node: node})
				if err == nil && s.Set == nil && s.InEffect == nil {
					err = command.KnownNode(ctx, c, node)
				}
				return s, err
			}
			return command.Gather(cmd.Context(), a, settings, printNodeSettings)
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "what counts for this node; its `ID`")
	return cmd
}

func printSettings(a *command.App, s view.HealthSettings) {
	t := &term.Table{Head: []string{"FOR", "SINCE", "BY", "SETTINGS"}}
	add := func(whom string, e view.HealthSetting) {
		t.Add(whom, a.Ago(e.At), e.Who, command.SettingsText(&e.Settings))
	}
	for _, n := range slices.Sorted(maps.Keys(s.Nodes)) {
		add("node "+n, s.Nodes[n])
	}
	for _, n := range slices.Sorted(maps.Keys(s.Types)) {
		add("type "+n, s.Types[n])
	}
	if s.All != nil {
		add("all", *s.All)
	}
	if t.Len() == 0 {
		a.Print("nothing is set: nodes go by their own settings, and by the defaults\n")
		return
	}
	a.Table(t)
}

func printNodeSettings(a *command.App, s view.NodeSettings) {
	t := &term.Table{}
	t.Add("Node", s.Node)
	if s.Set == nil {
		t.Add("Set", "nothing: its own settings count, and the defaults")
	} else {
		t.Add("Set", command.SettingsText(&s.Set.Settings))
		by := map[view.Rule]string{
			view.ByNode: "what is set for this node", view.ByType: "what is set for the type " + s.Type,
			view.ByDefault: "what is set for all",
		}[s.Rule]
		t.Add("By", by+", "+s.Set.Who+" "+a.Ago(s.Set.At))
	}
	if s.InEffect != nil {
		t.Add("In effect", command.SettingsText(s.InEffect))
	} else {
		t.Add("In effect", "not reported")
	}
	a.Table(t)
	if s.Document != nil {
		a.Print("\n")
		printDocumentState(a, string(wire.KindHealth), *s.Document)
	}
}
