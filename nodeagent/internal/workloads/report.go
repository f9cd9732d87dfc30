package workloads

import (
	"cmp"
	"maps"
	"slices"

	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
)

// maxReport bounds a report, in bytes: it goes into one packet, with an envelope.
const maxReport = wire.MaxPayload - 16<<10

// resources tells of the resources that are not there yet.
func (m *Manager) resources(r *wire.WorkloadSlot, p *supervise.Place) {
	for _, name := range slices.Sorted(maps.Keys(p.Config.Resources)) {
		at := m.cfg.Resources.Look(p.Config.Resources[name])
		if at.State == "" || len(r.Resources) == maxResources {
			continue
		}
		r.Resources = append(r.Resources,
			wire.WorkloadResource{Name: wire.Plain(name, wire.MaxText), State: at.State, Done: at.Done, Size: at.Size,
				Error: at.Err})
		r.Error = cmp.Or(r.Error, at.Err)
	}
}

// maxResources are told of one slot.
const maxResources = 32

// fit leaves out what does not fit: first the resources, then the last slots.
func fit(w wire.Workloads) wire.Workloads {
	if n := len(w.Slots); n > wire.MaxSlots {
		w.Slots, w.More = w.Slots[:wire.MaxSlots], n-wire.MaxSlots
	}
	if len(wire.Encode(&w)) <= maxReport {
		return w
	}
	for i := range w.Slots {
		w.Slots[i].Resources = nil
	}
	for len(w.Slots) > 0 && len(wire.Encode(&w)) > maxReport {
		cut := max(1, len(w.Slots)/16)
		w.Slots, w.More = w.Slots[:len(w.Slots)-cut], w.More+cut
	}
	return w
}
