package distribute

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/roster"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// nodesPage is how many nodes of a list are held at once.
const nodesPage = 100

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
	v.Nodes = []view.Node{}
	v.Next, err = c.EachNode(ctx, in, func(n *view.Node) error {
		v.Nodes = append(v.Nodes, *n)
		return nil
	})
	return v, err
}

// EachNode calls fn for the nodes that are selected, in their order. It holds some of them at a time, so what changes
// meanwhile may show in those that come later. Next is what comes after these, as in op.Nodes.
func (c *Core) EachNode(ctx context.Context, in op.NodesIn, fn func(*view.Node) error) (next string, err error) {
	s, err := c.selection(&in)
	if err != nil {
		return "", err
	}
	names, err := c.nodeNames(ctx, s)
	if err == nil && in.Sort != "" {
		names, err = c.sorted(ctx, s, names)
	}
	for count, last := 0, ""; err == nil && len(names) > 0; {
		page := names[:min(nodesPage, len(names))]
		names = names[len(page):]
		var found []filter.Facts
		if found, err = c.found(ctx, s, page); err != nil {
			break
		}
		for i := range found {
			if in.Limit > 0 && count == in.Limit {
				if in.Sort != "" {
					return "", nil
				}
				return last, nil
			}
			if err := fn(found[i].Node); err != nil {
				return "", err
			}
			count, last = count+1, found[i].Node.Node
		}
	}
	return "", err
}

// selection is what selects nodes, read.
type selection struct {
	in     *op.NodesIn
	filter filter.Filter
	now    time.Time
	source wire.Kind // of the unit's own document
}

func (c *Core) selection(in *op.NodesIn) (*selection, error) {
	f, wrong := filter.Parse(in.Q)
	if wrong != nil {
		return nil, wrong
	}
	return &selection{in, f, c.cfg.Now(), c.unitSource()}, nil
}

// nodeNames returns those that are selected by what is known without the nodes, in order.
func (c *Core) nodeNames(ctx context.Context, s *selection) (all []string, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { all = f.Names(s.now) })
	return slices.DeleteFunc(all, func(name string) bool {
		fits, _ := path.Match(s.in.Name, name) // Check has seen the pattern
		return name <= s.in.After || s.in.Name != "" && !fits
	}), err
}

// found returns those of some nodes that are selected.
func (c *Core) found(ctx context.Context, s *selection, names []string) ([]filter.Facts, error) {
	nodes, all := make([]view.Node, 0, len(names)), make([]filter.Facts, 0, len(names))
	err := c.see(ctx, func(f *fleet.Fleet) {
		for _, name := range names {
			if n, alerts, known := f.Glance(name, s.now); known {
				nodes = append(nodes, n)
				all = append(all, filter.Facts{Node: &nodes[len(nodes)-1], Alerts: alerts, Now: s.now})
			}
		}
	})
	return slices.DeleteFunc(all, func(x filter.Facts) bool { return !s.selects(&x) }), err
}

// selects reports whether a node is selected by what is known of it besides its name.
func (s *selection) selects(x *filter.Facts) bool {
	n, in := x.Node, s.in
	state := n.State(s.source)
	if in.Type != "" && n.Type != in.Type || in.Online && !n.Online || in.Offline && n.Online ||
		in.OfflineFor > 0 && (n.Online || n.FirstSeen.IsZero() || s.now.Sub(n.Since) < in.OfflineFor) ||
		in.Behind && (n.InSync || state == "revoked") || len(in.States) > 0 && !slices.Contains(in.States, state) {
		return false
	}
	if s.filter.All() {
		return true
	}
	x.Row = roster.Row(n, s.source)
	return s.filter.Match(x)
}

// sorted returns the names of those nodes that are selected, in the order that is asked for.
func (c *Core) sorted(ctx context.Context, s *selection, names []string) ([]string, error) {
	rows := make([]view.Row, 0, len(names))
	for page := range slices.Chunk(names, nodesPage) {
		found, err := c.found(ctx, s, page)
		if err != nil {
			return nil, err
		}
		for i := range found {
			rows = append(rows, roster.Row(found[i].Node, s.source))
		}
	}
	slices.SortFunc(rows, func(a, b view.Row) int {
		return cmp.Or(byKey(s.in.Sort, &a, &b), cmp.Compare(a.Node, b.Node))
	})
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = rows[i].Node
	}
	return out, nil
}

// worst are the classes, the worst first.
var worst = []view.Class{view.ClassFailed, view.ClassUnwell, view.ClassOffline, view.ClassOnTheWay, view.ClassInStep,
	view.ClassRevoked}

// byKey compares two rows by one of op.Sorts.
func byKey(key string, a, b *view.Row) int {
	switch key {
	case "state":
		x, y := slices.Index(worst, a.Class), slices.Index(worst, b.Class)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.State, b.State))
	case "type":
		return cmp.Compare(a.Type, b.Type)
	case "version":
		c, err := unitconfig.Compare(a.Version, b.Version)
		if err != nil { // one of them has none
			return cmp.Compare(a.Version, b.Version)
		}
		return c
	case "since":
		return a.Since.Compare(b.Since)
	}
	return cmp.Compare(b.Alerts, a.Alerts)
}

// unitSource names the source of the unit's own document, "" if there is none.
func (c *Core) unitSource() wire.Kind {
	if src := c.cfg.Kinds.Copied(); src != nil {
		return src.Name
	}
	return ""
}

// EachPicked is EachNode with some fields of the nodes.
func (c *Core) EachPicked(ctx context.Context, in op.PickIn, fn func(op.PickedNode) error) (next string, err error) {
	names, source := strings.Split(in.Fields, ","), c.unitSource()
	return c.EachNode(ctx, in.NodesIn, func(n *view.Node) error {
		picked := make(map[string]jsontext.Value, len(names))
		for _, name := range names {
			value, has := op.Field(n, name)
			if name == "state" {
				value, has = n.State(source), true
			}
			if !has {
				continue
			}
			text, err := json.Marshal(value, json.Deterministic(true))
			if err != nil {
				return err
			}
			picked[name] = text
		}
		return fn(picked)
	})
}

// Mark names what the lists of nodes show now: the journal's epoch and newest record, and the minute, for what is not
// in the journal, such as a token that has ended.
func (c *Core) Mark() string {
	j := c.journal.Load()
	return fmt.Sprintf("%d-%d-%d", j.Epoch(), j.Last(), c.cfg.Now().Unix()/60)
}
