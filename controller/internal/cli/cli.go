// Package cli owns the operator's program, tandem: the tree of its commands. What they share is in package command;
// the commands are in packages document, rollout, node, history, policy, item, artefact, notify, diag, top and access.
// The commands and exit statuses are those of the product's command reference.
//
// It guarantees that
//   - standard output has results only, errors and progress go to standard error, and with --json
//     both are JSON of a stable shape (those of package view and of the HTTP API);
//   - a file that is malformed is refused with every place in it before a controller is asked;
//   - nothing that a node or a document says can move the cursor or change the colours of a terminal.
//
// It decides nothing about a unit: that is the controller's part.
package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/access"
	"tandem.internal/controller/internal/cli/artefact"
	"tandem.internal/controller/internal/cli/backup"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/diag"
	"tandem.internal/controller/internal/cli/document"
	"tandem.internal/controller/internal/cli/enrol"
	"tandem.internal/controller/internal/cli/history"
	"tandem.internal/controller/internal/cli/item"
	"tandem.internal/controller/internal/cli/node"
	"tandem.internal/controller/internal/cli/notify"
	"tandem.internal/controller/internal/cli/policy"
	"tandem.internal/controller/internal/cli/rollout"
	"tandem.internal/controller/internal/cli/top"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/shared/near"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// IO is the program's surroundings.
type IO = command.IO

// Run runs the program and returns its exit status. It returns soon after ctx ends.
func Run(ctx context.Context, args []string, surroundings IO) int {
	a := command.New(surroundings)
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	asked := slices.Contains(args[:end], "--json") // also if the flags turn out to be unreadable
	root := root(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.JSON = a.JSON || asked
	return a.End(err)
}

func root(a *command.App) *cobra.Command {
	if a.Kinds.Sources == nil {
		a.Kinds = kinds.All()
	}
	root := command.Root(a, "tandem", "Keep every node of a unit on the configuration it should have",
		"  tandem config apply unit.json --wait\n  tandem nodes\n"+
			"  tandem config explain --node node-1 /alertRules/ram/maxThreshold",
		slices.Concat(document.Commands(a, a.Kinds.Documents()), node.Commands(a), history.Commands(a),
			artefact.Commands(a), access.Commands(a), backup.Commands(a),
			[]*cobra.Command{rollout.Commands(a), policies(a), policy.Property(a), policy.Agent(a), item.Items(a),
				item.Subjects(a), item.Desired(a), whys(a), enrol.Commands(a), notify.Commands(a), diag.Command(a),
				top.Command(a), version(a)})...)
	root.Long = `tandem is the operator's side of a Tandem controller.

It talks to the controller on a unix socket, whose file mode says who may, or over
HTTPS with a token (tandem token create). Exit status: 0 done; 1 refused by a rule;
2 usage or malformed input; 3 the controller cannot be reached, or its disk refuses
to write; 4 accepted, but not every node got there.`
	asked := root.Flags().Bool("version", false, "print this program's version, as the command version does")
	without := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if *asked && len(args) == 0 {
			return printVersion(a)
		}
		return without(c, args)
	}
	return root
}

func version(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print this program's version", Example: "  tandem version", Args: command.Args(),
		RunE: func(*cobra.Command, []string) error { return printVersion(a) },
	}
}

func policies(a *command.App) *cobra.Command {
	return command.Group("policy", "Say how the agents of nodes that are chosen by what they are keep themselves",
		"  tandem policy check line-4.json\n  tandem policy apply line-4.json\n  tandem policy status line-4",
		policy.Commands(a)...)
}

func whys(a *command.App) *cobra.Command {
	why := command.Group("why", "Say how something is and why: what is wrong first, and what would change it",
		"  tandem why node node-1\n  tandem why rollout\n  tandem why slot web@node-1",
		append(node.Why(a), rollout.Why(a), policy.Why(a), item.Why(a))...)
	without := why.RunE
	why.RunE = func(c *cobra.Command, args []string) error { // a name may stand where the kind of thing does
		err := without(c, args)
		if len(args) == 0 || len(near.All(args[0], command.Names(c))) > 0 {
			return err
		}
		f := command.AsFailure(err)
		if _, serr := workload.ParseSlot(args[0]); serr == nil {
			f.Err.Message += "; of a slot: tandem why slot " + args[0]
		} else if topic.ValidName(args[0]) {
			f.Err.Message += "; of a node: tandem why node " + args[0]
		}
		return f
	}
	return why
}

// versionJSON is what version prints with --json.
type versionJSON struct {
	Version string `json:"version"`
	Wire    int    `json:"wire"`
}

func printVersion(a *command.App) error {
	if a.JSON {
		return a.PrintJSON(versionJSON{settings.Version, wire.Version})
	}
	a.Print("tandem %s, wire version %d\n", settings.Version, wire.Version)
	return nil
}
