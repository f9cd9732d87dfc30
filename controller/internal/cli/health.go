package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

func (a *app) health() *cobra.Command {
	cmd := &cobra.Command{
		Use: "health NODE", Short: "Show what a node tells of its health, or set its timers and limits",
		Example: "  tandem health node-1\n  tandem health set --all --reset 7d --fallback 5m\n  tandem health settings --node node-1", Args: subject("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNode(cmd, args[0]); err != nil {
				return err
			}
			return a.with(func(c *client.Client) error {
				h, err := c.NodeHealth(cmd.Context(), args[0])
				if err != nil {
					return a.unknownNode(cmd.Context(), c, args[0], err, names(cmd)...)
				}
				if a.json {
					return a.printJSON(h)
				}
				a.printHealth(h)
				return nil
			})
		},
	}
	cmd.AddCommand(a.setHealth(), a.healthSettings(), a.unsetHealth())
	return cmd
}

// scope adds the flags that say for whom.
func scope(cmd *cobra.Command) *view.Scope {
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
		return usage("%s is for nodes (--node ID), for types (--type TYPE) or for --all: one of them; for example:\n%s", cmd.CommandPath(), cmd.Example)
	}
	for _, n := range s.Nodes {
		if err := checkNode(cmd, n); err != nil {
			return err
		}
	}
	return nil
}

// whom names a scope.
func whom(s *view.Scope) string {
	switch {
	case s.All:
		return "all nodes"
	case len(s.Types) > 0:
		return "nodes of type " + listed(s.Types)
	}
	return listed(s.Nodes)
}

func (a *app) setHealth() *cobra.Command {
	var times [6]durationFlag
	var approval, reboot string
	var checks []string
	cmd := &cobra.Command{
		Use: "set (--node ID… | --type TYPE… | --all) [FILE]", Short: "Set timers and limits, in the place of what is set there",
		Long: `Set timers and limits of health, for nodes, for node types, or for all.

For a node the first that there is counts, as a whole: its own, that of its type, that
for all. What is not named is the node's own setting, or the default. FILE has them as
JSON, as the wire has them; - is standard input.`,
		Example: "  tandem health set --all --reset 7d --fallback 5m --test 10m --watchdog 1m\n" +
			"  tandem health set --type press --approval yes --check disk=0.9:5m --check cpu=0.95:5m\n  tandem health set --node node-1 health.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return want()(cmd, args)
		},
	}
	f, s := cmd.Flags(), scope(cmd)
	fields := []string{"reset", "fallback", "test", "deadline", "contact", "watchdog"}
	for i, what := range []string{
		"in normal operation, reboot after so long without contact", "during a trial, roll back after so long without contact",
		"commit a trial after so long in good health", "roll a trial back that has run for so long",
		"how long a word from the controller counts as contact", "a loop that stands still for so long ends the agent",
	} {
		f.Var(&times[i], fields[i], what)
	}
	f.StringVar(&approval, "approval", "", "whether somebody has to approve what was tried; `yes` or no")
	f.StringVar(&reboot, "reboot", "", "whether the agent may reboot the machine; `yes` or no")
	f.StringArrayVar(&checks, "check", nil, "`limit` of a check, as cpu=0.95:5m: cpu, ram and disk as fractions, network in bytes per second; repeatable")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkScope(cmd, s); err != nil {
			return err
		}
		given := false
		for _, name := range append(slices.Clone(fields), "approval", "reboot", "check") {
			given = given || f.Changed(name)
		}
		if given && len(args) == 1 {
			return usage("%s takes settings by flags or in a FILE, not both", cmd.CommandPath())
		}
		if !given && len(args) == 0 {
			return usage("%s needs settings, by flags or in a FILE; for example:\n%s", cmd.CommandPath(), cmd.Example)
		}
		var h *wire.HealthSettings
		var err error
		if len(args) == 1 {
			h, err = a.readSettings(args[0])
		} else {
			h, err = settingsOf(times, approval, reboot, checks)
		}
		if err != nil {
			return err
		}
		return a.with(func(c *client.Client) error {
			change, err := c.SetHealth(cmd.Context(), op.SetHealth{Scope: *s, Settings: h})
			if err != nil {
				return err
			}
			return a.printChange(cmd.Context(), c, s, change, fmt.Sprintf("set for %s: %s", whom(s), settingsText(h)))
		})
	}
	return cmd
}

// settingsOf makes settings of flags.
func settingsOf(times [6]durationFlag, approval, reboot string, checks []string) (*wire.HealthSettings, error) {
	h := &wire.HealthSettings{FormatVersion: wire.HealthFormat}
	for i, to := range []*wire.Span{&h.Reset, &h.Fallback, &h.Test, &h.Deadline, &h.Contact, &h.Watchdog} {
		d := time.Duration(times[i])
		if d%time.Second != 0 {
			return nil, usage("%v is not a whole number of seconds", d)
		}
		*to = wire.SpanOf(d)
	}
	for _, f := range []struct {
		name, text string
		to         **bool
	}{{"approval", approval, &h.Approval}, {"reboot", reboot, &h.Reboot}} {
		switch f.text {
		case "":
		case "yes", "no":
			*f.to = new(f.text == "yes")
		default:
			return nil, usage("--%s is yes or no, not %.40q", f.name, f.text)
		}
	}
	for _, c := range checks {
		if err := addLimit(h, c); err != nil {
			return nil, err
		}
	}
	if err := h.Check(); err != nil {
		return nil, &failure{exit: exitUsage, err: err}
	}
	return h, nil
}

func addLimit(h *wire.HealthSettings, text string) error {
	name, rest, _ := strings.Cut(text, "=")
	limit, span, timed := strings.Cut(rest, ":")
	if h.Checks == nil {
		h.Checks = &wire.HealthLimits{}
	}
	to := map[string]**wire.HealthLimit{"cpu": &h.Checks.CPU, "ram": &h.Checks.RAM, "disk": &h.Checks.Disk, "network": &h.Checks.Network}[name]
	most, err := strconv.ParseFloat(limit, 64)
	if to == nil || err != nil {
		return usage("--check %.80q: a limit is written as cpu=0.95:5m; there are cpu, ram, disk and network", text)
	}
	if *to != nil {
		return usage("--check %s is given twice", name)
	}
	l := &wire.HealthLimit{Max: most}
	if timed {
		d, err := parseDuration(span)
		if err != nil || d <= 0 || d%time.Second != 0 {
			return usage("--check %.80q: %q is not a duration such as 90s or 5m", text, span)
		}
		l.For = wire.SpanOf(d)
	}
	*to = l
	return nil
}

// readSettings reads settings as the wire has them.
func (a *app) readSettings(file string) (*wire.HealthSettings, error) {
	name, data, err := file, []byte(nil), error(nil)
	if file == "-" {
		name = "standard input"
		data, err = io.ReadAll(io.LimitReader(a.In, wire.MaxBody+1))
	} else {
		data, err = readFile(file)
	}
	if err != nil {
		return nil, unreadable(name, err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &failure{exit: exitUsage, file: name, err: wire.New(wire.CodeMalformed, "", "the document is empty")}
	}
	h, err := wire.Decode[wire.HealthSettings](data)
	if err != nil {
		return nil, &failure{exit: exitUsage, err: wire.AsError(err), file: name, source: data}
	}
	return h, nil
}

// printChange says what became of new settings, and whom of their scope nobody knows: they may come, or be misspelt.
func (a *app) printChange(ctx context.Context, c *client.Client, s *view.Scope, change view.SettingsChange, what string) error {
	if a.json {
		return a.printJSON(change)
	}
	a.print("%s\n", clean(what))
	if change.Issued > 0 {
		a.print("%s to %s; to see what becomes of them: tandem node NODE\n", map[bool]string{true: "A new document goes", false: "New documents go"}[change.Issued == 1], plural(change.Issued, "node"))
	} else {
		a.print("No node needs a new document.\n")
	}
	if len(change.Unknown) == 0 && len(s.Types) == 0 {
		return nil
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	var ids, types, unknown []string
	for _, n := range nodes.Nodes {
		ids, types = append(ids, n.Node), append(types, n.Type)
	}
	slices.Sort(types)
	types = slices.Compact(types)
	for _, n := range change.Unknown {
		unknown = append(unknown, "Node "+n+" has never been heard of"+suggestion(n, ids, ""))
	}
	for _, t := range s.Types {
		if !slices.Contains(types, t) {
			unknown = append(unknown, "No node is of type "+t+suggestion(t, types, ""))
		}
	}
	for _, line := range unknown {
		a.print("%s\n", clean(line))
	}
	if len(unknown) > 0 {
		a.print("It counts as soon as there is one.\n")
	}
	return nil
}

func (a *app) unsetHealth() *cobra.Command {
	cmd := &cobra.Command{
		Use: "unset (--node ID… | --type TYPE… | --all)", Short: "Take settings back: what is set for the type or for all counts again, or the node's own",
		Example: "  tandem health unset --node node-1\n  tandem health unset --all", Args: want(),
	}
	s := scope(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkScope(cmd, s); err != nil {
			return err
		}
		return a.with(func(c *client.Client) error {
			change, err := c.UnsetHealth(cmd.Context(), *s)
			if err != nil {
				return err
			}
			return a.printChange(cmd.Context(), c, s, change, "nothing is set any more for "+whom(s))
		})
	}
	return cmd
}

func (a *app) healthSettings() *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "settings", Short: "Show the timers and limits that are set, or those of one node",
		Example: "  tandem health settings\n  tandem health settings --node node-1", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("node") {
				if err := checkNode(cmd, node); err != nil {
					return err
				}
			}
			return a.with(func(c *client.Client) error {
				if node != "" {
					s, err := c.NodeSettings(cmd.Context(), node)
					if err == nil && s.Set == nil && s.InEffect == nil {
						err = a.heardOf(cmd.Context(), c, node)
					}
					if err != nil {
						return err
					}
					return a.printNodeSettings(s)
				}
				s, err := c.HealthSettings(cmd.Context())
				if err != nil {
					return err
				}
				return a.printSettings(s)
			})
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "what counts for this node; its `ID`")
	return cmd
}

func (a *app) printSettings(s view.HealthSettings) error {
	if a.json {
		return a.printJSON(s)
	}
	t := &table{head: []string{"FOR", "SINCE", "BY", "SETTINGS"}}
	add := func(whom string, e view.HealthSetting) {
		t.add(whom, a.ago(e.At), e.Who, settingsText(&e.Settings))
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
	if len(t.rows) == 0 {
		a.print("nothing is set: nodes go by their own settings, and by the defaults\n")
		return nil
	}
	a.printTable(t)
	return nil
}

func (a *app) printNodeSettings(s view.NodeSettings) error {
	if a.json {
		return a.printJSON(s)
	}
	t := &table{}
	t.add("Node", s.Node)
	if s.Set == nil {
		t.add("Set", "nothing: its own settings count, and the defaults")
	} else {
		t.add("Set", settingsText(&s.Set.Settings))
		t.add("By", map[view.Rule]string{
			view.ByNode: "what is set for this node", view.ByType: "what is set for the type " + s.Type, view.ByDefault: "what is set for all",
		}[s.Rule]+", "+s.Set.Who+" "+a.ago(s.Set.At))
	}
	if s.InEffect != nil {
		t.add("In effect", settingsText(s.InEffect))
	} else {
		t.add("In effect", "not reported")
	}
	a.printTable(t)
	if s.Document != nil {
		a.print("\n")
		a.printDocumentState(string(wire.KindHealth), *s.Document)
	}
	return nil
}
