package access

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

func keys(a *command.App) *cobra.Command {
	return command.Group("key", "Show and change the keys that sign what the unit's controller says",
		"  tandem key show\n  tandem key rotate\n  tandem key retire 34750f98bd59fcfc",
		showKeys(a), rotateKey(a), retireKey(a))
}

func showKeys(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the signing keys, and which nodes are not known to believe them",
		Example: "  tandem key show", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ShowKeys, op.None{}, printKeys)
		},
	}
}

func rotateKey(a *command.App) *cobra.Command {
	var in op.RotateKey
	cmd := &cobra.Command{
		Use: "rotate", Short: "Do the next step of a rotation: announce a new key, or have the announced one sign",
		Long: `Do the next step of a rotation.

The first time, a new key is made and announced to the nodes under the key that they
believe. The second time, it takes over: it signs everything from then on, and what
nodes should run is sealed anew. That is refused while there are nodes that are not
known to believe it, unless --force says to go on. Then retire the old key.`,
		Example: "  tandem key rotate\n  tandem key rotate --force", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.RotateKeys, in, printKeys)
		},
	}
	cmd.Flags().BoolVar(&in.Force, "force", false, "switch although some nodes are not known to believe the new key")
	return cmd
}

func retireKey(a *command.App) *cobra.Command {
	var in op.RetireKey
	cmd := &cobra.Command{
		Use: "retire KID", Short: "Take a key off the list: nodes drop it, and its private half is removed",
		Example: "  tandem key retire 34750f98bd59fcfc", Args: command.Args("KID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.ID = args[0]
			return command.Ask(cmd.Context(), a, op.RetireKeys, in, printKeys)
		},
	}
	cmd.Flags().BoolVar(&in.Force, "force", false,
		"retire it although some nodes are not known to believe the key that signs")
	return cmd
}

// printKeys shows the keys, and what is to be done next.
func printKeys(a *command.App, k view.Keys) {
	t := &term.Table{Head: []string{"KEY", "STATE", "SINCE", "BY", "BELIEVED BY", "NOT KNOWN OF"}}
	for _, key := range k.Keys {
		since, state := "the beginning", term.Cell{Text: key.State}
		if !key.Since.IsZero() {
			since = a.Ago(key.Since)
		}
		if key.State == "signing" {
			state.Colour = term.Green
		}
		missing := term.Yellow.Cell(strings.Join(key.Missing, ", "))
		if key.Omitted > 0 {
			missing.Text += fmt.Sprintf(" and %d more", key.Omitted)
		}
		t.Add(key.ID, state, since, key.Who, term.Plural(key.Nodes, "node"), missing)
	}
	a.Table(t)
	for _, key := range k.Keys {
		id := term.Clean(key.ID)
		switch {
		case key.State == "announced" && len(key.Missing) == 0:
			a.Print("\nEvery node believes %s. To have it sign: tandem key rotate\n", id)
		case key.State == "announced":
			a.Print("\n%s is announced. When every node believes it: tandem key rotate\n", id)
		case key.State == "leaving":
			a.Print("\n%s signs no more. To have nodes drop it: tandem key retire %s\n", id, id)
		}
	}
}
