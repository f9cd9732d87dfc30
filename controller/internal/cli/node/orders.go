package node

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// one is an order to one node, and the same to many.
type one[In any] struct {
	op       op.Op[In, view.Ordered]
	in       *In     // the request, filled in by flags
	node     *string // points into it
	required string  // name of a required flag, or ""
	done     string  // text after success
	what     string  // they do, of many
	many     func() op.NodesOrder
}

// order completes a command that sends an order to one node, or to many.
func order[In any](a *command.App, cmd *cobra.Command, o one[In]) *cobra.Command {
	var many command.Many
	many.Flags(cmd)
	cmd.Args = many.Args()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f := cmd.Flags().Lookup(o.required); f != nil && f.Value.String() == "" {
			return command.Lacks(cmd, "--"+o.required)
		}
		if many.Given(cmd) {
			return many.Order(cmd, a, o.many(), o.what)
		}
		*o.node = args[0]
		return command.Ask(cmd.Context(), a, o.op, *o.in, func(a *command.App, r view.Ordered) {
			name := term.Clean(r.Node)
			a.Print("%s %s. To see what becomes of it: tandem health %s\n", name, o.done, name)
		}, command.NearNode(*o.node), unanswered)
	}
	return cmd
}

// unanswered turns a no-answer error into a failure with ExitIncomplete.
func unanswered(_ context.Context, _ *client.Client, err error) error {
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeNoAnswer {
		return &command.Failure{Exit: command.ExitIncomplete, Err: e}
	}
	return err
}

func reboot(a *command.App) *cobra.Command {
	var in op.RebootIn
	cmd := &cobra.Command{
		Use:   "reboot (NODE | --where FILTER) --reason WHY",
		Short: "Have a node reboot its machine, once no trial is under way",
		Example: "  tandem node reboot node-1 --reason \"new kernel\"\n" +
			"  tandem node reboot --where 'state:unwell type:press' --reason \"new kernel\" --dry-run",
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the journal and the node's boot reason")
	return order(a, cmd, one[op.RebootIn]{op: op.RebootNode, in: &in, node: &in.Node, required: "reason",
		done: "reboots as soon as no trial is under way", what: "reboot",
		many: func() op.NodesOrder { return op.NodesOrder{Reboot: &in.Reboot} }})
}

func try(a *command.App) *cobra.Command {
	var in op.TryIn
	cmd := &cobra.Command{
		Use:   "try (NODE | --where FILTER)",
		Short: "Have a node start its staged slot, or what is staged of a component, on trial",
		Example: "  tandem node try node-1 --version 1.5.0\n  tandem node try node-1 --component os --version 7\n" +
			"  tandem node try --where 'type:press agent:<1.5' --version 1.5.0",
	}
	f := cmd.Flags()
	f.StringVar(&in.Component, "component", "",
		"the `name` of the part of the node that is meant (default: the agent itself)")
	f.StringVar(&in.Version, "version", "", "the `version` that must be staged (default: whatever is)")
	f.BoolVar(&in.Force, "force", false, "also if the same content has failed on a node of the unit before")
	return order(a, cmd, one[op.TryIn]{op: op.TryNode, in: &in, node: &in.Node, done: "starts what is staged, on trial",
		what: "try what is staged", many: func() op.NodesOrder { return op.NodesOrder{Try: &in.Try} }})
}

func approve(a *command.App) *cobra.Command {
	var in op.ApproveIn
	cmd := &cobra.Command{
		Use:   "approve (NODE | --where FILTER) --version VERSION",
		Short: "Allow a node to keep the version that it tries",
		Example: "  tandem node approve node-1 --version 1.5.0\n" +
			"  tandem node approve --where type:press --version 1.5.0 --expect 12",
	}
	cmd.Flags().StringVar(&in.Version, "version", "", "the `version` that must be on trial")
	return order(a, cmd, one[op.ApproveIn]{op: op.ApproveNode, in: &in, node: &in.Node, required: "version",
		done: "may keep what it tries, when the rest is good, too", what: "keep what is on trial",
		many: func() op.NodesOrder { return op.NodesOrder{Approve: &in.Approve} }})
}
