package distribute

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

var errNoDoor = wire.New(wire.CodeNotSupported, "", "this controller has no door to join by; start it with "+
	"--listen-tls (or with --join-listen, if it uses another broker)")

// EnrolNodes makes a token for each node of a list, all of them or none.
func (c *Core) EnrolNodes(ctx context.Context, in op.EnrolList) (view.EnrolledList, error) {
	if c.JoinURL() == "" {
		return view.EnrolledList{}, errNoDoor
	}
	who, now := caller.From(ctx).Who(), c.cfg.Now()
	drawn := make([]jointoken.Token, 0, len(in.Nodes))
	ordered := make([]enrol.Enrol, 0, len(in.Nodes))
	for _, n := range in.Nodes {
		t, err := jointoken.New(n.Node, c.authority.CA.Fingerprint(), rand.Reader)
		if err != nil {
			return view.EnrolledList{}, wire.New(wire.CodeInvalidArgument, "", err.Error())
		}
		drawn = append(drawn, t)
		ordered = append(ordered, enrol.Enrol{Subject: "node/" + n.Node, Hash: t.Secret.Hash(),
			Life: cmp.Or(n.Life(), enrol.TokenLife), Type: n.Type})
	}
	_, err := c.order(ctx, func(t uint64) fleet.Event {
		return fleet.EnrolList{Ticket: t, Tokens: ordered, Who: who,
			Known: cmp.Or(fleet.Known(in.Known), fleet.KnownRefuse)}
	})
	if err != nil {
		return view.EnrolledList{}, err
	}
	v := view.EnrolledList{Controller: c.authority.URL, CA: c.authority.CA.Fingerprint().String(),
		Nodes: make([]view.NodeToken, 0, len(drawn))}
	err = c.see(ctx, func(f *fleet.Fleet) {
		for i, t := range drawn {
			if !f.HasToken(t.Node, t.Secret.Hash()) {
				v.Skipped = append(v.Skipped, t.Node)
				continue
			}
			v.Nodes = append(v.Nodes, view.NodeToken{Node: t.Node, Token: t.Text(),
				Expires: now.Add(ordered[i].Life).UTC().Truncate(time.Second)})
		}
	})
	return v, err
}

// CreateBatch makes a secret with which a number of new nodes may join.
func (c *Core) CreateBatch(ctx context.Context, in op.NewBatch) (view.BatchGrant, error) {
	if c.JoinURL() == "" {
		return view.BatchGrant{}, errNoDoor
	}
	t, err := jointoken.NewBatch(in.Name, c.authority.CA.Fingerprint(), rand.Reader)
	if err != nil {
		return view.BatchGrant{}, wire.New(wire.CodeInvalidArgument, "/name", err.Error())
	}
	err = c.Enrolment(ctx, enrol.NewBatch{Name: in.Name, Hash: t.Secret.Hash(), Count: in.Count, Life: in.Life(),
		From: in.From, Names: in.Names, Type: in.Type, OnSight: in.OnSight})
	if err != nil {
		return view.BatchGrant{}, err
	}
	b, err := c.oneBatch(ctx, in.Name)
	return view.BatchGrant{Batch: b, Token: t.Text(), Controller: c.authority.URL, CA: t.CA.String()}, err
}

// RevokeBatch ends a batch.
func (c *Core) RevokeBatch(ctx context.Context, in op.RevokeBatchIn) (view.Batch, error) {
	if err := c.Enrolment(ctx, enrol.RevokeBatch{Name: in.Batch, Reason: in.Reason}); err != nil {
		return view.Batch{}, err
	}
	return c.oneBatch(ctx, in.Batch)
}

func (c *Core) oneBatch(ctx context.Context, name string) (v view.Batch, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) {
		for _, b := range f.Batches(c.cfg.Now()) {
			if b.Batch == name {
				v = b
			}
		}
	})
	return v, err
}

// Batches lists the batches.
func (c *Core) Batches(ctx context.Context) (v op.Batches, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v.Batches = f.Batches(c.cfg.Now()) })
	return v, err
}

// Pending lists the nodes that ask to join by a batch.
func (c *Core) Pending(ctx context.Context) (v op.PendingNodes, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v.Nodes = f.Pending(c.cfg.Now()) })
	return v, err
}

// ApproveJoin lets nodes join that wait.
func (c *Core) ApproveJoin(ctx context.Context, in op.JoinOrder) (v op.PendingNodes, err error) {
	if err := c.Enrolment(ctx, enrol.Approve{Nodes: enrolNames(in)}); err != nil {
		return v, err
	}
	approved := make(map[string]bool, len(in.Nodes))
	for _, n := range in.Nodes {
		approved[n.Node] = true
	}
	err = c.see(ctx, func(f *fleet.Fleet) {
		v.Nodes = []view.Pending{}
		for _, p := range f.Pending(c.cfg.Now()) {
			if approved[p.Node] && p.State == fleet.PendingApproved { // it may have joined since
				v.Nodes = append(v.Nodes, p)
			}
		}
	})
	return v, err
}

// RefuseJoin keeps nodes out that wait, or were approved.
func (c *Core) RefuseJoin(ctx context.Context, in op.JoinRefusal) (v op.Refusals, err error) {
	for _, n := range in.Nodes {
		v.Nodes = append(v.Nodes, n.Node)
	}
	return v, c.Enrolment(ctx, enrol.Refuse{Nodes: enrolNames(in.JoinOrder), Reason: in.Reason})
}

func enrolNames(in op.JoinOrder) (all []enrol.Named) {
	for _, n := range in.Nodes {
		all = append(all, enrol.Named(n))
	}
	return all
}
