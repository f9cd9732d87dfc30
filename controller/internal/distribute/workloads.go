package distribute

import (
	"context"
	"fmt"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// maxWarnings bounds what an answer tells of a lenient reading.
const maxWarnings = 100

// place reads a set of workloads and works out what each node gets.
func place(doc []byte, lenient bool) (*fleet.Placement, []view.Warning, []*wire.Error) {
	set, warnings, problems := read(doc, lenient)
	if len(problems) > 0 {
		return nil, warnings, problems
	}
	p, errs := fleet.Place(set)
	return p, warnings[:min(len(warnings), maxWarnings)], errs
}

// inTurn does something with a document of a kind. Sets of workloads have to wait for each other: one of them may
// take some hundred MiB while it is worked out (workload.Fill).
func (c *Core) inTurn(ctx context.Context, kind wire.Kind, do func()) error {
	if kind == wire.KindWorkloads {
		select {
		case c.placing <- struct{}{}:
			defer func() { <-c.placing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	do()
	return nil
}

func read(doc []byte, lenient bool) (*workload.Set, []view.Warning, []*wire.Error) {
	if lenient {
		return workload.ParseLenient(doc)
	}
	set, problems := workload.Parse(doc)
	return set, nil, problems
}

// WorkloadStatus returns the unit's set of workloads and how far nodes and slots have come with it.
func (c *Core) WorkloadStatus(ctx context.Context) (v view.WorkloadStatus, err error) {
	err = c.look(ctx, func(f *fleet.Fleet) { v = f.WorkloadStatus() })
	return v, err
}

// Slots lists the slots of a node, or of the unit if node is "".
func (c *Core) Slots(ctx context.Context, in op.SlotsIn) (v op.Slots, err error) {
	found := in.Node == ""
	err = c.look(ctx, func(f *fleet.Fleet) {
		v.Slots = f.Slots(in.Node)
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
	var w fleet.Workloads
	if err := c.look(ctx, func(f *fleet.Fleet) { w = f.WorkloadsState() }); err != nil {
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
	if terr := c.inTurn(ctx, wire.KindWorkloads, func() { doc, err = fill(doc, lenient) }); terr != nil {
		return nil, terr
	}
	return doc, err
}

// fill works out the instances and jobs of a set.
func fill(doc []byte, lenient bool) ([]byte, error) {
	set, _, problems := read(doc, lenient)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	f, problems := workload.Fill(set)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return workload.Encode(f.Configs), nil
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
