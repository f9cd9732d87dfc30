package distribute

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/follow"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/moves"
	"tandem.internal/controller/internal/kinds/wanted"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/items"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// What should run where, decided of items, subjects and nodes.

// Doors of documents that were decided.
const (
	viaDesired = "desired" // somebody had them applied
	viaDecided = "decided" // the controller applied them by itself
)

// viaRollback is that of a document that comes back.
const viaRollback = "rollback"

// steered says why a submission may not change what runs: something else decides that. What an earlier decision came to
// may be brought back. nil: it may.
func (c *Core) steered(s view.Submission) *wire.Error {
	switch {
	case !op.Decided(s.Kind), s.Via == viaDesired, s.Via == viaDecided:
		return nil
	case c.cfg.Cloud:
		return errCloudSteers
	case !c.cfg.Desired, s.Via == viaRollback:
		return nil
	}
	return wire.New(wire.CodeNotAllowed, "", "here items and subjects say what runs (--steering desired): change "+
		"these, then: tandem desired apply")
}

var errCloudSteers = wire.New(wire.CodeNotAllowed, "", "here the desired status of the cloud side says what runs "+
	"(--steering cloud)")

// unreadable says why the desired status that the unit should follow, which is the newest, cannot be read; "": it can,
// or there is none. Call it beside the loop: it may be long.
func (c *Core) unreadable(newest kind.Content) string {
	if !c.cfg.Cloud {
		return ""
	}
	return wanted.Trouble(newest)
}

// decide decides what should run where now.
func (c *Core) decide(ctx context.Context, in op.DecideIn) (d *steer.Decision, err error) {
	terr := c.inReadersTurn(ctx, func() {
		now := c.cfg.Now()
		var u *steer.Unit
		var newest kind.Content
		if err = c.see(ctx, func(f *fleet.Fleet) {
			u, newest = steer.Look(f, now), f.Content(record.KindWanted)
		}); err != nil {
			return
		}
		if c.cfg.Cloud {
			if text := c.unreadable(newest); text != "" {
				err = wire.New(wire.CodeMalformed, "", text)
				return
			}
			_, doc := wanted.Of(newest)
			if doc == nil {
				err = wire.New(wire.CodeNotFound, "", "the cloud side has sent no desired status yet")
				return
			}
			follow.Input(u, doc)
		}
		u.EvictAfter, u.Preempt = in.EvictAfter, in.Preempt
		d, err = u.Decide()
	})
	return d, cmp.Or(terr, err)
}

// PlanDesired decides, and changes nothing.
func (c *Core) PlanDesired(ctx context.Context, in op.DecideIn) (desired.Plan, error) {
	d, err := c.decide(ctx, in)
	if err != nil {
		return desired.Plan{}, err
	}
	d.Overloaded = c.overloaded.Load().Reliefs(d.Plan)
	return *d.Plan, nil
}

// WhyDesired says what decided about an item on a node.
func (c *Core) WhyDesired(ctx context.Context, in op.WhyDesiredIn) (op.ItemWhy, error) {
	d, err := c.decide(ctx, in.DecideIn)
	if err != nil {
		return op.ItemWhy{}, err
	}
	nodes, known := d.Known()
	if !slices.Contains(nodes, in.Node) {
		return op.ItemWhy{}, wire.New(wire.CodeNotFound, "", fmt.Sprintf(
			"no node %.100q has told what it is%s", in.Node, near.Hint(in.Node, nodes)))
	}
	found := why.Items(d.Plan, in.Node, in.Item, in.Type)
	switch len(found) {
	case 0:
		none := "there is no item"
		if c.cfg.Cloud {
			none = "the desired status names no item"
		}
		meant := items.Ref{Type: in.Type, Codename: in.Item}
		return op.ItemWhy{}, wire.New(wire.CodeNotFound, "", none+" "+why.Named(meant)+
			items.Near(meant, known))
	case 1:
		return op.ItemWhy{Explanation: found[0], Why: why.ItemWhy(&found[0])}, nil
	}
	return op.ItemWhy{}, wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf(
		"items of several types have the codename %.80q: the parameter type says which is meant", in.Item))
}

// ShowDesired lists what there is of update items.
func (c *Core) ShowDesired(ctx context.Context, in op.DesiredStateIn) (v op.DesiredState, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) {
		v.Instances = steer.Show(f, in.Node)
		for _, m := range moves.Of(f).Moves {
			if in.Node == "" || in.Node == m.Move.From || in.Node == m.Move.To {
				v.Moves = append(v.Moves, op.DesiredMove{ReliefMove: m.Move, Until: m.Until, Why: why.Move(&m.Move)})
			}
		}
	})
	return v, err
}

// ApplyDesired decides, and submits what components or services come to.
func (c *Core) ApplyDesired(ctx context.Context, in op.ApplyDesiredIn) (v view.Result, err error) {
	if c.cfg.Cloud && !in.DryRun {
		return v, errCloudSteers
	}
	if !c.cfg.Desired && !in.DryRun {
		return v, wire.New(wire.CodeNotAllowed, "", "here tandem workload apply says what runs: start the controller "+
			"with --steering desired to have items and subjects say it")
	}
	d, err := c.decide(ctx, in.DecideIn)
	if err != nil {
		return v, err
	}
	document := d.Workloads
	if in.Of == wire.KindComponents {
		document = d.Components
	}
	s := in.Submission(document)
	if err := c.see(ctx, func(f *fleet.Fleet) {
		if f.State(in.Of).Hash == wire.Hash(document) {
			s.Rollout = nil // there is nothing to roll out
		}
	}); err != nil {
		return v, err
	}
	s.Who, s.Via = caller.From(ctx).Who(), viaDesired
	return c.Submit(ctx, s)
}
