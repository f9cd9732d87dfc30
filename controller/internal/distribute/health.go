package distribute

import (
	"context"
	"fmt"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kinds/health"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// SetHealth sets what is wanted of the health of some nodes, and issues the documents that follow from it.
func (c *Core) SetHealth(ctx context.Context, in op.SetHealth) (view.SettingsChange, error) {
	return c.changeHealth(ctx, in.Scope, in.Settings)
}

// UnsetHealth takes back what was set, and issues the documents that follow from it.
func (c *Core) UnsetHealth(ctx context.Context, scope view.Scope) (view.SettingsChange, error) {
	return c.changeHealth(ctx, scope, nil)
}

func (c *Core) changeHealth(
	ctx context.Context, scope view.Scope, settings *wire.HealthSettings,
) (view.SettingsChange, error) {
	who := caller.From(ctx).Who()
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		change := health.Change{Scope: scope, Settings: settings}
		return fleet.Change{Ticket: t, Source: wire.KindHealth, Data: change, Who: who}
	})
	if err != nil {
		return view.SettingsChange{}, err
	}
	v := view.SettingsChange{Rev: r.Rev, Issued: r.Issued}
	err = c.see(ctx, func(f *fleet.Fleet) {
		for _, name := range scope.Nodes {
			if f.Lookup(name) == nil {
				v.Unknown = append(v.Unknown, name)
			}
		}
	})
	return v, err
}

// HealthSettings returns what is set.
func (c *Core) HealthSettings(ctx context.Context) (v view.HealthSettings, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = health.List(f) })
	return v, err
}

// NodeSettings returns what is set for one node, and what is in effect there.
func (c *Core) NodeSettings(ctx context.Context, in op.OfNode) (v view.NodeSettings, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = health.OfNode(f, in.Node) })
	return v, err
}

// NodeHealth returns what a node has told of its health.
func (c *Core) NodeHealth(ctx context.Context, in op.NodeIn) (v view.NodeHealth, err error) {
	found := false
	err = c.see(ctx, func(f *fleet.Fleet) {
		n, known := f.Node(wire.KindHealth, in.Node)
		if found = known; found {
			v = health.Whole(n)
		}
	})
	if err == nil && !found {
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never been heard of", in.Node))
	}
	return v, err
}
