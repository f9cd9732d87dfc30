package distribute

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// documentOf returns the unit configuration of which a node's part is made: the installed one, or its own while a
// rollout goes on.
func (c *Core) documentOf(ctx context.Context, node string) ([]byte, error) {
	src, err := c.documents(wire.KindConfig)
	if err != nil {
		return nil, err
	}
	var v kind.Version
	there := false
	if err := c.see(ctx, func(f *fleet.Fleet) { v, there = f.VersionOf(src.Name, node) }); err != nil {
		return nil, err
	}
	if !there {
		return nil, wire.New(wire.CodeNotFound, "", src.Missing())
	}
	return c.body(v.Hash)
}

// Resolved returns what a node gets from the configuration: the provider that other
// parts ask (seed 000, NodeConfigProviderItf).
func (c *Core) Resolved(ctx context.Context, in op.ResolveIn) (view.Resolved, error) {
	doc, err := c.configOf(ctx, in)
	if err != nil {
		return view.Resolved{}, err
	}
	uc, problems := unitconfig.Parse(doc)
	if len(problems) > 0 {
		return view.Resolved{}, problems[0]
	}
	if in.Type == "" {
		if err := c.see(ctx, func(f *fleet.Fleet) {
			if n := f.Lookup(in.Node); n != nil {
				in.Type = n.Type()
			}
		}); err != nil {
			return view.Resolved{}, err
		}
	}
	body, hash, src := unitconfig.NewResolver(uc).Body(in.Node, in.Type)
	return view.Resolved{
		Node: in.Node, Type: in.Type, Rule: string(src.Rule), Entry: src.Pointer(), Hash: hash,
		Document: jsontext.Value(body),
	}, nil
}

// configOf is the unit configuration of which a part is asked for.
func (c *Core) configOf(ctx context.Context, in op.ResolveIn) ([]byte, error) {
	if in.Version != "" {
		return c.Document(ctx, wire.KindConfig, in.Version)
	}
	return c.documentOf(ctx, in.Node)
}

// Explain says which entry set a value of a node's configuration and whether the node runs it.
func (c *Core) Explain(ctx context.Context, in op.ExplainIn) (view.Explanation, error) {
	doc, err := c.documentOf(ctx, in.Node)
	if err != nil {
		return view.Explanation{}, err
	}
	uc, problems := unitconfig.Parse(doc)
	if len(problems) > 0 {
		return view.Explanation{}, problems[0]
	}
	x := view.Explanation{Node: in.Node, Pointer: in.Pointer, Version: uc.Version}
	found, nodeType := false, ""
	var k kind.Document
	if err := c.see(ctx, func(f *fleet.Fleet) {
		if n := f.Lookup(in.Node); n != nil {
			found, nodeType = true, n.Type()
			if s := n.Kinds[wire.KindConfig]; s != nil {
				k = s.Document
			}
		}
	}); err != nil {
		return x, err
	}
	if !found {
		return x, wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never been heard of", in.Node))
	}
	e, err := unitconfig.Explain(uc, in.Node, nodeType, in.Pointer)
	if err != nil {
		return x, err
	}
	x.Value, x.Rule, x.Source, x.Why = e.Value, string(e.Source.Rule), e.From, e.Why
	_, hash, _ := unitconfig.NewResolver(uc).Body(in.Node, nodeType)
	onNode(&x, &k, hash)
	return x, nil
}

// onNode says whether the node has what is explained, the document of that hash. A node on trial runs what
// it tries; what became of a document before the one that it should have is no answer.
func onNode(x *view.Explanation, k *kind.Document, hash string) {
	if r := k.Running; r != nil {
		x.Running, x.InForce = r.Version, r.Hash == hash
	}
	l := k.Last
	if l == nil || k.Desired == nil || l.Stamp() != k.Desired.Stamp() {
		return
	}
	x.State, x.Error = l.State, l.Error
	if l.State == wire.StateTrying {
		x.Running, x.InForce = l.Version, l.Hash == hash
	}
}
