package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/wire"
)

// order gives a command what all orders to one node share: body makes the request's body.
func (a *app) order(cmd *cobra.Command, what, done string, body func() (any, error)) *cobra.Command {
	cmd.Args = want("NODE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkNode(cmd, args[0]); err != nil {
			return err
		}
		in, err := body()
		if err != nil {
			return err
		}
		return a.with(func(c *client.Client) error {
			o, err := c.Order(cmd.Context(), args[0], what, in)
			if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeNoAnswer {
				return &failure{exit: exitIncomplete, err: e}
			}
			if err != nil {
				return a.unknownNode(cmd.Context(), c, args[0], err)
			}
			if a.json {
				return a.printJSON(o)
			}
			a.print("%s %s. To see what becomes of it: tandem health %s\n", clean(o.Node), done, clean(o.Node))
			return nil
		})
	}
	return cmd
}

func (a *app) reboot() *cobra.Command {
	var in op.Reboot
	cmd := &cobra.Command{
		Use: "reboot NODE --reason WHY", Short: "Have a node reboot its machine, once no trial is under way",
		Example: "  tandem node reboot node-1 --reason \"new kernel\"",
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the journal and the node's boot reason")
	return a.order(cmd, "reboot", "reboots as soon as no trial is under way", func() (any, error) {
		if in.Reason == "" {
			return nil, usage("%s needs --reason; for example:\n%s", cmd.CommandPath(), cmd.Example)
		}
		return in, nil
	})
}

func (a *app) try() *cobra.Command {
	var in op.Try
	cmd := &cobra.Command{
		Use: "try NODE", Short: "Have a node start its staged slot, or what is staged of a component, on trial",
		Example: "  tandem node try node-1 --version 1.5.0\n  tandem node try node-1 --component os --version 7",
	}
	cmd.Flags().StringVar(&in.Component, "component", "", "the `name` of the part of the node that is meant (default: the agent itself)")
	cmd.Flags().StringVar(&in.Version, "version", "", "the `version` that must be staged (default: whatever is)")
	return a.order(cmd, "try", "starts what is staged, on trial", func() (any, error) { return in, nil })
}

func (a *app) approve() *cobra.Command {
	var in op.Approve
	cmd := &cobra.Command{
		Use: "approve NODE --version VERSION", Short: "Allow a node to keep the version that it tries",
		Example: "  tandem node approve node-1 --version 1.5.0",
	}
	cmd.Flags().StringVar(&in.Version, "version", "", "the `version` that must be on trial")
	return a.order(cmd, "approve", "may keep what it tries, when the rest is good, too", func() (any, error) {
		if in.Version == "" {
			return nil, usage("%s needs --version; for example:\n%s", cmd.CommandPath(), cmd.Example)
		}
		return in, nil
	})
}
