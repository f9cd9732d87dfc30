package distribute

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// manyAtOnce is how many nodes of an order to many are ordered at once. They share commits, and leave room among the
// orders that wait for an answer to those who order one node.
const manyAtOnce = 64

// OrderNodes gives an order to each node that a filter selects, as if somebody ordered it of each: what is in the
// journal before a crash counts, and the rest was not ordered. It returns when each has answered, or will not. If ctx
// ends, those that come later by name are not ordered.
func (c *Core) OrderNodes(ctx context.Context, in op.NodesOrder) (v op.NodesOrdered, err error) {
	if err := caller.May(ctx, string(in.Role())); err != nil {
		return v, err
	}
	v.DryRun, v.Nodes = in.DryRun, []op.NodeOrdered{}
	_, err = c.EachNode(ctx, op.NodesIn{Q: in.Where}, func(n *view.Node) error {
		if v.Nodes = append(v.Nodes, op.NodeOrdered{Node: n.Node}); !n.Online {
			v.Offline++
		}
		return nil
	})
	if err != nil {
		return v, err
	}
	all, err := c.nodeNames(ctx, &selection{in: &op.NodesIn{}, now: c.cfg.Now()})
	if err != nil {
		return v, err
	}
	v.Selected = len(v.Nodes)
	v.AllNodes = v.Selected > 0 && v.Selected >= len(all)
	if in.DryRun {
		v.Expect = op.ExpectOf(v.Nodes)
		bound(&v)
		return v, nil
	}
	if err := against(&in, &v); err != nil {
		return op.NodesOrdered{}, err
	}
	orderEach(ctx, v.Nodes, c.orderOf(&in))
	if err := ctx.Err(); err != nil {
		return v, err
	}
	for i := range v.Nodes {
		if v.Nodes[i].Error != nil {
			v.Failed++
		} else {
			v.Done++
		}
	}
	bound(&v)
	return v, nil
}

// orderOf returns what an order does at one node.
func (c *Core) orderOf(in *op.NodesOrder) func(context.Context, op.NodeIn) error {
	switch {
	case in.Reboot != nil:
		return func(ctx context.Context, n op.NodeIn) error {
			_, err := c.Reboot(ctx, op.RebootIn{NodeIn: n, Reboot: *in.Reboot})
			return err
		}
	case in.Try != nil:
		return func(ctx context.Context, n op.NodeIn) error {
			_, err := c.Try(ctx, op.TryIn{NodeIn: n, Try: *in.Try})
			return err
		}
	case in.Approve != nil:
		return func(ctx context.Context, n op.NodeIn) error {
			_, err := c.Approve(ctx, op.ApproveIn{NodeIn: n, Approve: *in.Approve})
			return err
		}
	case in.Set != nil:
		return func(ctx context.Context, n op.NodeIn) error {
			of := op.PropertyIn{NodeIn: n, Property: in.Set.Name}
			_, err := c.SetProperty(ctx, op.SetPropertyIn{PropertyIn: of, PropertyValue: in.Set.PropertyValue})
			return err
		}
	case in.Unset != nil:
		return func(ctx context.Context, n op.NodeIn) error {
			_, err := c.UnsetProperty(ctx, op.PropertyIn{NodeIn: n, Property: in.Unset.Name})
			return err
		}
	}
	return func(ctx context.Context, n op.NodeIn) error {
		return c.Enrolment(ctx, enrol.Revoke{Subject: "node/" + n.Node, Reason: in.Revoke.Reason})
	}
}

// against says why nothing is ordered.
func against(in *op.NodesOrder, v *op.NodesOrdered) error {
	n, _, these := strings.Cut(in.Expect, "-")
	switch {
	case n != "" && n != strconv.Itoa(v.Selected):
		return wire.New(wire.CodeWrongState, "/expect", fmt.Sprintf("the filter selects %s now, not %s: nothing was "+
			"ordered; look at them with a dry run again", phrase.Plural(v.Selected, "node"), n))
	case these && in.Expect != op.ExpectOf(v.Nodes):
		return wire.New(wire.CodeWrongState, "/expect", fmt.Sprintf("the filter selects %s as before, but not the "+
			"same: nothing was ordered; look at them with a dry run again", phrase.Plural(v.Selected, "node")))
	case v.AllNodes && !in.AllNodes:
		err := wire.New(wire.CodeNotAllowed, wire.PathAllNodes,
			fmt.Sprintf("the filter selects every node: %d of %[1]d; set this if that is meant", v.Selected))
		err.Nodes = v.Selected
		return err
	}
	return nil
}

// orderEach has do done at each node, some at once, until ctx ends.
func orderEach(ctx context.Context, nodes []op.NodeOrdered, do func(context.Context, op.NodeIn) error) {
	var wg sync.WaitGroup
	var taken atomic.Int64
	for range min(manyAtOnce, len(nodes)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(taken.Add(1)) - 1
				if i >= len(nodes) {
					return
				}
				if err := do(ctx, op.NodeIn{Node: nodes[i].Node}); err != nil {
					nodes[i].Error = wire.AsError(err)
				}
			}
		})
	}
	wg.Wait()
}

// bound leaves nodes out of an answer that has more than it lists, those of which nothing was refused before others.
func bound(v *op.NodesOrdered) {
	v.Omitted = max(0, len(v.Nodes)-op.MaxOrdered)
	fine := max(0, op.MaxOrdered-v.Failed) // so many of those may stay
	v.Nodes = slices.DeleteFunc(v.Nodes, func(n op.NodeOrdered) bool {
		if n.Error == nil {
			fine--
		}
		return n.Error == nil && fine < 0
	})
	v.Nodes = v.Nodes[:min(len(v.Nodes), op.MaxOrdered)]
}
