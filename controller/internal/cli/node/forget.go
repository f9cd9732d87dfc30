package node

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
)

func forget(a *command.App) *cobra.Command {
	var in op.Forget
	var sel selection
	cmd := &cobra.Command{
		Use:   "forget (NODE... | FLAGS OF nodes)",
		Short: "Take nodes out of the unit that are gone: they do not count any more",
		Long: `Take nodes out of the unit that are gone: they do not count any more, and the
broker does not retain what they left. "tandem nodes" with the same flags shows
which ones a filter selects.

One that comes back is a new node. Only one that was revoked stays out.`,
		Example: "  tandem node forget node-3 node-4\n  tandem node forget --state revoked\n" +
			"  tandem node forget --offline-for 30d --name 'press-*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			selected := sel.selected()
			if (len(args) > 0) != selected.All() {
				return command.Lacks(cmd, "NODE..., or flags that select nodes")
			}
			for _, name := range args {
				if err := command.CheckNode(cmd, name); err != nil {
					return err
				}
			}
			in.Nodes = args
			call := func(ctx context.Context, c *client.Client) (op.Forgotten, error) {
				return forgetAll(ctx, c, in, selected)
			}
			named := ""
			if len(args) == 1 {
				named = args[0]
			}
			return command.Gather(cmd.Context(), a, call, printForgotten, command.NearNode(named))
		},
	}
	sel.flags(cmd.Flags())
	cmd.Flags().BoolVar(&in.Force, "force", false, "also those that are online, if only by the word of a broker")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the journal")
	return cmd
}

// forgetAll forgets the nodes that are named, or those that are selected.
func forgetAll(ctx context.Context, c *client.Client, in op.Forget, sel op.NodesIn) (done op.Forgotten, err error) {
	names := in.Nodes
	if len(names) == 0 {
		all, err := client.Call(ctx, c, op.ListNodes, sel)
		if err != nil {
			return done, err
		}
		for _, n := range all.Nodes {
			names = append(names, n.Node)
		}
	}
	done.Nodes = []string{}
	for some := range slices.Chunk(names, op.MaxForget) {
		in.Nodes = some
		v, err := client.Call(ctx, c, op.ForgetNodes, in)
		if err != nil {
			return done, err
		}
		done.Nodes = append(done.Nodes, v.Nodes...)
	}
	return done, nil
}

func printForgotten(a *command.App, v op.Forgotten) {
	if len(v.Nodes) == 0 {
		a.Print("no such node\n")
		return
	}
	verb := " are"
	if len(v.Nodes) == 1 {
		verb = " is"
	}
	a.Print("%s%s forgotten; one that says something again is a new node, unless it was revoked\n",
		term.List(v.Nodes), verb)
}
