package distribute

import (
	"context"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/wire"
)

// Services leave nodes that are overloaded.

// whoRelieves is who submits what a move comes to.
const whoRelieves = "rebalance"

// relieve looks at the unit every so often, until ctx ends.
func (c *Core) relieve(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Relieve)
	defer ticker.Stop()
	m := &steer.Mover{On: c.cfg.Rebalance}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.relieveNow(ctx, m); err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("nodes that are overloaded are not relieved", zap.Error(err))
			m.Failed(c.cfg.Now())
		}
		c.overloaded.Store(m.Overloaded())
	}
}

// relieveNow does what there is to do now.
func (c *Core) relieveNow(ctx context.Context, m *steer.Mover) error {
	for ctx.Err() == nil {
		now := c.cfg.Now()
		var u *steer.Unit
		if err := c.see(ctx, func(f *fleet.Fleet) { u = steer.Look(f, now) }); err != nil {
			return err
		}
		do, err := m.Next(now, u)
		switch {
		case err != nil:
			return err
		case do.Change != nil:
			err = c.changeMoves(ctx, *do.Change)
		case do.Apply != nil:
			err = c.applyMoves(ctx, do.Apply)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changeMoves journals a move that was decided, or has ended.
func (c *Core) changeMoves(ctx context.Context, d record.MoveData) error {
	_, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Change{Ticket: t, Source: record.KindMoves, Data: d, Who: whoRelieves}
	})
	return err
}

// applyMoves submits the set of workloads that moves come to. Who refuses it is asked again later.
func (c *Core) applyMoves(ctx context.Context, document []byte) error {
	s := (&op.ApplyDesiredIn{Of: wire.KindWorkloads}).Submission(document)
	s.Who, s.Via = whoRelieves, viaDecided
	r, err := c.Submit(ctx, s)
	if err == nil && r.State != "accepted" {
		err = wire.New(wire.CodeNotAllowed, "", "the set of workloads is "+r.State)
		if r.Error != nil {
			err = r.Error
		}
	}
	return err
}
