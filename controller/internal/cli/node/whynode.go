package node

import (
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Why are the commands that say why, of what this package has.
func Why(a *command.App) []*cobra.Command {
	slot := whySlot(a)
	slot.Use, slot.Example = "slot SLOT", "  tandem why slot web@node-1"
	return []*cobra.Command{whyNode(a), whyDocument(a), slot}
}

func whyNode(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "node NODE", Short: "Say how a node is and why, what is wrong first",
		Example: "  tandem why node node-1", Args: command.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.WhyNode, op.NodeIn{Node: args[0]}, (*command.App).PrintWhy,
				command.NearNode(args[0]))
		},
	}
}

func whyDocument(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "document NODE KIND", Short: "Say how a document is on its node and why",
		Long: "Say how a document is on its node and why. KIND is that of the document: config, health, components,\n" +
			"workloads or policies.",
		Example: "  tandem why document node-1 config", Args: command.Args("NODE", "KIND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			in := op.DocumentIn{NodeIn: op.NodeIn{Node: args[0]}, Kind: wire.Kind(args[1])}
			if err := in.Check(); err != nil {
				kinds := command.Texts(wire.Documents())
				return command.Usage("%.80q is no kind of documents%s", args[1], command.Suggest(args[1], kinds,
					"there are "+term.List(kinds)))
			}
			return command.Ask(cmd.Context(), a, op.WhyDocument, in, (*command.App).PrintWhy, command.NearNode(args[0]))
		},
	}
}

func diff(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "diff NODE", Short: "Show what a node runs beside what it should run",
		Long: "Show what a node runs beside what it should run, value by value, for each kind of document. Kinds in\n" +
			"which something differs come first.",
		Example: "  tandem node diff node-1", Args: command.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, args[0]); err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.DiffNode, op.NodeIn{Node: args[0]}, printNodeDiff,
				command.NearNode(args[0]))
		},
	}
}

func printNodeDiff(a *command.App, v view.NodeDiff) {
	if len(v.Kinds) == 0 {
		a.Print("no documents\n")
	}
	for i := range v.Kinds {
		k := &v.Kinds[i]
		if i > 0 {
			a.Print("\n")
		}
		what := term.Plural(len(k.Changes)+k.Omitted, "difference")
		switch {
		case k.Unknown != "":
			what = k.Unknown
		case len(k.Changes) == 0:
			what = "no difference"
		}
		a.Print("%s: running %s, desired %s: %s, %d alike\n", term.Clean(k.Kind), version(k.Running),
			version(k.Desired), term.Clean(what), k.Same)
		a.Changes(k.Changes, k.Omitted)
	}
}

func version(v string) string {
	if v == "" {
		return "none"
	}
	return term.Clean(v)
}
