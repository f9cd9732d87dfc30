package distribute

import (
	"cmp"
	"context"
	"fmt"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// change changes a collection, and issues the documents that follow from it.
func (c *Core) change(ctx context.Context, source wire.Kind, data any) (view.PolicyChange, error) {
	who := caller.From(ctx).Who()
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.Change{Ticket: t, Source: source, Data: data, Who: who}
	})
	return view.PolicyChange{Rev: r.Rev, Issued: r.Issued}, err
}

// look reads the unit for an answer that may be an error.
func look[T any](ctx context.Context, c *Core, read func(*fleet.Fleet) (T, *wire.Error)) (v T, err error) {
	var why *wire.Error
	if err := c.see(ctx, func(f *fleet.Fleet) { v, why = read(f) }); err != nil {
		return v, err
	}
	if why != nil {
		return v, why
	}
	return v, nil
}

// Policies lists the management policies.
func (c *Core) Policies(ctx context.Context) (v view.Policies, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = policies.List(f) })
	return v, err
}

// Policy shows one, and the nodes that it hits.
func (c *Core) Policy(ctx context.Context, in op.PolicyIn) (view.Policy, error) {
	return look(ctx, c, func(f *fleet.Fleet) (view.Policy, *wire.Error) { return policies.Show(f, in.Policy) })
}

// PolicyStatus shows how far the nodes are with a policy.
func (c *Core) PolicyStatus(ctx context.Context, in op.PolicyStatusIn) (view.PolicyStatus, error) {
	limit := int(cmp.Or(in.Limit, policies.MaxNodes))
	return look(ctx, c, func(f *fleet.Fleet) (view.PolicyStatus, *wire.Error) {
		return policies.Status(f, in.Policy, in.Node, limit)
	})
}

// ApplyPolicy sets a policy, or only says what that would come to.
func (c *Core) ApplyPolicy(ctx context.Context, in op.ApplyPolicyIn) (view.PolicyChange, error) {
	if in.DryRun {
		return look(ctx, c, func(f *fleet.Fleet) (v view.PolicyChange, err *wire.Error) {
			v.Issued, _, err = policies.Matches(f, in.Policy, in.Document, in.AllNodes)
			return v, err
		})
	}
	return c.change(ctx, wire.KindPolicies,
		policies.Change{Name: in.Policy, Document: in.Document, AllNodes: in.AllNodes})
}

// EnablePolicy has nodes act on a policy.
func (c *Core) EnablePolicy(ctx context.Context, in op.EnablePolicyIn) (view.PolicyChange, error) {
	return c.change(ctx, wire.KindPolicies,
		policies.Change{Name: in.Policy, Enabled: new(true), AllNodes: in.AllNodes})
}

// DisablePolicy has nodes not act on it any more.
func (c *Core) DisablePolicy(ctx context.Context, in op.PolicyIn) (view.PolicyChange, error) {
	return c.change(ctx, wire.KindPolicies, policies.Change{Name: in.Policy, Enabled: new(false)})
}

// RemovePolicy removes a policy.
func (c *Core) RemovePolicy(ctx context.Context, in op.PolicyIn) (view.PolicyChange, error) {
	return c.change(ctx, wire.KindPolicies, policies.Change{Name: in.Policy, Removed: true})
}

// SetProperty sets a property of a node.
func (c *Core) SetProperty(ctx context.Context, in op.SetPropertyIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindProperties,
		policies.PropertyChange{Node: in.Node, Name: in.Property, Value: in.Value, Type: in.Type})
}

// UnsetProperty takes it back.
func (c *Core) UnsetProperty(ctx context.Context, in op.PropertyIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindProperties, policies.PropertyChange{Node: in.Node, Name: in.Property})
}

// NodeProperties shows what policies choose a node by.
func (c *Core) NodeProperties(ctx context.Context, in op.NodeIn) (view.NodeProperties, error) {
	return look(ctx, c, func(f *fleet.Fleet) (view.NodeProperties, *wire.Error) {
		v, known := policies.NodeProperties(f, in.Node)
		if !known {
			return v, wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never described itself", in.Node))
		}
		return v, nil
	})
}

// AgentReleases lists the versions of the agent on offer.
func (c *Core) AgentReleases(ctx context.Context) (v view.AgentReleases, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = policies.ListReleases(f) })
	return v, err
}

// ReleaseAgent puts a version of the agent on offer.
func (c *Core) ReleaseAgent(ctx context.Context, in op.ReleaseIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindReleases, policies.Offer{Version: in.Version, Builds: in.Builds})
}

// WithdrawAgent takes a version off the offer.
func (c *Core) WithdrawAgent(ctx context.Context, in op.AgentVersionIn) (view.PolicyChange, error) {
	return c.change(ctx, policies.KindReleases, policies.Offer{Version: in.Version, Removed: true})
}
