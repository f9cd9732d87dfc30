package document

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/unitconfig"
)

// configExtra is what the unit configuration has besides, and its words.
func configExtra() extra {
	return extra{
		example:   "  tandem config check unit.json\n  tandem config apply unit.json --wait",
		texts:     configTexts,
		showFlags: showResolved,
		readHere:  configReadHere,
		others: func(a *command.App) []*cobra.Command {
			return []*cobra.Command{resolve(a), replay(a), explain(a)}
		},
	}
}

var configTexts = verbTexts{
	"check": {
		short:   "Say whether a unit configuration would be accepted, by the nodes too; change nothing",
		example: "  tandem config check unit.json\n  tandem config check --offline unit.json",
	},
	"apply": {
		short: "Make a unit configuration the one that every node should have",
		long: "Make a unit configuration the one that every node should have. One that is on trial is replaced:\n" +
			"its trial ends, and what is applied now stays unless it comes with --try.",
		example: "  tandem config apply unit.json --wait\n" +
			"  tandem config apply unit.json --try 2m   # rolled back unless confirmed in 2 minutes\n" +
			"  generate | tandem config apply -",
	},
	"show": {
		short: "Print the installed unit configuration, another version, or what one node gets",
		example: "  tandem config show > unit.json\n  tandem config show --version 1.9.0\n" +
			"  tandem config show --node node-1",
	},
	"status": {
		short:   "Show the unit configuration's state and how far the nodes are",
		example: "  tandem config status",
	},
	"restore": {
		short:   "Write the configuration file anew from the journal and leave the failed state",
		example: "  tandem config restore",
	},
}

// configReadHere reports a document in the shape of a controller's verdict.
func configReadHere(a *command.App, in *input) error {
	if a.JSON {
		return wellFormed(a, in)
	}
	uc, err := parseConfig(in.Source)
	if err != nil {
		return err
	}
	entries := "1 entry"
	if n := len(uc.Nodes); n != 1 {
		entries = fmt.Sprintf("%d entries", n)
	}
	a.Print("%s is well formed: version %s, %s; no controller and no node was asked\n", in.File, uc.Version, entries)
	return nil
}

// parseConfig reads a unit configuration.
func parseConfig(from command.Source) (*unitconfig.UnitConfig, error) {
	uc, problems := unitconfig.Parse(from.Text)
	if len(problems) > 0 {
		return nil, command.Malformed(problems, from)
	}
	return uc, nil
}

func explain(a *command.App) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "explain --node ID POINTER", Short: "Say which entry set a value of a node, and whether the node has it",
		Example: "  tandem config explain --node node-1 /alertRules/ram/maxThreshold", Args: command.Args("POINTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckNode(cmd, node); err != nil {
				return err
			}
			pointer := args[0]
			if pointer == "/" {
				pointer = ""
			}
			if !jsontext.Pointer(pointer).IsValid() {
				return command.Usage(
					"%.80q is not a JSON pointer; it begins with a slash, as /alertRules/ram/maxThreshold", pointer)
			}
			in := op.ExplainIn{Node: node, Pointer: pointer}
			return command.Ask(cmd.Context(), a, op.ExplainConfig, in, func(a *command.App, x view.Explanation) {
				a.Print("%s\n", term.CleanLines(why.Explained(&x, term.Shorten(string(x.Value), 300))))
			}, command.NearNode(node))
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the node's `ID`")
	return cmd
}
