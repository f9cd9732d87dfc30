package fleet

import (
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

// Fact is what is to be looked at of a node that is shown as v, with its identity.
func (f *Fleet) Fact(v *view.Node) why.NodeFact {
	n := f.nodes[v.Node]
	if n == nil {
		return why.FactOf(v, nil, nil, nil)
	}
	var troubles []rollout.Trouble
	for _, o := range f.outputs {
		k := n.Kinds[o.Name]
		if k == nil || o.Troubles == nil {
			continue
		}
		if d, _ := k.newest(); d != nil {
			troubles = append(troubles, o.Troubles(d)...)
		}
	}
	return why.FactOf(v, f.HealthOf(v.Node), troubles, n.Alerts)
}

// HealthOf is what a node told last of its health; nil: nothing.
func (f *Fleet) HealthOf(node string) *wire.Health {
	n := f.nodes[node]
	if n == nil {
		return nil
	}
	for _, k := range n.Kinds {
		d, _ := k.newest()
		if h, ok := d.(*wire.Health); ok {
			return h
		}
	}
	return nil
}

// Trials are the documents that are on trial in the whole unit.
func (f *Fleet) Trials() (all []why.TrialFact) {
	for _, src := range f.sources {
		if t := src.State.Trial; t != nil {
			all = append(all, why.TrialFact{Noun: src.Noun, Version: t.Version, Deadline: t.Deadline})
		}
	}
	return all
}
