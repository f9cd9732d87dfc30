package distribute

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Nodes returns every node in the order of names, those that have not connected yet among them.
func (c *Core) Nodes(ctx context.Context) (op.Nodes, error) {
	return c.ListNodes(ctx, op.NodesIn{})
}

// Alerts returns the alerts that are raised.
func (c *Core) Alerts(ctx context.Context) (v op.Alerts, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v.Alerts, v.Omitted = f.Raised(op.MaxAlerts) })
	if v.Alerts == nil {
		v.Alerts = []view.NodeAlert{}
	}
	return v, err
}

// ListNodes returns the nodes that are selected, in the order of names.
func (c *Core) ListNodes(ctx context.Context, in op.NodesIn) (v op.Nodes, err error) {
	now := c.cfg.Now()
	named := func(name string) bool {
		fits, _ := path.Match(in.Name, name) // Check has seen the pattern
		return name > in.After && (in.Name == "" || fits)
	}
	err = c.see(ctx, func(f *fleet.Fleet) {
		all := f.Views(named)
		for i := range all {
			all[i].Identity = f.Identity(all[i].Node, now)
		}
		if awaited := f.Awaited(now); len(awaited) > 0 {
			all = append(all, slices.DeleteFunc(awaited, func(n view.Node) bool { return !named(n.Node) })...)
			slices.SortFunc(all, func(a, b view.Node) int { return strings.Compare(a.Node, b.Node) })
		}
		v.Nodes = all
	})
	v.Nodes = slices.DeleteFunc(v.Nodes, func(n view.Node) bool { return !c.selects(&in, &n) })
	if in.Limit > 0 && len(v.Nodes) > in.Limit {
		v.Nodes = v.Nodes[:in.Limit]
		v.Next = v.Nodes[in.Limit-1].Node
	}
	return v, err
}

// selects reports whether in selects a node by what is known of it besides its name.
func (c *Core) selects(in *op.NodesIn, n *view.Node) bool {
	state := n.State(c.unitSource())
	return (in.Type == "" || n.Type == in.Type) && (!in.Online || n.Online) && (!in.Offline || !n.Online) &&
		(in.OfflineFor == 0 || !n.Online && !n.FirstSeen.IsZero() && c.cfg.Now().Sub(n.Since) >= in.OfflineFor) &&
		(!in.Behind || !n.InSync && state != "revoked") && (len(in.States) == 0 || slices.Contains(in.States, state))
}

// unitSource names the source of the unit's own document, "" if there is none.
func (c *Core) unitSource() wire.Kind {
	if src := c.cfg.Kinds.Copied(); src != nil {
		return src.Name
	}
	return ""
}

// PickNodes returns some fields of the nodes that are selected.
func (c *Core) PickNodes(ctx context.Context, in op.PickIn) (op.Picked, error) {
	all, err := c.ListNodes(ctx, in.NodesIn)
	if err != nil {
		return op.Picked{}, err
	}
	names, source := strings.Split(in.Fields, ","), c.unitSource()
	v := op.Picked{Nodes: make([]map[string]jsontext.Value, len(all.Nodes)), Next: all.Next}
	for i := range all.Nodes {
		n := &all.Nodes[i]
		v.Nodes[i] = make(map[string]jsontext.Value, len(names))
		for _, name := range names {
			value, has := op.Field(n, name)
			if name == "state" {
				value, has = n.State(source), true
			}
			if !has {
				continue
			}
			if v.Nodes[i][name], err = json.Marshal(value, json.Deterministic(true)); err != nil {
				return op.Picked{}, err
			}
		}
	}
	return v, nil
}
