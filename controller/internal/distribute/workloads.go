package distribute

import (
	"context"
	"fmt"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// WorkloadStatus returns the unit's set of workloads and how far nodes and slots have come with it.
func (c *Core) WorkloadStatus(ctx context.Context) (v view.WorkloadStatus, err error) {
	err = c.look(ctx, func(f *fleet.Fleet) { v = workloads.Status(f) })
	return v, err
}

// Slots lists the slots of a node, or of the unit if node is "".
func (c *Core) Slots(ctx context.Context, in op.SlotsIn) (v op.Slots, err error) {
	found := in.Node == ""
	err = c.look(ctx, func(f *fleet.Fleet) {
		v.Slots = workloads.Slots(f, in.Node)
		found = found || len(v.Slots) > 0 || f.Lookup(in.Node) != nil
	})
	if err == nil && !found {
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never been heard of", in.Node))
	}
	return v, err
}

// Workloads returns the set of a version as it was submitted, "" for the newest; filled: the instances
// and jobs that it comes to.
func (c *Core) Workloads(ctx context.Context, in op.WorkloadsIn) ([]byte, error) {
	var w kind.State
	if err := c.look(ctx, func(f *fleet.Fleet) { w = f.State(wire.KindWorkloads) }); err != nil {
		return nil, err
	}
	hash, lenient := w.Hash, w.Lenient
	if in.Version == "" && hash == "" {
		return nil, wire.New(wire.CodeNotFound, "", "no workloads were ever applied")
	}
	if in.Version != "" {
		history, err := c.historyOf(ctx, wire.KindWorkloads)
		if err != nil {
			return nil, err
		}
		v, err := acceptedAs(history, in.Version)
		if err != nil {
			return nil, err
		}
		hash, lenient = v.Hash, v.Lenient
	}
	doc, err := c.body(hash)
	if err != nil || !in.Filled {
		return doc, err
	}
	if terr := c.inTurn(ctx, c.cfg.Kinds.Source(wire.KindWorkloads), func() {
		doc, err = workloads.Fill(doc, lenient)
	}); terr != nil {
		return nil, terr
	}
	return doc, err
}

// WorkloadHistory returns what happened to the sets of workloads, in order.
func (c *Core) WorkloadHistory(ctx context.Context) (op.History, error) {
	all, err := c.historyOf(ctx, wire.KindWorkloads)
	return op.History{Versions: all}, err
}

// RestartSlot has a node start a slot's process anew, and returns when the node has answered.
func (c *Core) RestartSlot(ctx context.Context, in op.SlotIn) (view.Ordered, error) {
	return orderNode(ctx, c, in.Node, wire.MethodRestart, &wire.RestartParams{Service: in.Service})
}

// SlotLogs asks a node for a piece of what a slot's processes have written. That somebody reads them is
// journaled, once an hour.
func (c *Core) SlotLogs(ctx context.Context, in op.LogsIn) (view.Logs, error) {
	p := wire.LogsParams{Service: in.Service, Cursor: in.Cursor, Tail: in.Tail}
	slot, who := workload.Slot{Service: in.Service, Node: in.Node}.String(), caller.From(ctx).Who()
	params := wire.Encode(&p)
	if _, err := wire.Decode[wire.LogsParams](params); err != nil { // the node would say the same
		return view.Logs{}, err
	}
	a := c.ask(ctx, func(t uint64) fleet.Event {
		return fleet.Query{
			Ticket: t, Node: in.Node, Method: wire.MethodLogs, Params: params, Who: who,
			What: "read the logs of " + slot,
		}
	})
	if a.Err != nil {
		return view.Logs{}, a.Err
	}
	r, err := wire.Decode[wire.LogsResult](a.Data)
	if err != nil {
		why := "the node's answer cannot be read: " + err.Error()
		return view.Logs{}, &wire.Error{Code: wire.CodeInternal, Message: why, Node: in.Node}
	}
	return view.Logs{Slot: slot, LogsResult: *r}, nil
}
