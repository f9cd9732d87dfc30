package access

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

func cas(a *command.App) *cobra.Command {
	return command.Group("ca", "Show and change the CAs that certify the unit's controller and nodes",
		"  tandem ca show\n  tandem ca rotate\n  tandem ca retire 34750f98bd59fcfc\n  tandem ca export cas.json",
		showCAs(a), rotateCA(a), retireCA(a), exportCAs(a), importCAs(a))
}

func showCAs(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the CAs, and who is not ready for the next step of a rotation",
		Example: "  tandem ca show", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ShowCAs, op.None{}, printCAs)
		},
	}
}

func rotateCA(a *command.App) *cobra.Command {
	var in op.RotateCA
	cmd := &cobra.Command{
		Use: "rotate", Short: "Do the next step of a rotation: announce a new CA, or have the announced one certify",
		Long: `Do the next step of a rotation.

The first time, a new CA is made, and nodes are told of it under the one that they
believe. The second time, it takes over: it certifies whoever believes it, and nodes
renew by themselves, within minutes. That is refused while there are nodes that are not
known to believe it, unless --force says to go on. Both count until the old one is
retired: so do certificates, tokens and fingerprints of before.`,
		Example: "  tandem ca rotate\n  tandem ca rotate --force", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.RotateCAs, in, printCAs)
		},
	}
	cmd.Flags().BoolVar(&in.Force, "force", false, "switch although some nodes are not known to believe the new CA")
	return cmd
}

func retireCA(a *command.App) *cobra.Command {
	var in op.RetireCA
	cmd := &cobra.Command{
		Use: "retire ID", Short: "Take a CA off the list: nothing of it counts any more, and its file is removed",
		Example: "  tandem ca retire 34750f98bd59fcfc", Args: command.Args("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.ID = args[0]
			return command.Ask(cmd.Context(), a, op.RetireCAs, in, printCAs)
		},
	}
	cmd.Flags().BoolVar(&in.Force, "force", false, "retire it although somebody still needs it")
	return cmd
}

// printCAs shows the CAs, and what is to be done next.
func printCAs(a *command.App, v view.CAs) {
	t := &term.Table{Head: []string{"CA", "STATE", "SINCE", "BY", "UNTIL", "BELIEVED BY", "NOT READY"}}
	pins := make([]string, 0, len(v.CAs))
	for _, ca := range v.CAs {
		since, state := "the beginning", term.Cell{Text: ca.State}
		if !ca.Since.IsZero() {
			since = a.Ago(ca.Since)
		}
		if ca.State == "signing" {
			state.Colour = term.Green
		}
		missing := term.Yellow.Cell(strings.Join(ca.Missing, ", "))
		if ca.Omitted > 0 {
			missing.Text += fmt.Sprintf(" and %d more", ca.Omitted)
		}
		t.Add(ca.ID, state, since, ca.Who, ca.Expires.UTC().Format(time.DateOnly), term.Plural(ca.Nodes, "node"),
			missing)
		pins = append(pins, term.Clean(ca.Fingerprint))
	}
	a.Table(t)
	a.Print("\nOperators: TANDEM_CA=%s\n", strings.Join(pins, ","))
	printRoot(a, v.Root)
	for _, ca := range v.CAs {
		id := term.Clean(ca.ID)
		switch {
		case ca.State == "announced" && len(ca.Missing) == 0:
			a.Print("\nEvery node believes %s. To have it certify: tandem ca rotate\n"+
				"A broker of the site needs the new ca.pem before that.\n", id)
		case ca.State == "announced":
			a.Print("\n%s is announced. When every node believes it: tandem ca rotate\n"+
				"A broker of the site needs the new ca.pem before that.\n", id)
		case ca.State == "leaving" && len(ca.Missing) == 0:
			a.Print("\nNobody needs %s any more. To end it: tandem ca retire %s\n", id, id)
		case ca.State == "leaving":
			a.Print("\n%s certifies no more. When nobody needs it: tandem ca retire %s\n", id, id)
		}
	}
}
