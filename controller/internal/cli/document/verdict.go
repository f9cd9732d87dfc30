package document

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/rollout"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// submission is what apply and rollback print as JSON: the verdict and, with --wait, what came of it.
type submission struct {
	view.Result
	Wait *outcome      `json:"wait,omitempty"`
	End  *view.Rollout `json:"end,omitempty"` // the rollout when the waiting was over
}

// submitted submits a document and finishes the command.
func (g *group) submitted(ctx context.Context, a *command.App, in *input, o *options) error {
	return g.sent(ctx, a, in, o, func(c *client.Client, s op.Submit) (view.Result, error) {
		return client.Call(ctx, c, g.ops.Apply, s)
	})
}

// sent has a document submitted by call, and finishes the command. in is nil where the controller makes the document.
func (g *group) sent(ctx context.Context, a *command.App, in *input, o *options,
	call func(*client.Client, op.Submit) (view.Result, error)) error {
	s := g.submission(in, o)
	if o.rollout != "" {
		var err error
		if _, s.Rollout, err = rollout.ReadPlan(a, o.rollout); err != nil {
			return err
		}
	}
	return a.Connect(func(c *client.Client) error {
		res, err := call(c, s)
		if err != nil {
			return err
		}
		if !a.JSON {
			g.printResult(a, res)
		}
		return g.await(ctx, a, c, res, in, o)
	})
}

// await waits as the flags say, after a verdict that is shown, unless as JSON.
func (g *group) await(
	ctx context.Context, a *command.App, c *client.Client, res view.Result, in *input, o *options,
) error {
	limit := o.wait.Std()
	if res.Rollout == "" || limit == 0 || res.State != "accepted" {
		return g.conclude(ctx, a, c, res, in, limit)
	}
	if o.toTheEnd {
		limit = 0
	}
	return g.rolledOut(ctx, a, c, res, limit)
}

// rolledOut waits for the end of the rollout of what was accepted; limit 0: for as long as that takes.
func (g *group) rolledOut(
	ctx context.Context, a *command.App, c *client.Client, res view.Result, limit time.Duration,
) error {
	if err := a.Flush(); err != nil {
		return err
	}
	end := rollout.Wait(ctx, a, c, res.Rollout, limit)
	failed := end.Failure()
	switch {
	case a.JSON:
		if err := a.PrintJSON(submission{Result: res, End: end.Rollout}); err != nil {
			return err
		}
	case failed == nil:
		a.Print("%s\n", term.Clean(end.Words()))
	}
	return failed
}

// submission is a document as the flags say that it is submitted.
func (g *group) submission(in *input, o *options) op.Submit {
	s := op.Submit{
		Version: o.version, Lenient: o.lenient, DryRun: o.dryRun, Offline: o.skipNodes, Force: o.force,
	}
	if in != nil {
		s.Document = in.Text
	}
	if o.try > 0 {
		s.Mode, s.ConfirmWithin = wire.ModeTry, o.try.Std()
	}
	return s
}

// finish shows a verdict on in, and waits for the nodes if limit is above 0. in may be nil.
func (g *group) finish(
	ctx context.Context, a *command.App, c *client.Client, res view.Result, in *input, limit time.Duration,
) error {
	if !a.JSON {
		g.printResult(a, res)
	}
	return g.conclude(ctx, a, c, res, in, limit)
}

// conclude waits for the nodes if limit is above 0, after a verdict that is shown, unless as JSON. in may be nil.
func (g *group) conclude(
	ctx context.Context, a *command.App, c *client.Client, res view.Result, in *input, limit time.Duration,
) error {
	done, failed := submission{Result: res}, refusal(res, in)
	if err := a.Flush(); err != nil {
		return err
	}
	if failed == nil && limit > 0 && res.State == "accepted" {
		done.Wait = waitFor(ctx, a, g.follow(c), res, limit)
		failed = done.Wait.failure()
		if !a.JSON && failed == nil {
			a.Print("%s\n", done.Wait.words())
		}
	}
	if a.JSON {
		if err := a.PrintJSON(done); err != nil {
			return err
		}
	}
	return failed
}

// refusal returns the failure of a refused Result, else nil.
func refusal(res view.Result, in *input) error {
	if res.State != "refused" {
		return nil
	}
	if len(res.Problems) > 0 {
		var from command.Source
		if in != nil {
			from = in.Source
		}
		return command.Malformed(res.Problems, from)
	}
	if res.Error == nil {
		return command.Refuse(command.ExitRefused, wire.CodeNotAllowed, "the controller refused it without saying why")
	}
	return &command.Failure{Exit: command.ExitRefused, Err: res.Error}
}

// printResult shows a verdict: the controller's decision, then the answers of nodes.
func (g *group) printResult(a *command.App, res view.Result) {
	version := term.Clean(res.Version)
	switch res.State {
	case "accepted":
		if res.Rollout != "" {
			a.Print("accepted %s: rollout %s brings it to the nodes; it is shown by: tandem rollout show %[2]s\n",
				version, term.Clean(res.Rollout))
			break
		}
		a.Print("accepted %s as rev %d: %s issued\n", version, res.Rev, term.Plural(res.Issued, "document"))
		if !res.Deadline.IsZero() {
			a.Print("on trial %s; keep it with: tandem %s confirm\n", a.Until(res.Deadline), g.word)
		}
	case "acceptable":
		if q := res.Quarantined; q != nil {
			a.Print("%s would be accepted with --force only: %s\n", version, term.Clean(q.Message))
			break
		}
		a.Print("%s would be accepted\n", version)
	default:
		a.Print("%s\n", strings.TrimSpace(term.Clean(res.State)+" "+version))
	}
	ch := res.Checks
	t := &term.Table{Indent: "  "}
	if ch.Asked > 0 {
		t.Add("agreed", fmt.Sprintf("%d of %s asked", ch.Agreed, term.Plural(ch.Asked, "node")))
	}
	for i, n := range ch.Refused {
		if i == command.MaxShown {
			t.Add("refused", fmt.Sprintf("by %d more", len(ch.Refused)-i))
			break
		}
		var why []string
		for _, e := range n.Errors {
			shown := *e
			shown.Node = ""
			why = append(why, command.Brief(&shown))
		}
		t.Add(term.Red.Cell("refused"), "by "+n.Node+": "+strings.Join(why, "; "))
	}
	if len(ch.Silent) > 0 {
		t.Add(term.Yellow.Cell("silent"), term.List(ch.Silent)+" (online, but no verdict in time)")
	}
	if len(ch.Unchecked) > 0 {
		t.Add("unchecked", term.List(ch.Unchecked)+" (offline; judged there when back)")
	}
	if p := res.Placed; p != nil {
		placedRows(t, p)
	}
	a.Table(t)
}
