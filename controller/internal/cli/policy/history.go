package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	events "tandem.internal/controller/internal/cli/history"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/policy"
)

func history(a *command.App) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use: "history NAME", Short: "List what happened to a policy",
		Example: "  tandem policy history line-4 --limit 5",
		Long: `List what happened to the policies of this name, also to those that were removed, the newest
last. The first column is the version, for show, diff and rollback.`,
		Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return command.Usage("--limit is 0 (everything) or more")
			}
			newest := func(ctx context.Context, c *client.Client) (view.PolicyHistory, error) {
				h, err := client.Call(ctx, c, op.HistoryOfPolicy, op.PolicyIn{Policy: args[0]})
				if over := len(h.Versions) - limit; limit > 0 && over > 0 {
					h.Versions = slices.Clone(h.Versions[over:])
				}
				return h, err
			}
			return command.Gather(cmd.Context(), a, newest, printHistory, nearPolicy(args[0]))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "show the newest `N` only; 0: all")
	return cmd
}

func printHistory(a *command.App, h view.PolicyHistory) {
	t := &term.Table{Head: []string{"VERSION", "AGE", "STATE", "ENABLED", "WHO", "VIA"}}
	for _, v := range h.Versions {
		state, on := v.State, term.Cell{Text: "no"}
		if v.Back != 0 {
			state = fmt.Sprint("rolled back to ", v.Back)
		}
		if v.AllNodes {
			state += ", for every node"
		}
		if v.Rollout != "" {
			state += ", by rollout " + v.Rollout
		}
		if v.Enabled {
			on = term.Green.Cell("yes")
		}
		t.Add(strconv.FormatUint(v.Rev, 10), a.Age(v.At), state, on, v.Who, v.Via)
	}
	a.Table(t)
}

func diff(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "diff NAME A B", Short: "Show what changes from A to B, each a version of the policy or a file",
		Long: `Show what changes from A to B, each a version of the policy, the word now, or a file (- for
standard input). Owner and lastUpdated, which the controller sets, do not count.`,
		Example: "  tandem policy diff line-4 812 now\n  tandem policy diff line-4 now ./line-4.json",
		Args:    command.Args("NAME", "A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] == "-" && args[2] == "-" {
				return command.Usage("only one of A and B can be standard input")
			}
			return compare(cmd.Context(), a, args[0], args[1:])
		},
	}
}

// compare prints what changes between two sides of one policy.
func compare(ctx context.Context, a *command.App, name string, args []string) error {
	in := op.PolicyDiffIn{PolicyIn: op.PolicyIn{Policy: name}}
	var isFrom, isTo bool
	in.From, isFrom = version(args[0])
	in.To, isTo = version(args[1])
	if isFrom && isTo {
		return a.Connect(func(c *client.Client) error {
			v, err := client.Call(ctx, c, op.DiffPolicy, in)
			if err != nil {
				return nearPolicy(name)(ctx, c, err)
			}
			return a.PrintDiff(v)
		})
	}
	var sides [2]map[string]jsontext.Value
	for i, arg := range args {
		text, err := side(ctx, a, name, arg)
		if err != nil {
			return err
		}
		p, problems := policy.Parse(text.Text, nil)
		if problems != nil {
			return command.Malformed(problems, text)
		}
		sides[i] = map[string]jsontext.Value{"": policy.Bare(p)}
	}
	all, err := kind.Changes(sides[0], sides[1], ctx.Err)
	if err != nil {
		return err
	}
	if all.List == nil {
		all.List = []view.Change{}
	}
	return a.PrintDiff(view.Diff{From: args[0], To: args[1], Changes: all.List, Omitted: all.Omitted})
}

// version reads a version of a policy, 0 for the word now; false: it is none.
func version(arg string) (uint64, bool) {
	n, err := strconv.ParseUint(arg, 10, 64)
	return n, arg == "now" || err == nil && n != 0
}

// side reads one side: a version that the controller has, what it has now, or a file.
func side(ctx context.Context, a *command.App, name, arg string) (command.Source, error) {
	number, ok := version(arg)
	if !ok {
		return a.Read(arg)
	}
	from := command.Source{File: arg}
	err := a.Connect(func(c *client.Client) error {
		p, err := client.Call(ctx, c, op.ShowPolicy,
			op.PolicyVersionIn{PolicyIn: op.PolicyIn{Policy: name}, Version: number})
		if err != nil {
			return nearPolicy(name)(ctx, c, err)
		}
		from.Text = p.Document
		return nil
	})
	return from, err
}

func rollBack(a *command.App) *cobra.Command {
	var in op.RollBackPolicyIn
	cmd := &cobra.Command{
		Use: "rollback NAME", Short: "Make a policy again what it was",
		Long: `Make a policy again what it was before it said what it says now, or in the version of --to,
enabled or not. One that was removed comes back. That is a version of its own, so nothing of the
history is lost.`,
		Example: "  tandem policy rollback line-4\n  tandem policy rollback line-4 --to 812",
		Args:    command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Policy = args[0]
			return confirmed(cmd.Context(), a, func() error {
				return command.Ask(cmd.Context(), a, op.RollBackPolicy, in, func(a *command.App, v view.PolicyChange) {
					a.Print("policy %s is what it was in version %d, rev %d: %s\n", in.Policy, v.Back, v.Rev,
						changed(v))
				}, nearPolicy(in.Policy))
			}, &in.AllNodes)
		},
	}
	cmd.Flags().Uint64Var(&in.To, "to", 0, "the `version`, as history lists them (default: the newest that says "+
		"something else)")
	cmd.Flags().BoolVar(&in.AllNodes, "yes-all-nodes", false, "it may hit every node")
	return cmd
}

// Why is the command that says why, as it stands below the others of its name.
func Why(a *command.App) *cobra.Command {
	c := why(a)
	c.Use, c.Example = "policy NAME NODE", "  tandem why policy line-4 press-1"
	return c
}

func why(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "why NAME NODE", Short: "Say what becomes of a policy on a node, and why",
		Long: `Say in one sentence what becomes of a policy on a node: whether the policy hits the node, and if
not, which constraint keeps it out; which policy decides; how far the node is. Below it is what is
known, from the policy to the node's newest events about it.`,
		Example: "  tandem policy why line-4 press-1", Args: command.Args("NAME", "NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[1]); err != nil {
				return err
			}
			in := op.PolicyNodeIn{NodeIn: op.NodeIn{Node: args[1]}, PolicyIn: op.PolicyIn{Policy: args[0]}}
			var shown error
			err := command.Ask(cmd.Context(), a, op.WhyPolicy, in, func(a *command.App, v view.PolicyWhy) {
				shown = printWhy(a, &v)
			}, nearPolicy(args[0]))
			return errors.Join(err, shown)
		},
	}
}

func printWhy(a *command.App, v *view.PolicyWhy) error {
	a.PrintWhy(v.Why)
	if len(v.Events) == 0 {
		return nil
	}
	a.Print("\n")
	return events.PrintEntries(a, v.Events)
}
