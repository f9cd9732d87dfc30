package distribute

import (
	"context"
	"fmt"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// WhyNode says how a node is, and why.
func (c *Core) WhyNode(ctx context.Context, in op.NodeIn) (view.Why, error) {
	f, err := c.nodeFacts(ctx, in.Node)
	if err != nil {
		return view.Why{}, err
	}
	return why.Node(f), nil
}

// WhyDocument says how a document is on its node, and why.
func (c *Core) WhyDocument(ctx context.Context, in op.DocumentIn) (view.Why, error) {
	f, err := c.nodeFacts(ctx, in.Node)
	if err != nil {
		return view.Why{}, err
	}
	return why.Document(why.DocumentFacts{Now: f.Now, Node: f.Node, Known: f.Known, Kind: in.Kind,
		Doc: f.Node.Documents[in.Kind], Retries: f.Retries(in.Kind), Rollout: f.Rollouts[in.Kind],
		Broker: f.Broker}), nil
}

// nodeFacts are what is known of a node. Of one that was never heard of, and does not belong to the unit, nothing is.
func (c *Core) nodeFacts(ctx context.Context, node string) (why.NodeFacts, error) {
	facts := why.NodeFacts{Now: c.cfg.Now(), Rollouts: map[wire.Kind]string{}, Retries: c.submitted,
		Broker: c.roadNow()}
	err := c.see(ctx, func(f *fleet.Fleet) {
		facts.Node, facts.Known = f.Show(node)
		facts.Node.Node, facts.Node.Identity = node, f.Identity(node, facts.Now)
		facts.Report = f.HealthOf(node)
		set := f.Rollouts()
		for _, id := range set.IDs() {
			if r, _ := set.Show(facts.Now, id); set.Awaits(id, node) {
				facts.Rollouts[r.Kind] = id
			}
		}
	})
	if err == nil && !facts.Known && facts.Node.Identity == nil {
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never been heard of", node))
	}
	facts.Slots = ofSlots(&facts.Node)
	return facts, err
}

// submitted reports whether documents of a kind are submitted whole, and not changed piece by piece.
func (c *Core) submitted(name wire.Kind) bool {
	src := c.cfg.Kinds.Source(name)
	return src != nil && src.Parse != nil
}

// WhyRollout says how a rollout is, and why.
func (c *Core) WhyRollout(ctx context.Context, in op.RolloutIn) (view.Why, error) {
	now := c.cfg.Now()
	v, err := look(ctx, c, func(f *fleet.Fleet) (view.RolloutDetail, *wire.Error) {
		return why.RolloutDetail(f.Rollouts(), now, in.Rollout, versions(f), "", rolloutNodes)
	})
	if err != nil {
		return view.Why{}, err
	}
	return why.RolloutWhy(now, &v), nil
}
