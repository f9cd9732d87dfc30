package workloads

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// KindStops is the source of what operators have stopped: nodes' documents of workloads are made from the set and it.
const KindStops wire.Kind = "workload-stops"

// Stops are the slots that operators have stopped, whether the set has them or not.
type Stops struct {
	Slots map[workload.Slot]view.Stop `json:"slots,omitempty"`
}

// Stop is the change that stops a slot, or lets it start again. It is the data of its records.
type Stop = record.StopData

// maxStops bounds what the state holds of them.
const maxStops = 20_000

// stopFold keeps them.
func stopFold() *kind.Fold {
	return kind.JSON[Stop, Stops](kind.Fold{Reason: "a slot was stopped or started",
		Judge: judgeStop, Apply: applyStop})
}

// judgeStop says why a slot cannot be stopped or started.
func judgeStop(c kind.Content, data any) *wire.Error {
	s, d := stopsOf(c), data.(Stop)
	before, stopped := s.Slots[d.Slot]
	switch {
	case d.Stopped && stopped:
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf("%s has stopped %s already", before.Who, d.Slot))
	case !d.Stopped && !stopped:
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf("nobody has stopped %s; to have its process started "+
			"anew: tandem workload restart %s", d.Slot, d.Slot))
	case d.Stopped && len(s.Slots) >= maxStops:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("more than %d slots are stopped", maxStops))
	}
	return nil
}

func applyStop(c kind.Content, at kind.Change, data any) kind.Content {
	slots, d := maps.Clone(stopsOf(c).Slots), data.(Stop)
	if d.Stopped {
		if slots == nil {
			slots = map[workload.Slot]view.Stop{}
		}
		slots[d.Slot] = view.Stop{At: at.At, Who: cmp.Or(at.Who, "the controller")}
	} else {
		delete(slots, d.Slot)
	}
	return &Stops{slots}
}

// For returns nothing: without a set there is no document.
func (s *Stops) For(kind.Facts) *kind.Body { return nil }

func stopsOf(c kind.Content) *Stops { return kind.As[Stops](c) }

// build makes what nodes get of the set and of what is stopped.
func build(from map[wire.Kind]kind.Content) kind.Content {
	p, _ := from[wire.KindWorkloads].(*Placement)
	s := stopsOf(from[KindStops])
	switch {
	case p == nil:
		return s
	case len(s.Slots) == 0:
		return p
	}
	return p.without(s)
}

// without is p with the documents of nodes where something is stopped. A document that is too long with that is as it
// is without.
func (p *Placement) without(s *Stops) *Placement {
	q := &Placement{nodes: maps.Clone(p.nodes), order: p.order, slots: p.slots}
	nodes := map[string]bool{}
	for slot := range s.Slots {
		nodes[slot.Node] = true
	}
	for node := range nodes {
		n := q.nodes[node]
		if n == nil || !slices.ContainsFunc(n.slots, func(w wanted) bool { return s.has(w.slot) }) {
			continue
		}
		configs, errs := workload.ParseDocument(n.body.Bytes, node)
		if errs != nil {
			panic("workloads: a node's document cannot be read: " + errs[0].Error()) // this program has made it
		}
		for i := range configs {
			_, configs[i].Stopped = s.Slots[configs[i].Slot]
		}
		if body, err := workload.EncodeDocument(configs); err == nil {
			changed := *n
			changed.body = kind.NewBody(body)
			q.nodes[node] = &changed
		}
	}
	return q
}

func (s *Stops) has(slot string) bool {
	_, has := s.stop(slot)
	return has
}

// stop returns who has stopped a slot, and when.
func (s *Stops) stop(slot string) (view.Stop, bool) {
	if len(s.Slots) == 0 {
		return view.Stop{}, false
	}
	parsed, err := workload.ParseSlot(slot)
	if err != nil {
		return view.Stop{}, false
	}
	stop, has := s.Slots[parsed]
	return stop, has
}
