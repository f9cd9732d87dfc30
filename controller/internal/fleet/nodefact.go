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
	var report *wire.Health
	var troubles []rollout.Trouble
	for _, o := range f.outputs {
		d := f.as(n, o.Name).Detail
		if d == nil {
			continue
		}
		if h, ok := d.(*wire.Health); ok {
			report = h
		}
		if o.Troubles != nil {
			troubles = append(troubles, o.Troubles(d)...)
		}
	}
	return why.FactOf(v, report, troubles, n.Alerts)
}
