package workloads

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
)

// maxReport bounds a report, in bytes: it goes into one packet, with an envelope.
const maxReport = wire.MaxPayload - 16<<10

// resources tells of the resources that are not there yet, or are not put in force any more, and of a runtime that is
// not there.
func (m *Manager) resources(r *wire.WorkloadSlot, inForce, p *supervise.Place) {
	for _, name := range slices.Sorted(maps.Keys(p.Config.Resources)) {
		at := m.cfg.Resources.Look(p.Config.Resources[name])
		if err := m.overdue(inForce, p.Config.Resources[name]); at.State == "" && err != nil {
			at.State, at.Err = "failed", err
		}
		if at.State == "" || len(r.Resources) == maxResources {
			continue
		}
		r.Resources = append(r.Resources, at.shown(name))
		r.Error = cmp.Or(r.Error, at.Err)
	}
}

// damage tells of the resources of what is in force that were found damaged. The process goes on, and they are fetched
// again; of one that cannot be fetched there is an event, once until it is there.
func (m *Manager) damage(r *wire.WorkloadSlot, s *slot) {
	before := s.damaged
	s.damaged = nil
	p := s.saved.Main
	if p == nil || p.Done {
		return
	}
	if dir := m.cfg.Resources.Outdated(p.Run); dir != "" && r.Error == nil {
		r.Error = wire.New(wire.CodeHashMismatch, "/resources",
			"the tree layers/"+dir+" was damaged, and what runs has it until it is restarted")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Config.Resources)) {
		at := m.cfg.Resources.Look(p.Config.Resources[name])
		if at.State == "" || at.Err == nil {
			continue
		}
		shown := wire.Plain(name, wire.MaxText)
		if len(r.Resources) < maxResources && !slices.ContainsFunc(r.Resources,
			func(o wire.WorkloadResource) bool { return o.Name == shown }) { // it may be of the next configuration, too
			r.Resources = append(r.Resources, at.shown(name))
		}
		already := slices.Contains(before, name)
		failed := at.State == "failed" || at.State == "waiting" && at.Err.Code == wire.CodeStorage
		if !already && !failed {
			continue // it is fetched for the first time
		}
		s.damaged = append(s.damaged, name)
		what := "is damaged, and cannot be fetched again"
		if at.Unsigned != nil {
			what = "cannot be used any more"
		}
		err := wire.New(at.Err.Code, "/resources/"+name, fmt.Sprintf("the resource %.64q %s: %s", name, what,
			at.Err.Message))
		r.Error = cmp.Or(r.Error, err)
		if !already {
			m.cfg.Emit(supervise.EventDamaged, err, supervise.Detail{Slot: r.Slot, ID: r.ID, Text: "it goes on"})
		}
	}
}

// shown is what the report says of a resource.
func (r Resource) shown(name string) wire.WorkloadResource {
	w := wire.WorkloadResource{
		Name: wire.Plain(name, wire.MaxText), State: r.State, Done: r.Done, Size: r.Size, Error: r.Err,
	}
	if !r.Next.IsZero() {
		w.Next = r.Next.UTC().Truncate(time.Second)
	}
	return w
}

// maxResources are told of one slot.
const maxResources = 32

// fit leaves out what does not fit: first the resources and needs, then the last slots.
func fit(w wire.Workloads) wire.Workloads {
	if n := len(w.Slots); n > wire.MaxSlots {
		w.Slots, w.More = w.Slots[:wire.MaxSlots], n-wire.MaxSlots
	}
	if len(wire.Encode(&w)) <= maxReport {
		return w
	}
	for i := range w.Slots {
		w.Slots[i].Resources, w.Slots[i].Waits = nil, nil
	}
	for len(w.Slots) > 0 && len(wire.Encode(&w)) > maxReport {
		cut := max(1, len(w.Slots)/16)
		w.Slots, w.More = w.Slots[:len(w.Slots)-cut], w.More+cut
	}
	return w
}
