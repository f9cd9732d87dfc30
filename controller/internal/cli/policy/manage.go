package policy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/policy"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// nearPolicy adds the nearest names of policies to a not-found error.
func nearPolicy(name string) command.Explain {
	return command.NearListed(name, "tandem policy list has them",
		func(ctx context.Context, c *client.Client) (names []string, err error) {
			all, err := client.Call(ctx, c, op.ListPolicies, op.None{})
			for _, p := range all.Policies {
				names = append(names, p.Name)
			}
			return names, err
		})
}

func list(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the policies, with how many nodes each hits", Example: "  tandem policy list",
		Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListPolicies, op.None{}, func(a *command.App, v view.Policies) {
				if len(v.Policies) == 0 {
					a.Print("there are no policies\n")
					return
				}
				t := &term.Table{Head: []string{"POLICY", "ENABLED", "NODES", "STATES", "CHANGED", "BY"}}
				for _, p := range v.Policies {
					on := term.Cell{Text: "no"}
					if p.Enabled {
						on = term.Green.Cell("yes")
					}
					t.Add(p.Name, on, strconv.Itoa(p.Matching), counts(p.States), a.Ago(p.At), p.Who)
				}
				a.Table(t)
			})
		},
	}
}

// counts says how many nodes are in which state.
func counts(all []view.PolicyCount) string {
	var parts []string
	for _, c := range all {
		parts = append(parts, fmt.Sprintf("%d %s", c.Nodes, words(c.State)))
	}
	return strings.Join(parts, ", ")
}

// words is a state for people.
func words(s wire.PolicyState) string { return strings.ReplaceAll(string(s), "-", " ") }

func show(a *command.App) *cobra.Command {
	in := op.PolicyVersionIn{}
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a policy, and the nodes that it hits, enabled or not",
		Long: `Show a policy as it was applied, with owner and time, or what it was in an earlier version.
The nodes that it hits go to standard error, so that what is printed can be edited and applied
again.`,
		Example: "  tandem policy show line-4 > line-4.json\n  tandem policy show line-4 --version 812",
		Args:    command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Policy = args[0]
			print := func(a *command.App, p view.Policy) { printPolicy(a, p, in.Version != 0) }
			return command.Ask(cmd.Context(), a, op.ShowPolicy, in, print, nearPolicy(args[0]))
		},
	}
	cmd.Flags().Uint64Var(&in.Version, "version", 0, "this `version`, as history lists them")
	return cmd
}

func printPolicy(a *command.App, p view.Policy, past bool) {
	a.Print("%s\n", term.Clean(string(p.Document)))
	verb := "would hit"
	if p.Enabled && !past {
		verb = "hits"
	}
	nodes := ""
	if len(p.Nodes) > 0 {
		nodes = ": " + strings.Join(p.Nodes, ", ")
	}
	if more := p.Matching - len(p.Nodes); more > 0 {
		nodes += fmt.Sprintf(" and %d more", more)
	}
	a.Warn("%s %s %s%s", term.Clean(p.Name), verb, term.Plural(p.Matching, "node"), term.Clean(nodes))
	if p.Rollout != "" {
		a.Warn("its rollout %s goes on: tandem rollout show %[1]s", term.Clean(p.Rollout))
	}
}

func apply(a *command.App, check bool) *cobra.Command {
	var name string
	in := op.ApplyPolicyIn{DryRun: check}
	cmd := &cobra.Command{
		Use: "apply FILE", Short: "Set a policy",
		Long: `Set a policy, in place of the one of that name. Its name is that of the file without
.json, or --name. Owner and lastUpdated are set by the controller. A policy that is enabled and
would hit every node needs --yes-all-nodes, or that you type their number.`,
		Example: "  tandem policy apply line-4.json\n  tandem policy apply - --name line-4 < policy.json",
		Args:    command.Args("FILE"),
	}
	if check {
		cmd.Use, cmd.Short = "check FILE", "Say whether a policy would be taken, and how many nodes it would hit"
		cmd.Long, cmd.Example = "", "  tandem policy check line-4.json"
	}
	cmd.Flags().StringVar(&name, "name", "", "`name` of the policy")
	cmd.Flags().BoolVar(&in.AllNodes, "yes-all-nodes", false, "it may hit every node")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, err := a.Read(args[0])
		if err != nil {
			return err
		}
		parsed, problems := policy.Parse(from.Text, func(r *strictjson.Reader, at strictjson.At) {
			plan.Read(r, at, time.LoadLocation)
		})
		if problems != nil {
			return command.Malformed(problems, from)
		}
		if in.Policy, err = nameOf(cmd, name, args[0]); err != nil {
			return err
		}
		in.Document = from.Text
		send := func() error {
			return command.Ask(cmd.Context(), a, op.ApplyPolicy, in, func(a *command.App, v view.PolicyChange) {
				if check {
					a.Print("policy %s would be taken; %s\n", in.Policy, wouldHit(v.Issued))
					return
				}
				a.Print("policy %s is set, rev %d: %s\n", in.Policy, v.Rev, changed(v))
				if !parsed.Enabled {
					a.Print("nodes do not act on it: tandem policy enable %s\n", in.Policy)
				}
			}, nearPolicy(in.Policy))
		}
		return confirmed(cmd.Context(), a, send, &in.AllNodes)
	}
	return cmd
}

// nameOf is the name of a policy in a file.
func nameOf(cmd *cobra.Command, name, file string) (string, error) {
	if name == "" {
		if file == "-" {
			return "", command.Lacks(cmd, "--name NAME")
		}
		name = file[strings.LastIndex(file, "/")+1:]
		name = strings.TrimSuffix(name, ".json")
	}
	return name, command.CheckName("policy", name)
}

func wouldHit(n int) string { return "it hits " + term.Plural(n, "node") }

func changed(v view.PolicyChange) string {
	if v.Rollout != "" {
		return "rollout " + term.Clean(v.Rollout) + " brings it to the nodes; it is shown by: tandem rollout show " +
			term.Clean(v.Rollout)
	}
	return term.Plural(v.Issued, "node") + " got a new document"
}

// confirmed sends a change. If that is refused since it would hit every node, whoever is at the terminal may type how
// many nodes there are in all.
func confirmed(ctx context.Context, a *command.App, send func() error, all *bool) error {
	err := send()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Path != wire.PathAllNodes || *all {
		return err
	}
	refused := *e
	refused.Path = "" // it is a flag here
	number, asked, aerr := a.Question(fmt.Sprintf("%s.\nType %d, the number of all nodes, to go on: ",
		term.Clean(e.Message), e.Nodes))
	switch {
	case aerr != nil:
		return aerr
	case !asked:
		refused.Message += "; if that is meant: --yes-all-nodes"
		return &refused
	case number != strconv.Itoa(e.Nodes):
		refused.Message += "; nothing was changed"
		return &refused
	}
	*all = true
	return send()
}

func enable(a *command.App) *cobra.Command {
	var in op.EnablePolicyIn
	cmd := &cobra.Command{
		Use: "enable NAME", Short: "Have nodes act on a policy",
		Example: "  tandem policy enable line-4", Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Policy = args[0]
			return confirmed(cmd.Context(), a, func() error {
				return command.Ask(cmd.Context(), a, op.EnablePolicy, in, func(a *command.App, v view.PolicyChange) {
					a.Print("policy %s is enabled: %s. What becomes of it: tandem policy status %[1]s\n", in.Policy,
						changed(v))
				}, nearPolicy(in.Policy))
			}, &in.AllNodes)
		},
	}
	cmd.Flags().BoolVar(&in.AllNodes, "yes-all-nodes", false, "it may hit every node")
	return cmd
}

func ordered(a *command.App, cmd *cobra.Command, o op.Op[op.PolicyIn, view.PolicyChange], done string) *cobra.Command {
	cmd.Args = command.Args("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := op.PolicyIn{Policy: args[0]}
		return command.Ask(cmd.Context(), a, o, in, func(a *command.App, v view.PolicyChange) {
			a.Print("policy %s is %s: %s\n", args[0], done, changed(v))
		}, nearPolicy(args[0]))
	}
	return cmd
}

func disable(a *command.App) *cobra.Command {
	return ordered(a, &cobra.Command{
		Use: "disable NAME", Short: "Have nodes not act on a policy any more",
		Long:    "Have nodes not act on a policy any more. A version that a node has begun to try it tries to the end.",
		Example: "  tandem policy disable line-4",
	}, op.DisablePolicy, "disabled")
}

func remove(a *command.App) *cobra.Command {
	return ordered(a, &cobra.Command{
		Use: "remove NAME", Short: "Remove a policy", Example: "  tandem policy remove line-4",
	}, op.RemovePolicy, "removed")
}

func status(a *command.App) *cobra.Command {
	in := op.PolicyStatusIn{}
	cmd := &cobra.Command{
		Use: "status NAME", Short: "Show how far the nodes are with a policy; those that are not done first",
		Example: "  tandem policy status line-4\n  tandem policy status line-4 --node press-1",
		Args:    command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Policy = args[0]
			if err := command.CheckNodeFlag(cmd, in.Node); err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.StatusOfPolicy, in, printStatus, nearPolicy(args[0]))
		},
	}
	cmd.Flags().StringVar(&in.Node, "node", "", "this node only, by its `ID`")
	cmd.Flags().Uint64Var(&in.Limit, "limit", 0, "of the nodes listed; 0: 100")
	return cmd
}

func printStatus(a *command.App, v view.PolicyStatus) {
	if !v.Enabled {
		a.Print("policy %s is not enabled; it would hit %s\n", term.Clean(v.Name),
			term.Plural(len(v.Nodes)+v.Omitted, "node"))
		return
	}
	if len(v.Nodes) == 0 {
		a.Print("policy %s hits no node\n", term.Clean(v.Name))
		return
	}
	a.Print("%s\n", term.Clean(counts(v.States)))
	if v.Rollout != "" {
		a.Print("its rollout %s goes on: tandem rollout show %[1]s\n", term.Clean(v.Rollout))
	}
	a.Print("\n")
	t := &term.Table{Head: []string{"NODE", "ONLINE", "STATE", "VERSION", "BEGINS", "REMARK"}}
	for _, n := range v.Nodes {
		online, remark, begins := "yes", "", ""
		if !n.Online {
			online = "no"
		}
		switch {
		case n.DecidedBy != "":
			remark = "policy " + n.DecidedBy + " decides"
		case n.Error != nil:
			remark = command.Brief(n.Error)
		}
		if n.Rollback != nil {
			remark = strings.TrimPrefix(remark+"; in the way of going back: "+command.Brief(n.Rollback), "; ")
		}
		if n.State == wire.PolicyWaiting && !n.Scheduled.IsZero() {
			begins = a.Clock(n.Scheduled)
		}
		t.Add(n.Node, online, stateCell(n.State), n.Version, begins, remark)
	}
	a.Table(t)
	if v.Omitted > 0 {
		a.Print("and %s; --limit shows more\n", term.Plural(v.Omitted, "more node"))
	}
}

func stateCell(s wire.PolicyState) term.Cell {
	switch s {
	case wire.PolicySuccessful, wire.PolicyNoAction:
		return term.Green.Cell(words(s))
	case wire.PolicyWaiting, wire.PolicyDownloading, wire.PolicyDownloaded, wire.PolicyInitiated, view.PolicyUnknown,
		view.PolicyQueued, view.PolicyTakenBack:
		return term.Yellow.Cell(words(s))
	}
	return term.Red.Cell(words(s))
}
