package workloads

import (
	"slices"
	"time"

	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/workload"
)

// ordered returns a copy of configurations in which none is before another one: that one is after it.
func ordered(configs []workload.Config) []workload.Config {
	all := slices.Clone(configs)
	for _, c := range configs {
		for _, n := range c.Needs {
			i := slices.IndexFunc(all, func(o workload.Config) bool { return o.Slot == n.Slot })
			if after := (workload.Need{Slot: c.Slot, Condition: workload.After}); n.Condition == workload.Before &&
				i >= 0 && !slices.Contains(all[i].Needs, after) {
				all[i].Needs = append(slices.Clip(all[i].Needs), after)
			}
		}
	}
	for i := range all {
		if slices.ContainsFunc(all[i].Needs, before) {
			all[i].Needs = slices.DeleteFunc(slices.Clone(all[i].Needs), before)
		}
	}
	return all
}

func before(n workload.Need) bool { return n.Condition == workload.Before }

// judge tells every slot which of its needs are met, and which of its containers can be made, if that has changed.
func (m *Manager) judge() {
	for _, s := range m.slots {
		var met []workload.Need
		for _, n := range s.state.Needs() {
			if m.meets(n) {
				met = append(met, n)
			}
		}
		var able []string
		for _, p := range s.state.Contained() {
			if m.lacks(p.Config) == nil {
				able = append(able, p.Dir)
			}
		}
		if !slices.Equal(met, s.state.Met()) || !slices.Equal(able, s.state.Able()) {
			m.tell(s, supervise.Met{Needs: met, Able: able})
		}
	}
}

// meets reports whether a need is met.
func (m *Manager) meets(n workload.Need) bool {
	other := m.slots[n.Slot.Service]
	if other == nil || other.state.Slot != n.Slot {
		return n.Condition.Weak()
	}
	return other.state.Meets(n.Condition)
}

// due is when a slot wants to be told the time; false: not until something happens.
func (s *slot) due() (time.Duration, bool) {
	at, ok := s.state.NextDeadline()
	if window, open := s.state.Window(); open && (!ok || window < at) {
		return window, true
	}
	return at, ok
}
