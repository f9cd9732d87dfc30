package distribute

import (
	"context"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Reboot has a node reboot its machine, Try start its staged slot, or what is staged of a component, on
// trial, Approve keep the version on trial. They return when the node has answered.
func (c *Core) Reboot(ctx context.Context, in op.RebootIn) (view.Ordered, error) {
	return orderNode(ctx, c, in.Node, wire.MethodReboot, &wire.RebootParams{Reason: in.Reason})
}

// Try is described at Reboot.
func (c *Core) Try(ctx context.Context, in op.TryIn) (view.Ordered, error) {
	p := wire.TryParams{Component: in.Component, Version: in.Version, Force: in.Force}
	return orderNode(ctx, c, in.Node, wire.MethodTry, &p)
}

// Approve is described at Reboot.
func (c *Core) Approve(ctx context.Context, in op.ApproveIn) (view.Ordered, error) {
	return orderNode(ctx, c, in.Node, wire.MethodApprove, &wire.ApproveParams{Version: in.Version})
}

func orderNode[P wire.RebootParams | wire.TryParams | wire.ApproveParams | wire.RestartParams |
	wire.LogLevelParams](
	ctx context.Context, c *Core, node string, m wire.Method, p *P,
) (view.Ordered, error) {
	who := caller.From(ctx).Who()
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

// Maintain announces to the nodes that the controller, or the road to it, may be away for so long from now,
// in the place of what was announced.
func (c *Core) Maintain(ctx context.Context, in op.Maintain) (op.Announced, error) {
	return c.setMaintenance(ctx, in.Within(), in.Reason)
}

// EndMaintenance ends what was announced.
func (c *Core) EndMaintenance(ctx context.Context) (op.Announced, error) {
	return c.setMaintenance(ctx, 0, "")
}

func (c *Core) setMaintenance(
	ctx context.Context, within time.Duration, reason string,
) (v op.Announced, err error) {
	who := caller.From(ctx).Who()
	if _, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Maintain{Ticket: t, For: within, Reason: reason, Who: who}
	}); err != nil {
		return v, err
	}
	err = c.look(ctx, func(f *fleet.Fleet) { v.Maintenance = f.MaintenanceView() })
	return v, err
}
