package distribute

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Slots lists the slots of a node, or of the unit if node is "".
func (c *Core) Slots(ctx context.Context, in op.SlotsIn) (v op.Slots, err error) {
	found := in.Node == ""
	err = c.see(ctx, func(f *fleet.Fleet) {
		v.Slots = workloads.Slots(f, in.Node)
		found = found || len(v.Slots) > 0 || f.Lookup(in.Node) != nil
	})
	if err == nil && !found {
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf("node %.100q has never been heard of", in.Node))
	}
	return v, err
}

const (
	maxWhyEvents = 5       // that are told with the reason
	maxWhyBack   = 100_000 // entries of the journal among which they are looked for
)

// WhySlot says why a slot does not run what it should, or how it runs.
func (c *Core) WhySlot(ctx context.Context, in op.SlotIn) (view.SlotWhy, error) {
	slot := workload.Slot{Service: in.Service, Node: in.Node}
	facts, known := why.Facts{Now: c.cfg.Now(), Broker: c.roadNow()}, false
	newest := uint64(0)
	err := c.see(ctx, func(f *fleet.Fleet) {
		facts.Slot, known = workloads.Slot(f, slot)
		facts.Node, facts.Known = f.Show(in.Node)
		facts.Doc = facts.Node.Documents[wire.KindWorkloads]
		facts.Node.Identity = f.Identity(in.Node, facts.Now)
		set := f.State(wire.KindWorkloads)
		facts.Version, facts.Since, facts.Who = set.Version, set.Since, cmp.Or(set.Who, "the controller")
		newest = f.Seq()
	})
	if err == nil && !known {
		err = wire.New(wire.CodeNotFound, "", fmt.Sprintf(
			"neither does the set of workloads have the slot %s, nor has its node told of it", slot))
	}
	if err != nil {
		return view.SlotWhy{}, err
	}
	if facts.Slot.Desired != "" {
		facts.Origin, facts.Unread = c.origin(ctx, slot)
	}
	filter := view.EntryFilter{
		Slot: slot, Reverse: true, Limit: maxWhyEvents, From: max(newest, maxWhyBack) - maxWhyBack,
	}
	if facts.Events, err = c.Entries(ctx, filter); err != nil {
		return view.SlotWhy{}, err
	}
	slices.Reverse(facts.Events)
	return why.Slot(facts), nil
}

// ofSlots is the document of a node that its slots come from.
func ofSlots(n *view.Node) view.Document { return n.Documents[wire.KindWorkloads] }

// origin says where what a slot should run comes from.
func (c *Core) origin(ctx context.Context, slot workload.Slot) (from *why.Origin, err error) {
	terr := c.inReadersTurn(ctx, func() {
		var r kind.Reading
		if r, err = c.reading(ctx, c.cfg.Kinds.Source(wire.KindWorkloads), ""); err == nil {
			from, err = workloads.Origin(r, slot)
		}
	})
	return from, cmp.Or(terr, err)
}

// Filled returns the instances and jobs that a version of the set comes to, "" for the newest.
func (c *Core) Filled(ctx context.Context, in op.FilledIn) (doc []byte, err error) {
	src := c.cfg.Kinds.Source(wire.KindWorkloads)
	terr := c.inReadersTurn(ctx, func() {
		var r kind.Reading
		if r, err = c.reading(ctx, src, in.Version); err == nil {
			doc, err = workloads.Fill(r)
		}
	})
	if err := cmp.Or(terr, err); err != nil {
		return nil, err
	}
	return public(ctx, src, doc)
}

// RestartSlot has a node start a slot's process anew, and returns when the node has answered.
func (c *Core) RestartSlot(ctx context.Context, in op.SlotIn) (view.Ordered, error) {
	return orderNode(ctx, c, in.Node, wire.MethodRestart, &wire.RestartParams{Service: in.Service})
}

// StopSlot stops a slot until it is started. The journal has it, and its node's document.
func (c *Core) StopSlot(ctx context.Context, in op.SlotIn) (view.SlotStop, error) {
	slot, known := workload.Slot{Service: in.Service, Node: in.Node}, false
	if err := c.see(ctx, func(f *fleet.Fleet) {
		s, ok := workloads.Slot(f, slot)
		known = ok && s.Desired != ""
	}); err != nil {
		return view.SlotStop{}, err
	}
	if !known {
		err := wire.New(wire.CodeNotFound, "", fmt.Sprintf("the set of workloads has no slot %s", slot))
		return view.SlotStop{}, err
	}
	return c.changeStop(ctx, slot, true)
}

// StartSlot lets a slot that was stopped run again, also one that the set does not have now.
func (c *Core) StartSlot(ctx context.Context, in op.SlotIn) (view.SlotStop, error) {
	return c.changeStop(ctx, workload.Slot{Service: in.Service, Node: in.Node}, false)
}

func (c *Core) changeStop(ctx context.Context, slot workload.Slot, stopped bool) (view.SlotStop, error) {
	who := caller.From(ctx).Who()
	r, err := c.order(ctx, func(t uint64) fleet.Event {
		data := workloads.Stop{Slot: slot, Stopped: stopped}
		return fleet.Change{Ticket: t, Source: workloads.KindStops, Data: data, Who: who}
	})
	return view.SlotStop{Slot: slot.String(), Stopped: stopped, Rev: r.Rev, Issued: r.Issued}, err
}

// SlotLogs asks a node for a piece of what a slot's processes have written. That somebody reads them is
// journaled, once an hour.
func (c *Core) SlotLogs(ctx context.Context, in op.LogsIn) (view.Logs, error) {
	p := wire.LogsParams{Service: in.Service, Cursor: in.Cursor, Tail: in.Tail, Hook: in.Hook}
	slot := workload.Slot{Service: in.Service, Node: in.Node}.String()
	params := wire.Encode(&p)
	if _, err := wire.Decode[wire.LogsParams](params); err != nil { // the node would say the same
		return view.Logs{}, err
	}
	r, err := inquire[wire.LogsResult](ctx, c, in.Node, wire.MethodLogs, params, "read the logs of "+slot, "")
	if err != nil {
		return view.Logs{}, err
	}
	if r.Hook != in.Hook {
		return view.Logs{}, &wire.Error{Code: wire.CodeNotSupported, Node: in.Node,
			Message: "the agent there shows the output of iss_hook_start only; update it"}
	}
	return view.Logs{Slot: slot, LogsResult: *r}, nil
}
