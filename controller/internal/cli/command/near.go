package command

import (
	"context"
	"slices"
	"strings"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// Whatever a mistyped word names (a command, a flag, a node, a version, a slot, a type), one rule corrects it:
// near.All.

// Suggest ends a message about a name that does not exist: with the known names that are near, else with otherwise.
func Suggest(name string, known []string, otherwise string) string {
	return near.Suggest(near.All(name, known), otherwise)
}

// Nearest adds the near ones of known to a not-found error about name. It is silent if known cannot be had: the first
// error says more.
func Nearest(
	name, otherwise string, known func(context.Context, *client.Client) ([]string, error),
) Explain {
	return func(ctx context.Context, c *client.Client, err error) error {
		f := AsFailure(err)
		if f.Err.Code != wire.CodeNotFound || name == "" {
			return err
		}
		all, failed := known(ctx, c)
		if failed != nil || slices.Contains(all, name) {
			return err
		}
		better := *f.Err
		better.Message += Suggest(name, all, otherwise)
		return &Failure{Exit: f.Exit, Err: &better}
	}
}

// NearListed is Nearest for a not-found error that ends with the command that lists the names, lists; any other is
// about something else.
func NearListed(name, lists string, known func(context.Context, *client.Client) ([]string, error)) Explain {
	return func(ctx context.Context, c *client.Client, err error) error {
		f := AsFailure(err)
		text, ours := strings.CutSuffix(f.Err.Message, "; "+lists)
		if f.Err.Code != wire.CodeNotFound || !ours {
			return err
		}
		all, failed := known(ctx, c)
		if failed != nil {
			return err
		}
		better := *f.Err
		better.Message = text + Suggest(name, all, lists)
		return &Failure{Exit: f.Exit, Err: &better}
	}
}

func nodeNames(ctx context.Context, c *client.Client) (known []string, err error) {
	nodes, err := client.Call(ctx, c, op.ListNodes, op.NodesIn{})
	for _, n := range nodes.Nodes {
		known = append(known, n.Node)
	}
	return known, err
}

// NearNode adds the nearest node names to a not-found error, and those of the commands that could stand in its place.
func NearNode(node string, commands ...string) Explain {
	return func(ctx context.Context, c *client.Client, err error) error {
		meant := near.All(node, commands)
		if len(meant) == 0 {
			return Nearest(node, "tandem nodes lists them", nodeNames)(ctx, c, err)
		}
		f := AsFailure(err)
		known, failed := nodeNames(ctx, c)
		if f.Err.Code != wire.CodeNotFound || failed != nil || slices.Contains(known, node) {
			return err
		}
		found := near.All(node, known)
		better := Failure{Exit: f.Exit, Err: new(*f.Err)}
		if len(found) == 0 {
			better.Exit = ExitUsage
		}
		for _, name := range meant {
			found = append(found, "the command "+name)
		}
		better.Err.Message += near.Suggest(found, "")
		return &better
	}
}

// KnownNode is nil for a node that the unit knows, else the error that helps.
func KnownNode(ctx context.Context, c *client.Client, node string) error {
	if _, err := client.Call(ctx, c, op.ShowNode, op.NodeIn{Node: node}); err != nil {
		return NearNode(node)(ctx, c, err)
	}
	return nil
}
