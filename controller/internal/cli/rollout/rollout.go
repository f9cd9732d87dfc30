// Package rollout owns the commands about rollouts, the reading of their plans, and waiting for their end.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Commands is the command for rollouts.
func Commands(a *command.App) *cobra.Command {
	return command.Group("rollout", "Bring new content to the nodes in waves, and see what holds it up",
		"  tandem rollout check plan.json\n  tandem config apply unit.json --rollout plan.json\n  tandem rollout show",
		check(a), list(a), show(a), pause(a), resume(a), abort(a))
}

const listed = "tandem rollout list has them"

// nearRollout adds the nearest IDs to a not-found error.
func nearRollout(id string) command.Explain {
	return command.Nearest(id, listed, func(ctx context.Context, c *client.Client) (known []string, err error) {
		all, err := client.Call(ctx, c, op.ListRollouts, op.None{})
		for _, r := range all.Rollouts {
			known = append(known, r.ID)
		}
		return known, err
	})
}

// ended reports whether nothing more is issued.
func ended(p rollout.Phase) bool {
	return p == rollout.Done || p == rollout.Aborted || p == rollout.Superseded
}

// which returns the rollout that is meant where none is named: the one that goes on. If there is none, it is the newest
// where that will do.
func which(ctx context.Context, c *client.Client, args []string, newest bool) (id string, err error) {
	if len(args) > 0 {
		return args[0], nil
	}
	all, err := client.Call(ctx, c, op.ListRollouts, op.None{})
	if err != nil {
		return "", err
	}
	var going []string
	for _, r := range all.Rollouts {
		if !ended(r.Phase) {
			going = append(going, r.ID)
		}
	}
	switch n := len(all.Rollouts); {
	case len(going) == 1:
		return going[0], nil
	case len(going) > 1:
		return "", command.Usage("more than one rollout goes on; name one: %s", term.List(going))
	case newest && n > 0:
		return all.Rollouts[n-1].ID, nil
	case newest:
		return "", command.Refuse(command.ExitRefused, wire.CodeNotFound, "there was no rollout yet")
	}
	return "", command.Refuse(command.ExitRefused, wire.CodeNotFound, "no rollout goes on")
}

// oneAtMost takes the ID of a rollout, or nothing.
func oneAtMost(c *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return command.Args("ROLLOUT")(c, args)
}

// ordered makes a command that decides something about a rollout.
func ordered[In any](
	a *command.App, cmd *cobra.Command, o op.Op[In, view.Rollout], in func(op.RolloutIn) (In, error),
) *cobra.Command {
	cmd.Args = oneAtMost
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := in(op.RolloutIn{}); err != nil {
			return err
		}
		id := ""
		call := func(ctx context.Context, c *client.Client) (v view.Rollout, err error) {
			if id, err = which(ctx, c, args, false); err != nil {
				return v, err
			}
			input, err := in(op.RolloutIn{Rollout: id})
			if err != nil {
				return v, err
			}
			return client.Call(ctx, c, o, input)
		}
		show := func(a *command.App, v view.Rollout) { a.Print("%s\n", term.Clean(v.Why)) }
		return command.Gather(cmd.Context(), a, call, show,
			func(ctx context.Context, c *client.Client, err error) error { return nearRollout(id)(ctx, c, err) })
	}
	return cmd
}

func pause(a *command.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "pause [ROLLOUT]", Short: "Issue to no more nodes until the rollout is resumed",
		Long: "Issue to no more nodes until the rollout is resumed. Nodes that were issued to go on. Without an ID\n" +
			"it is the rollout that goes on.",
		Example: "  tandem rollout pause config-17 --reason 'the line is being moved'",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks, and the journal")
	return ordered(a, cmd, op.PauseRollout, func(in op.RolloutIn) (op.PauseRolloutIn, error) {
		return op.PauseRolloutIn{RolloutIn: in, PauseReason: op.PauseReason{Reason: reason}}, nil
	})
}

func resume(a *command.App) *cobra.Command {
	return ordered(a, &cobra.Command{
		Use: "resume [ROLLOUT]", Short: "Go on with a rollout that is paused",
		Long: "Go on with a rollout that is paused. Nodes that have failed or are silent by now do not count\n" +
			"against its failure budget any more. Without an ID it is the rollout that goes on.",
		Example: "  tandem rollout resume config-17",
	}, op.ResumeRollout, func(in op.RolloutIn) (op.RolloutIn, error) { return in, nil })
}

func abort(a *command.App) *cobra.Command {
	var leave, takeBack, now bool
	cmd := &cobra.Command{
		Use: "abort [ROLLOUT]", Short: "End a rollout: leave the nodes as they are, or take them back",
		Long: "End a rollout. Nodes stay as they are, or those that were issued to get their own last good\n" +
			"documents again, within the rollout's limits; without a flag it is what the plan says. Without an ID\n" +
			"it is the rollout that goes on.",
		Example: "  tandem rollout abort config-17\n  tandem rollout abort config-17 --take-back --now",
	}
	f := cmd.Flags()
	f.BoolVar(&leave, "leave", false, "nodes stay as they are")
	f.BoolVar(&takeBack, "take-back", false, "nodes get their last good documents again")
	f.BoolVar(&now, "now", false, "take back outside of the maintenance windows, too")
	return ordered(a, cmd, op.AbortRollout, func(in op.RolloutIn) (op.AbortRolloutIn, error) {
		end := op.RolloutEnd{Now: now}
		switch {
		case leave && takeBack:
			return op.AbortRolloutIn{}, command.Usage("--leave and --take-back exclude each other")
		case leave && now:
			return op.AbortRolloutIn{}, command.Usage("--now goes with --take-back: to leave nodes needs no window")
		case leave:
			end.How = plan.Leave
		case takeBack:
			end.How = plan.TakeBack
		}
		return op.AbortRolloutIn{RolloutIn: in, RolloutEnd: end}, nil
	})
}

func list(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the rollouts: how far each is, and what holds it up",
		Example: "  tandem rollout list", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.Ask(cmd.Context(), a, op.ListRollouts, op.None{}, printList)
		},
	}
}

func printList(a *command.App, v view.Rollouts) {
	if len(v.Rollouts) == 0 {
		a.Print("there was no rollout yet\n")
		return
	}
	t := &term.Table{Head: []string{"ROLLOUT", "OF", "PHASE", "WAVE", "PASSED", "FAILED", "AGE", "BY", "WHY"}}
	for _, r := range v.Rollouts {
		why := strings.TrimPrefix(r.Why, r.ID+" ")
		t.Add(r.ID, strings.TrimSpace(string(r.Kind)+" "+r.Version), phaseCell(r.Phase),
			fmt.Sprintf("%d/%d", r.Wave, len(r.Waves)), fmt.Sprintf("%d/%d", r.Nodes.Passed, r.Nodes.All),
			failedCell(&r.Nodes), a.Age(r.At),
			r.Who, why)
	}
	a.Table(t)
}

// progress is how many nodes have passed; on a terminal with a bar.
func progress(a *command.App, c *rollout.StatusCount) string {
	text := fmt.Sprintf("%d/%d", c.Passed, c.All)
	if a.OutTerminal {
		text = term.Bar(c.Passed, c.All) + " " + text
	}
	return text
}

func failedCell(c *rollout.StatusCount) term.Cell {
	n := c.Failed + c.Silent + c.Stuck
	if n == 0 {
		return term.Cell{Text: "0"}
	}
	return term.Red.Cell(fmt.Sprint(n))
}

func phaseCell(p rollout.Phase) term.Cell {
	switch p {
	case rollout.Done:
		return term.Green.Cell(string(p))
	case rollout.Paused, rollout.Aborted:
		return term.Red.Cell(string(p))
	case rollout.Running, rollout.Reverting, rollout.Waiting:
		return term.Yellow.Cell(string(p))
	}
	return term.Cell{Text: string(p)}
}

// errEnded ends the following of a rollout that has ended.
var errEnded = errors.New("the rollout has ended")
