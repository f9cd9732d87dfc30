// Package enrol owns the commands by which many nodes come in at once: lists of nodes with a token each, batches with
// one token for a number of nodes, and the approval of those that wait. It writes tokens to files that nobody else may
// read, or prints one once.
package enrol

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
)

// Commands is the group of these commands.
func Commands(a *command.App) *cobra.Command {
	return command.Group("enrol", "Let many nodes in at once, by a list or by one token for a number of them",
		"  tandem enrol list nodes.csv --dir tokens\n"+
			"  tandem enrol batch create line4 --count 100 --from 10.0.0.0/16\n"+
			"  tandem enrol pending\n  tandem enrol approve press-1",
		list(a), batches(a), pending(a), approve(a), refuse(a))
}

func batches(a *command.App) *cobra.Command {
	return command.Group("batch", "Make, list and revoke tokens with each of which a number of new nodes joins",
		"  tandem enrol batch create line4 --count 100 --from 10.0.0.0/16 --out tandem-join.yaml\n"+
			"  tandem enrol batch list\n  tandem enrol batch revoke line4",
		createBatch(a), listBatches(a), revokeBatch(a))
}

// The values of --approve.
const (
	onSight  = "on-sight"
	oneByOne = "one-by-one"
)

func createBatch(a *command.App) *cobra.Command {
	var in op.NewBatch
	var life command.Duration
	var approval, out string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a token with which a number of new nodes joins, and show it once",
		Long: `Make a token with which a number of new nodes joins, and show it once. Whoever has it, and
comes from one of the networks of --from, asks to be a node: by default somebody has to
approve each (tandem enrol pending). It takes no name that the unit knows.`,
		Example: "  tandem enrol batch create line4 --count 100 --for 7d --from 10.0.0.0/16 --names 'press-*'\n" +
			"  tandem enrol batch create lab --count 5 --from 192.168.1.0/24 --approve on-sight --out tandem-join.yaml",
		Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckName("batch", args[0]); err != nil {
				return err
			}
			switch {
			case in.Count <= 0:
				return command.Lacks(cmd, "--count, how many nodes may join")
			case len(in.From) == 0:
				return command.Lacks(cmd, "--from, the networks that they come from")
			case approval != onSight && approval != oneByOne:
				return command.Usage("%s: --approve is %s or %s, not %.80q", cmd.CommandPath(), oneByOne, onSight,
					approval)
			}
			if out != "" {
				if err := command.Vacant(out, false); err != nil {
					return err
				}
			}
			in.Name, in.TTL, in.OnSight = args[0], life.ISO(), approval == onSight
			return a.Connect(func(c *client.Client) error {
				g, err := client.Call(cmd.Context(), c, op.CreateBatch, in)
				if err != nil {
					return err
				}
				return showGrant(a, g, out)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&in.Count, "count", 0, "how many nodes may join (required)")
	f.Var(&life, "for", "how long the token counts, up to 30 days (default 24h)")
	f.StringArrayVar(&in.From, "from", nil, "`network` that they come from, such as 10.0.0.0/16; repeatable (required)")
	f.StringArrayVar(&in.Names, "names", nil, "`pattern` of their names, or a name; repeatable (default: any)")
	f.StringVar(&in.Type, "type", "", "believe no other node type of these nodes (default any)")
	f.StringVar(&approval, "approve", oneByOne, "`how` they get in: one-by-one or on-sight")
	f.StringVar(&out, "out", "", "new `file` for the token, for the nodes' boot partitions (default: print it)")
	return cmd
}

func showGrant(a *command.App, g view.BatchGrant, out string) error {
	if out != "" {
		data := joinFile(fmt.Sprintf("nodes of the batch %s join with this", g.Batch.Batch), g.Controller, g.Token,
			g.Expires)
		if err := command.WriteNew(out, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
			f := command.AsFailure(err)
			f.Err.Message += "; the token was made and is lost: revoke the batch, and make another"
			return f
		}
		if a.JSON {
			return a.PrintJSON(g.Batch)
		}
	} else if a.JSON {
		return a.PrintJSON(g)
	}
	how := "when somebody has approved it: tandem enrol pending"
	if g.OnSight {
		how = "on sight"
	}
	a.Print("%s of the batch %s may join from %s %s, each %s.\n", term.Plural(g.Count, "node"),
		term.Clean(g.Batch.Batch), term.Clean(strings.Join(g.From, ", ")), a.Until(g.Expires), how)
	if out != "" {
		a.Print("The token is in %s; whoever has it may ask.\n", out)
		return nil
	}
	a.Print("Whoever has the token may ask; it is shown once. On each node:\n\n"+
		"  tandem-node join --controller %s --token - <<'END'\n%s\nEND\n", term.Clean(g.Controller),
		term.Clean(g.Token))
	return nil
}

func listBatches(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show every batch: who may join by it, and how many have; never the token",
		Example: "  tandem enrol batch list", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListBatches, op.None{}, printBatches)
		},
	}
}

func printBatches(a *command.App, all op.Batches) {
	if len(all.Batches) == 0 {
		a.Print("there are no batches; tandem enrol batch create makes one\n")
		return
	}
	t := &term.Table{Head: []string{"BATCH", "STATE", "JOINED", "APPROVED", "WAITING", "UNTIL", "FROM", "NAMES",
		"LETS IN", "BY"}}
	colours := map[string]term.Colour{"open": term.Green, "revoked": term.Red, "expired": term.Yellow}
	for _, b := range all.Batches {
		how := oneByOne
		if b.OnSight {
			how = onSight
		}
		names := "any"
		if len(b.Names) > 0 {
			names = term.List(b.Names)
		}
		t.Add(b.Batch, colours[b.State].Cell(b.State), fmt.Sprintf("%d of %d", b.Joined, b.Count),
			strconv.Itoa(b.Approved), strconv.Itoa(b.Waiting), a.Clock(b.Expires),
			term.List(b.From), names, how, b.By)
	}
	a.Table(t)
}

func revokeBatch(a *command.App) *cobra.Command {
	var in op.RevokeBatchIn
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "End a batch: nobody joins by it any more; nodes that have joined stay",
		Example: "  tandem enrol batch revoke line4 --reason \"the stick was lost\"", Args: command.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckName("batch", args[0]); err != nil {
				return err
			}
			in.Batch = args[0]
			return command.Ask(cmd.Context(), a, op.RevokeBatch, in, func(a *command.App, b view.Batch) {
				a.Print("%s is revoked: nobody joins by it any more. Nodes that have, and stay: %d\n",
					term.Clean(b.Batch), b.Joined)
			})
		},
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the journal")
	return cmd
}
