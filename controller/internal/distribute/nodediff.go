package distribute

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// DiffNode shows what a node runs beside what it should run. The documents are those of the journal: what was issued to
// the node, and what it says that it runs.
func (c *Core) DiffNode(ctx context.Context, in op.NodeIn) (view.NodeDiff, error) {
	n, err := c.Node(ctx, in)
	if err != nil {
		return view.NodeDiff{}, err
	}
	v := view.NodeDiff{Node: in.Node, Kinds: []view.KindDiff{}}
	for _, name := range slices.Sorted(maps.Keys(n.Documents)) {
		one, err := c.diffKind(ctx, name, n.Documents[name])
		if err != nil {
			return v, err
		}
		v.Kinds = append(v.Kinds, one)
	}
	slices.SortStableFunc(v.Kinds, func(a, b view.KindDiff) int {
		return cmp.Compare(len(b.Changes)+b.Omitted, len(a.Changes)+a.Omitted)
	})
	return v, nil
}

// diffKind compares what a node runs of a kind with what it should run.
func (c *Core) diffKind(ctx context.Context, name wire.Kind, d view.Document) (view.KindDiff, error) {
	v := view.KindDiff{Kind: string(name), InSync: d.InSync, Changes: []view.Change{}}
	var running, desired jsontext.Value
	if r := d.Running; r != nil {
		v.Running = r.Version
		running = c.valuesOf(&v, r.Hash, "what it runs")
	}
	if r := d.Desired; r != nil {
		v.Desired = r.Version
		desired = c.valuesOf(&v, r.Hash, "what it should run")
	}
	if v.Unknown != "" {
		return v, nil
	}
	var changed kind.Changed
	var values int
	terr := c.inReadersTurn(ctx, func() {
		entries := func(doc jsontext.Value) map[string]jsontext.Value {
			if doc == nil {
				return nil
			}
			return map[string]jsontext.Value{"": doc}
		}
		var err error
		if changed, err = kind.Changes(entries(running), entries(desired), ctx.Err); err == nil {
			values, err = kind.Values(desired)
		}
		if err != nil {
			v.Unknown = "the documents cannot be compared: " + err.Error()
		}
	})
	if terr != nil || v.Unknown != "" {
		return v, terr
	}
	if src := c.cfg.Kinds.Source(name); src != nil && src.Secret != nil && caller.OnlyViews(ctx) {
		changed.Conceal(src.Secret, workload.Hidden)
	}
	v.Changes, v.Omitted, v.Same = append(v.Changes, changed.List...), changed.Omitted, values
	for i := range changed.List {
		if changed.List[i].After != nil {
			v.Same--
		}
	}
	v.Same = max(v.Same-changed.Omitted, 0)
	return v, nil
}

// valuesOf returns the document of that hash; if it cannot be had, v says so.
func (c *Core) valuesOf(v *view.KindDiff, hash, what string) jsontext.Value {
	body, err := c.body(hash)
	if err != nil {
		v.Unknown = what + " is not in the journal: " + wire.AsError(err).Message
		return nil
	}
	return body
}
