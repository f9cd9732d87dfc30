package distribute

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// rolloutNodes is how many nodes of a rollout are listed unless somebody asks for more.
const rolloutNodes = 100

// Rollouts lists the rollouts.
func (c *Core) Rollouts(ctx context.Context) (v view.Rollouts, err error) {
	v.Rollouts = []view.Rollout{}
	err = c.see(ctx, func(f *fleet.Fleet) {
		now := c.cfg.Now()
		for _, id := range f.Rollouts().IDs() {
			one, _ := showRollout(f.Rollouts(), now, id)
			v.Rollouts = append(v.Rollouts, one)
		}
	})
	return v, err
}

// showRollout shows a rollout; an error: there is none of that ID.
func showRollout(set *rollout.Set, now time.Time, id string) (view.Rollout, *wire.Error) {
	v, known := set.Show(now, id)
	if !known {
		return view.Rollout{}, wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no rollout %.100q", id))
	}
	return view.Rollout{View: v, Why: why.Ended(now, &v)}, nil
}

// Rollout shows one, with its plan and its nodes.
func (c *Core) Rollout(ctx context.Context, in op.RolloutNodesIn) (view.RolloutDetail, error) {
	return look(ctx, c, func(f *fleet.Fleet) (v view.RolloutDetail, err *wire.Error) {
		now, set := c.cfg.Now(), f.Rollouts()
		if v.Rollout, err = showRollout(set, now, in.Rollout); err != nil {
			return v, err
		}
		v.Plan = set.Plan(in.Rollout)
		v.Warnings = v.Plan.Warnings()
		nodes, omitted := set.Nodes(now, in.Rollout, in.Status, int(cmp.Or(in.Limit, rolloutNodes)))
		v.List, v.Omitted = make([]view.RolloutNode, len(nodes)), omitted
		for i := range nodes {
			v.List[i] = view.RolloutNode{NodeView: nodes[i], Why: why.RolloutNode(now, &nodes[i])}
		}
		return v, nil
	})
}

// PauseRollout stops issuing.
func (c *Core) PauseRollout(ctx context.Context, in op.PauseRolloutIn) (view.Rollout, error) {
	return c.orderRollout(ctx, in.Rollout, rollout.Pause{ID: in.Rollout, Reason: in.Reason})
}

// ResumeRollout goes on.
func (c *Core) ResumeRollout(ctx context.Context, in op.RolloutIn) (view.Rollout, error) {
	return c.orderRollout(ctx, in.Rollout, rollout.Resume{ID: in.Rollout})
}

// AbortRollout ends it.
func (c *Core) AbortRollout(ctx context.Context, in op.AbortRolloutIn) (view.Rollout, error) {
	return c.orderRollout(ctx, in.Rollout, rollout.Abort{ID: in.Rollout, How: in.How, Now: in.Now})
}

// orderRollout decides something about a rollout, and shows how it is then.
func (c *Core) orderRollout(ctx context.Context, id string, order rollout.Event) (view.Rollout, error) {
	who := caller.From(ctx).Who()
	if _, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.RolloutOrder{Ticket: t, Who: who, Order: order}
	}); err != nil {
		return view.Rollout{}, err
	}
	return look(ctx, c, func(f *fleet.Fleet) (view.Rollout, *wire.Error) {
		return showRollout(f.Rollouts(), c.cfg.Now(), id)
	})
}
