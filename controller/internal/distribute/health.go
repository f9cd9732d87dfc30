package distribute

import (
	"context"
	"fmt"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// SetHealth sets what is wanted of the health of some nodes, or with nil unsets it, and issues the
// documents that follow from it.
func (c *Core) SetHealth(ctx context.Context, scope view.Scope, settings *wire.HealthSettings, who string) (view.SettingsChange, error) {
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.SetHealth{Ticket: t, Scope: scope, Settings: settings, Who: who}
	})
	if err != nil {
		return view.SettingsChange{}, err
	}
	v := view.SettingsChange{Rev: r.Rev, Issued: r.Issued}
	err = c.look(ctx, func(f *fleet.Fleet) {
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
	err = c.look(ctx, func(f *fleet.Fleet) { v = f.HealthSettings() })
	return v, err
}

// NodeSettings returns what is set for one node, and what is in effect there.
func (c *Core) NodeSettings(ctx context.Context, node string) (v view.NodeSettings, err error) {
	err = c.look(ctx, func(f *fleet.Fleet) { v = f.NodeSettings(node) })
	return v, err
}

// NodeHealth returns what a node has told of its health.
func (c *Core) NodeHealth(ctx context.Context, node string) (v view.NodeHealth, err error) {
	found := false
	err = c.look(ctx, func(f *fleet.Fleet) {
		if n := f.Lookup(node); n != nil {
			v, found = n.HealthView(), true
		}
	})
	if err == nil && !found {
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never been heard of", node))
	}
	return v, err
}

// Reboot has a node reboot its machine, Try start its staged slot, or what is staged of a component, on
// trial (component "": the agent itself; version "": whatever is staged), Approve keep the version on trial. They return when the node has answered.
func (c *Core) Reboot(ctx context.Context, node, reason, who string) (view.Ordered, error) {
	return orderNode(ctx, c, node, wire.MethodReboot, &wire.RebootParams{Reason: reason}, who)
}

// Try is described at Reboot.
func (c *Core) Try(ctx context.Context, node, component, version, who string) (view.Ordered, error) {
	return orderNode(ctx, c, node, wire.MethodTry, &wire.TryParams{Component: component, Version: version}, who)
}

// Approve is described at Reboot.
func (c *Core) Approve(ctx context.Context, node, version, who string) (view.Ordered, error) {
	return orderNode(ctx, c, node, wire.MethodApprove, &wire.ApproveParams{Version: version}, who)
}

func orderNode[P wire.RebootParams | wire.TryParams | wire.ApproveParams | wire.RestartParams](ctx context.Context, c *Core, node string, m wire.Method, p *P, who string) (view.Ordered, error) {
	params := wire.Encode(p)
	if _, err := wire.Decode[P](params); err != nil { // the node would say the same
		return view.Ordered{}, err
	}
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Order{Ticket: t, Node: node, Method: m, Params: params, Who: who}
	})
	if err != nil {
		return view.Ordered{}, err
	}
	return view.Ordered{Node: node, Method: m, ID: r.ID, Rev: r.Rev}, nil
}

// SetMaintenance announces to the nodes that the controller, or the road to it, may be away for so
// long from now, in the place of what was announced; 0 ends it. nil: nothing is announced now.
func (c *Core) SetMaintenance(ctx context.Context, within time.Duration, reason, who string) (v *view.Maintenance, err error) {
	if _, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Maintain{Ticket: t, For: within, Reason: reason, Who: who}
	}); err != nil {
		return nil, err
	}
	err = c.look(ctx, func(f *fleet.Fleet) { v = f.MaintenanceView() })
	return v, err
}
