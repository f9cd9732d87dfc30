package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/shared/near"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// What people mistype is corrected by one rule (near.All), whatever it names: a command, a flag, a node, a version,
// a slot, a type.

// suggestion ends a message about a name that does not exist.
func suggestion(name string, known []string, otherwise string) string {
	return near.Suggest(near.All(name, known), otherwise)
}

// group is a command that only has commands.
func (a *app) group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: cobra.ArbitraryArgs, RunE: needsCommand}
	c.AddCommand(commands...)
	return c
}

// needsCommand is what happens when no command of a command is given, or one that it does not have.
func needsCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s needs a command: %s; %s --help explains them", c.CommandPath(), strings.Join(names(c), ", "), c.CommandPath())
	}
	return noCommand(c, args[0])
}

// names lists a command's commands.
func names(c *cobra.Command) []string {
	var list []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, sub.Name())
		}
	}
	return list
}

// noCommand is the error for a word that stands where a command does and is none. Where a subject may stand, too, such
// as a node, it is nil unless the word looks like a command.
func noCommand(c *cobra.Command, word string) error {
	all := "it has " + strings.Join(names(c), ", ")
	if _, subject, _ := strings.Cut(c.Use, " "); subject != "" {
		if len(near.All(word, names(c))) == 0 {
			return nil
		}
		all = c.CommandPath() + " --help lists them"
	}
	return usage("%.200q is no command of %s%s", word, c.CommandPath(), suggestion(word, names(c), all))
}

// subject checks the argument of a command that has commands, too: several words begin with one of those, and perhaps
// it is misspelt, or not at its place.
func subject(placeholder string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			if err := noCommand(c, args[0]); err != nil {
				return err
			}
			if at := near.All(args[1], names(c)); len(at) == 1 {
				return usage("%.200q stands where a command of %s does: the command comes first; see %s %s --help", args[0], c.CommandPath(), c.CommandPath(), at[0])
			}
		}
		return want(placeholder)(c, args)
	}
}

// elsewhere says where an argument that a command does not take belongs.
func elsewhere(c *cobra.Command, arg string) string {
	_, err := unitconfig.Compare(arg, arg)
	switch {
	case c.Flags().Lookup("wait") != nil:
		return ""
	case err == nil && c.Flags().Lookup("version") != nil:
		return "; a version is given as --version " + arg
	case c.Flags().Lookup("node") != nil:
		return "; a node is given as --node ID"
	case c.Name() == "nodes":
		return "; for one node: tandem node ID"
	}
	return ""
}

// unknownNode makes an error that says there is no such node one that helps: with the nodes whose names are near, and
// with the commands that could have been meant, where both may stand.
func (a *app) unknownNode(ctx context.Context, c *client.Client, node string, err error, commands ...string) error {
	e := asFailure(err)
	if e.err.Code != wire.CodeNotFound {
		return err
	}
	nodes, listErr := c.Nodes(ctx)
	if listErr != nil {
		return err // the first error says more
	}
	var known []string
	for _, n := range nodes.Nodes {
		if n.Node == node {
			return err
		}
		known = append(known, n.Node)
	}
	found := near.All(node, known)
	told, exit := *e.err, e.exit
	if command := near.All(node, commands); len(command) > 0 {
		if len(found) == 0 {
			exit = exitUsage
		}
		for _, name := range command {
			found = append(found, "the command "+name)
		}
	}
	told.Message += near.Suggest(found, "tandem nodes lists them")
	return &failure{exit: exit, err: &told}
}

// heardOf is nil for a node that the unit knows, and else the error that helps.
func (a *app) heardOf(ctx context.Context, c *client.Client, node string) error {
	if _, err := c.Node(ctx, node); err != nil {
		return a.unknownNode(ctx, c, node, err)
	}
	return nil
}

// unknownVersion makes an error that says there is no such version one that helps; of is the command that has a history.
func (a *app) unknownVersion(ctx context.Context, c *client.Client, of, version string, err error) error {
	e := asFailure(err)
	if e.err.Code != wire.CodeNotFound || version == "" {
		return err
	}
	get := map[string]func(*client.Client, context.Context) (op.History, error){"config": (*client.Client).History, "workload": (*client.Client).WorkloadHistory}[of]
	h, listErr := get(c, ctx)
	if listErr != nil {
		return err // the first error says more
	}
	var known []string
	for _, v := range h.Versions {
		if v.State == "accepted" || v.State == "imported" {
			known = append(known, v.Version)
		}
	}
	told := *e.err
	told.Message += suggestion(version, known, "tandem "+of+" history lists them")
	return &failure{exit: e.exit, err: &told}
}

// helpCommand is help in our words: it says when there is no such command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]…", Short: "Explain a command, as --help does", Example: "  tandem help config apply",
		RunE: func(c *cobra.Command, args []string) error {
			found := c.Root()
			for _, word := range args {
				at := slices.IndexFunc(found.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
				if at < 0 {
					return usage("%.200q is no command of %s%s", word, found.CommandPath(), suggestion(word, names(found), found.CommandPath()+" --help lists them"))
				}
				found = found.Commands()[at]
			}
			return found.Help()
		},
	}
}

// completion adds the command that makes completion scripts, with our errors and an example each.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	at := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })
	c := root.Commands()[at]
	c.Example = "  source <(tandem completion bash)"
	c.Args, c.RunE = cobra.ArbitraryArgs, needsCommand
	for _, shell := range c.Commands() {
		shell.Example = "  tandem completion " + shell.Name()
		shell.Args = want()
	}
}
