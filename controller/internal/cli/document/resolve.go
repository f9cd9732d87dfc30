package document

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// showResolved adds --node to show: what one node gets, or would get with a version.
func showResolved(a *command.App, cmd *cobra.Command, g *group) func(context.Context, string) (bool, error) {
	var node string
	cmd.Flags().StringVar(&node, "node", "", "what this node gets, resolved; a node's `ID`")
	return func(ctx context.Context, version string) (bool, error) {
		if err := command.CheckNodeFlag(cmd, node); err != nil || node == "" {
			return false, err
		}
		return true, a.Connect(func(c *client.Client) error {
			res, err := client.Call(ctx, c, op.ResolveConfig, op.ResolveIn{Node: node, Version: version})
			if err != nil && version != "" {
				return g.nearVersion(version)(ctx, c, err)
			} else if err != nil {
				return command.NearNode(node)(ctx, c, err)
			}
			if res.Rule == string(view.ByDefault) { // for anybody, also for one that does not exist
				if err := command.KnownNode(ctx, c, node); err != nil {
					return err
				}
			}
			return printResolved(a, res)
		})
	}
}

// printResolved prints what a node gets, and on standard error which entry gave it.
func printResolved(a *command.App, res view.Resolved) error {
	if a.JSON {
		return a.PrintJSON(res)
	}
	why := fmt.Sprintf("%s gets %s", res.Node, origin(res.Rule, res.Node, res.Type))
	if res.Entry != "" {
		why += ", " + res.Entry
	}
	if _, err := fmt.Fprintln(a.Err, term.Clean(why)); err != nil {
		return err
	}
	return a.PrintIndented(res.Document)
}

// origin describes a step of the resolution.
func origin(rule, node, nodeType string) string {
	switch rule {
	case string(unitconfig.ByNode):
		return "the entry for node " + node
	case string(unitconfig.ByType):
		if nodeType == "" {
			return "the entry for its node type"
		}
		return "the entry for node type " + nodeType
	}
	return "the default: no entry names it or its type"
}

func resolve(a *command.App) *cobra.Command {
	var node, nodeType string
	cmd := &cobra.Command{
		Use: "resolve FILE --node ID", Short: "Print what a node would get from a file, without a controller",
		Example: "  tandem config resolve unit.json --node node-1 --type mainType",
		Args:    command.Args("FILE (- for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, node); err != nil {
				return err
			}
			from, err := a.Read(args[0])
			if err != nil {
				return err
			}
			uc, err := parseConfig(from)
			if err != nil {
				return err
			}
			c, src := unitconfig.Resolve(uc, node, nodeType)
			body := unitconfig.EncodeNode(c)
			return printResolved(a, view.Resolved{Node: node, Type: nodeType, Rule: string(src.Rule),
				Entry: src.Pointer(), Hash: wire.Hash(body), Document: body})
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the node's `ID`")
	cmd.Flags().StringVar(&nodeType, "type", "", "the node's `type`")
	return cmd
}
