package enrol

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
)

func pending(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:     "pending",
		Short:   "Show the nodes that wait for an approval, and those that have it and have not joined yet",
		Example: "  tandem enrol pending", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListPending, op.None{}, printPending)
		},
	}
}

// keyDigits is how much of a key is shown: what the node says of its own, too.
const keyDigits = 16

func keyID(key string) string { return key[:min(len(key), keyDigits)] }

func printPending(a *command.App, all op.PendingNodes) {
	if len(all.Nodes) == 0 {
		a.Print("nobody waits for an approval\n")
		return
	}
	t := &term.Table{Head: []string{"NODE", "STATE", "KEY", "FROM", "BATCH", "FIRST", "LAST"}}
	rivals := false
	for _, p := range all.Nodes {
		state, first, last := term.Yellow.Cell(p.State), "-", "-"
		if p.State == "approved" {
			state = term.Green.Cell("approved by " + p.By + " " + a.Ago(p.Approved))
		} else {
			first, last = a.Ago(p.First), a.Ago(p.Last)
		}
		t.Add(p.Node, state, keyID(p.Key), p.From, p.Batch, first, last)
		if r := p.Rival; r != nil {
			t.Add("", term.Red.Cell("asks, too"), keyID(r.Key), r.From, r.Batch, "-", a.Ago(r.Last))
			rivals = true
		}
	}
	a.Table(t)
	if rivals {
		a.Print("\nWho asks, too, has another key under the same name. Compare the keys with what the nodes say of " +
			"theirs, and name the right one: tandem enrol approve NODE=KEY\n")
	}
}

// orders reads arguments NODE or NODE=KEY.
func orders(args []string) (in op.JoinOrder, err error) {
	for _, arg := range args {
		node, key, has := strings.Cut(arg, "=")
		if has && key == "" {
			return in, command.Usage("%.80q has no key after =; one is given as tandem enrol pending shows it", arg)
		}
		in.Nodes = append(in.Nodes, op.NodeKey{Node: node, Key: strings.ToLower(key)})
	}
	if err := in.Check(); err != nil {
		return in, command.Usage("%s", err.Message)
	}
	return in, nil
}

// digits says how a key is named.
const digits = "the first 16 digits or more, as tandem enrol pending shows them\nand the node says of its own"

func approve(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "approve NODE[=KEY]…", Short: "Let nodes join that wait, all that are named or none",
		Long: "Let nodes join, all that are named or none: each with the key that it waits with, or with KEY,\n" +
			"and with no other. KEY is " + digits + ". It need not be shown yet,\nnor be the first under that name; " +
			"where several keys have asked under a name, it has to be named.",
		Example: "  tandem enrol approve press-1\n  tandem enrol approve press-1=3f2a9c01d4e5b677 press-2",
		Args:    command.AtLeast("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := orders(args)
			if err != nil {
				return err
			}
			return command.Ask(cmd.Context(), a, op.ApproveJoin, in, func(a *command.App, v op.PendingNodes) {
				a.Print("may join with the next try: %s\n", named(in))
				printUnseen(a, v)
			})
		},
	}
}

// printUnseen says which of the nodes that were approved have not asked yet.
func printUnseen(a *command.App, v op.PendingNodes) {
	var names []string
	for _, p := range v.Nodes {
		if name := p.Node + "=" + keyID(p.Key); p.From == "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		a.Print("nobody has asked yet, so look whether the key is right: %s\n", term.List(names))
	}
}

func named(in op.JoinOrder) string {
	names := make([]string, 0, len(in.Nodes))
	for _, n := range in.Nodes {
		names = append(names, n.Node)
	}
	return term.List(names)
}

func refuse(a *command.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "refuse NODE[=KEY]…", Short: "Keep out nodes that wait, or were approved and have not joined",
		Long: "Keep out nodes that wait, or were approved and have not joined, all that are named or none:\n" +
			"by their keys. Somebody else may join under the same name.\n\nWith NODE=KEY only that key is: " +
			digits + ".",
		Example: "  tandem enrol refuse press-9 --reason \"not ours\"",
		Args:    command.AtLeast("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			order, err := orders(args)
			if err != nil {
				return err
			}
			in := op.JoinRefusal{JoinOrder: order, Revoke: op.Revoke{Reason: reason}}
			return command.Ask(cmd.Context(), a, op.RefuseJoin, in, func(a *command.App, _ op.Refusals) {
				a.Print("refused: %s\n", named(order))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the journal")
	return cmd
}
