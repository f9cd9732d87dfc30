package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/term"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

const (
	retry    = 300 * time.Millisecond // between attempts to follow a controller that went away
	attempts = 200                    // that fail, one after the other, before the waiting is given up
)

// Outcome is the result of waiting for a rollout's end.
type Outcome struct {
	Rollout *view.Rollout // as it was seen last; nil: never
	lost    error         // why the following has ended
	stopped bool          // the waiting was interrupted
}

// Wait follows a rollout until it has ended or is paused, the limit is over (0: there is none) or ctx ends. It waits
// for a controller that goes away meanwhile.
func Wait(ctx context.Context, a *command.App, c *client.Client, id string, limit time.Duration) *Outcome {
	whole := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	o, bar := &Outcome{}, a.Progress(!a.JSON)
	defer bar.End()
	in := op.RolloutWatchIn{Watched: op.Watched{Watch: true}}
	in.Rollout, in.Limit = id, 1
	for failed := 0; failed < attempts && ctx.Err() == nil; failed++ {
		o.lost = client.Follow(ctx, c, op.WatchRollout, in, func(v view.RolloutDetail) error {
			failed, o.Rollout = 0, &v.Rollout
			bar.Update(fmt.Sprintf("%d/%d nodes passed; %s", v.Nodes.Passed, v.Nodes.All, term.Clean(v.Why)),
				v.Nodes.Passed, v.Nodes.All)
			if o.over() {
				return errEnded
			}
			return nil
		})
		if errors.Is(o.lost, errEnded) || isRefused(o.lost) {
			break
		}
		command.Rest(ctx, retry)
	}
	o.stopped = whole.Err() != nil
	return o
}

// over reports whether waiting for more makes no sense.
func (o *Outcome) over() bool {
	return o.Rollout != nil && (ended(o.Rollout.Phase) || o.Rollout.Phase == rollout.Paused)
}

// isRefused reports whether the controller has answered that it will not.
func isRefused(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Code != wire.CodeUnavailable
}

// Failure returns nil if every node that takes part has passed, but for those that are absent or gone; else why not,
// with ExitIncomplete.
func (o *Outcome) Failure() error {
	incomplete := func(code wire.Code, why string) error {
		return command.Refuse(command.ExitIncomplete, code, "accepted, but %s", term.CleanLines(why))
	}
	r := o.Rollout
	switch {
	case r == nil && isRefused(o.lost):
		return o.lost
	case r == nil:
		return incomplete(wire.CodeTimeout, "nothing was heard of the rollout "+o.when())
	case r.Phase == rollout.Done && r.Nodes.Failed+r.Nodes.Silent == 0:
		return nil
	case r.Phase == rollout.Done, r.Phase == rollout.Paused:
		return incomplete(wire.CodeApplyFailed, r.Why)
	case r.Phase == rollout.Superseded:
		return incomplete(wire.CodeStale, r.Why)
	case ended(r.Phase):
		return incomplete(wire.CodeWrongState, r.Why)
	}
	return incomplete(wire.CodeTimeout, fmt.Sprintf("the rollout had not ended %s: %s of %s have passed; %s", o.when(),
		fmt.Sprint(r.Nodes.Passed), term.Plural(r.Nodes.All, "node"), r.Why))
}

func (o *Outcome) when() string {
	if o.stopped {
		return "when the waiting was interrupted"
	}
	return "in time"
}

// Words describes an outcome that is no failure.
func (o *Outcome) Words() string { return o.Rollout.Why }
