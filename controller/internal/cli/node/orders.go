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

// order completes a command that sends an order to one node. in is the request, filled in by flags; node points into
// it; required is the name of a required flag, or ""; done is the text after success.
func order[In any](
	a *command.App, cmd *cobra.Command, o op.Op[In, view.Ordered], in *In, node *string, required, done string,
) *cobra.Command {
	cmd.Args = command.NodeArg
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*node = args[0]
		if f := cmd.Flags().Lookup(required); f != nil && f.Value.String() == "" {
			return command.Lacks(cmd, "--"+required)
		}
		return command.Ask(cmd.Context(), a, o, *in, func(a *command.App, r view.Ordered) {
			name := term.Clean(r.Node)
			a.Print("%s %s. To see what becomes of it: tandem health %s\n", name, done, name)
		}, command.NearNode(*node), unanswered)
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
		Use: "reboot NODE --reason WHY", Short: "Have a node reboot its machine, once no trial is under way",
		Example: "  tandem node reboot node-1 --reason \"new kernel\"",
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the journal and the node's boot reason")
	return order(a, cmd, op.RebootNode, &in, &in.Node, "reason", "reboots as soon as no trial is under way")
}

func try(a *command.App) *cobra.Command {
	var in op.TryIn
	cmd := &cobra.Command{
		Use: "try NODE", Short: "Have a node start its staged slot, or what is staged of a component, on trial",
		Example: "  tandem node try node-1 --version 1.5.0\n  tandem node try node-1 --component os --version 7",
	}
	f := cmd.Flags()
	f.StringVar(&in.Component, "component", "",
		"the `name` of the part of the node that is meant (default: the agent itself)")
	f.StringVar(&in.Version, "version", "", "the `version` that must be staged (default: whatever is)")
	f.BoolVar(&in.Force, "force", false, "also if the same content has failed on a node of the unit before")
	return order(a, cmd, op.TryNode, &in, &in.Node, "", "starts what is staged, on trial")
}

func approve(a *command.App) *cobra.Command {
	var in op.ApproveIn
	cmd := &cobra.Command{
		Use: "approve NODE --version VERSION", Short: "Allow a node to keep the version that it tries",
		Example: "  tandem node approve node-1 --version 1.5.0",
	}
	cmd.Flags().StringVar(&in.Version, "version", "", "the `version` that must be on trial")
	return order(a, cmd, op.ApproveNode, &in, &in.Node, "version",
		"may keep what it tries, when the rest is good, too")
}
