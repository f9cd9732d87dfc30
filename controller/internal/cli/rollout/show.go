package rollout

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/near"
)

// few is how many nodes show lists unless there is --limit.
const few = 20

func show(a *command.App) *cobra.Command {
	var status string
	var watch bool
	in := op.RolloutNodesIn{}
	cmd := &cobra.Command{
		Use: "show [ROLLOUT]", Short: "Show a rollout: its waves and nodes, and who holds it up and why",
		Long: "Show a rollout: its waves and nodes, and who holds it up and why. Those nodes come first, then those\n" +
			"that have failed. Without an ID it is the rollout that goes on, else the newest.",
		Example: "  tandem rollout show\n  tandem rollout show config-17 --watch\n" +
			"  tandem rollout show config-17 --status failed --limit 100",
		Args: oneAtMost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := statusFlag(status); err != nil {
				return err
			}
			in.Status = rollout.Status(status)
			return a.Connect(func(c *client.Client) error {
				id, err := which(cmd.Context(), c, args, true)
				if err != nil {
					return err
				}
				in.Rollout = id
				if watch {
					return follow(cmd.Context(), a, c, in)
				}
				v, err := client.Call(cmd.Context(), c, op.ShowRollout, in)
				switch {
				case err != nil:
					return nearRollout(id)(cmd.Context(), c, err)
				case a.JSON:
					return a.PrintJSON(v)
				}
				printDetail(a, &v)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&status, "status", "", "only nodes in this `STATUS`: "+join(rollout.Statuses()))
	f.Uint64Var(&in.Limit, "limit", few, "list at most `N` nodes")
	f.BoolVar(&watch, "watch", false, "go on showing changes until it has ended")
	return cmd
}

func join(all []rollout.Status) string {
	var texts []string
	for _, s := range all {
		texts = append(texts, string(s))
	}
	return strings.Join(texts, ", ")
}

// statusFlag refuses what is no status.
func statusFlag(status string) error {
	var known []string
	for _, s := range rollout.Statuses() {
		if string(s) == status {
			return nil
		}
		known = append(known, string(s))
	}
	if status == "" {
		return nil
	}
	return command.Usage("%.80q is no status of a node; %s", status,
		strings.TrimPrefix(near.Suggest(near.All(status, known), "they are "+strings.Join(known, ", ")), "; "))
}

// follow shows a rollout anew whenever it changes, until it has ended; without a terminal each change is a line.
func follow(ctx context.Context, a *command.App, c *client.Client, in op.RolloutNodesIn) error {
	last := ""
	watched := op.RolloutWatchIn{RolloutNodesIn: in, Watched: op.Watched{Watch: true}}
	err := client.Follow(ctx, c, op.WatchRollout, watched, func(v view.RolloutDetail) error {
		switch line := fmt.Sprintf("%s: %s", counts(&v.Nodes), v.Why); {
		case a.JSON:
			if err := a.PrintJSON(v); err != nil {
				return err
			}
		case a.OutTerminal:
			a.Clear()
			printDetail(a, &v)
		case line != last:
			last = line
			a.Print("%s  %s\n", a.Now().In(a.Zone).Format("15:04:05"), term.Clean(line))
		}
		if ended(v.Phase) {
			return client.ErrStop
		}
		return a.Flush()
	})
	if ctx.Err() == nil {
		err = nearRollout(in.Rollout)(ctx, c, err)
	}
	return command.Interrupted(ctx, err)
}

// counts says in words how many nodes are in which status.
func counts(c *rollout.StatusCount) string {
	text := term.Plural(c.All, "node")
	var parts []string
	for i, n := range []int{
		c.Queued, c.Issued, c.Soaking, c.Passed, c.Failed, c.Silent, c.Back, c.Restored, c.Stuck, c.Absent, c.Gone,
	} {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, rollout.Statuses()[i]))
		}
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

func printDetail(a *command.App, v *view.RolloutDetail) {
	t := &term.Table{}
	by := ""
	if v.Who != "" {
		by = ", by " + v.Who
	}
	what := strings.TrimSpace(string(v.Kind) + " " + v.Version)
	t.Add("Rollout", fmt.Sprintf("%s of %s%s, %s", v.ID, what, by, a.Ago(v.At)))
	t.Add("Phase", phaseCell(v.Phase))
	t.Add("Passed", progress(a, &v.Nodes))
	t.Add("Nodes", counts(&v.Nodes))
	t.Add("Why", v.Why)
	if len(v.Openings) > 0 && !ended(v.Phase) {
		t.Add("Windows", "next: "+openings(a, v.Openings))
	}
	a.Table(t)
	a.Print("\n")
	printWaves(a, v)
	if len(v.List) > 0 {
		a.Print("\n")
		printMembers(a, v)
	}
	if v.Omitted > 0 {
		a.Print("and %s; --limit shows more\n", term.Plural(v.Omitted, "more node"))
	}
	for _, w := range v.Warnings {
		if !ended(v.Phase) {
			a.Warn("%s", w)
		}
	}
}

// printWaves lists the waves.
func printWaves(a *command.App, v *view.RolloutDetail) {
	t := &term.Table{Head: []string{"WAVE", "STATE", "NODES", "PASSED", "FAILED", "TAKES"}}
	for i := range v.Waves {
		w := &v.Waves[i]
		state := term.Cell{Text: "to come"}
		switch {
		case w.Open && !ended(v.Phase):
			state = term.Yellow.Cell("open")
		case ended(v.Phase) && v.Phase != rollout.Done && i == v.Wave-1:
			state = phaseCell(v.Phase)
		case i < v.Wave:
			state = term.Green.Cell("over")
		case ended(v.Phase):
			state = term.Cell{Text: "not begun"}
		}
		takes := ""
		if v.Plan != nil && i < len(v.Plan.Waves) {
			takes = waveWords(v.Plan, i)
		}
		t.Add(fmt.Sprint(i+1), state, fmt.Sprint(w.Nodes.All), fmt.Sprint(w.Nodes.Passed), failedCell(&w.Nodes), takes)
	}
	a.Table(t)
}

// printMembers lists nodes.
func printMembers(a *command.App, v *view.RolloutDetail) {
	t := &term.Table{Head: []string{"NODE", "WAVE", "ONLINE", "STATUS", "WHY"}}
	for _, n := range v.List {
		wave := "-"
		if n.Wave > 0 {
			wave = fmt.Sprint(n.Wave)
		}
		online := term.YesNo(n.Online)
		if ended(v.Phase) {
			online = "-"
		}
		t.Add(n.Node, wave, online, statusCell(n.Status), n.Why)
	}
	a.Table(t)
}

func statusCell(s rollout.Status) term.Cell {
	switch s {
	case rollout.Passed, rollout.Restored:
		return term.Green.Cell(string(s))
	case rollout.Failed, rollout.Silent, rollout.Stuck:
		return term.Red.Cell(string(s))
	case rollout.Issued, rollout.Soaking, rollout.Back:
		return term.Yellow.Cell(string(s))
	}
	return term.Cell{Text: string(s)}
}
