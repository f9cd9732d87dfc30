package distribute

import (
	"cmp"
	"context"

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

// versions says which version of its document a rollout brings.
func versions(f *fleet.Fleet) why.Versions {
	return func(id string) string {
		r, _ := f.RolledOut(id)
		return r.Version.What()
	}
}

// Rollouts lists the rollouts.
func (c *Core) Rollouts(ctx context.Context) (v view.Rollouts, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = why.Rollouts(f.Rollouts(), c.cfg.Now(), versions(f)) })
	return v, err
}

// Rollout shows one, with its plan and its nodes.
func (c *Core) Rollout(ctx context.Context, in op.RolloutNodesIn) (view.RolloutDetail, error) {
	return look(ctx, c, func(f *fleet.Fleet) (view.RolloutDetail, *wire.Error) {
		limit := int(cmp.Or(in.Limit, rolloutNodes))
		return why.RolloutDetail(f.Rollouts(), c.cfg.Now(), in.Rollout, versions(f), in.Status, limit)
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
		return why.OneRollout(f.Rollouts(), c.cfg.Now(), id, versions(f))
	})
}
