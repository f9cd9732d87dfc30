package unitstatus

import (
	"tandem.internal/controller/internal/kind"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/shared/wire"
)

// Unit is a unit as it was at one moment, as far as its status goes: that is assembled while the unit goes on.
type Unit struct {
	kind.Unit // nil: nothing else is asked for
	contents  map[wire.Kind]kind.Content
	config    kind.State
	nodes     map[wire.Kind]map[string]kind.Node
}

// Look reads what there is to know of a unit now. It takes little time: contents, and what nodes tell, are never
// changed, only replaced.
func Look(u kind.Unit) *Unit {
	v := &Unit{contents: map[wire.Kind]kind.Content{}, config: u.State(wire.KindConfig),
		nodes: map[wire.Kind]map[string]kind.Node{}}
	for _, source := range []wire.Kind{wire.KindComponents, wire.KindWorkloads, workloads.KindStops,
		kinditems.KindItems, kinditems.KindSubjects} {
		v.contents[source] = u.Content(source)
	}
	for _, k := range []wire.Kind{wire.KindComponents, wire.KindWorkloads} {
		all := map[string]kind.Node{}
		u.Each(k, func(n kind.Node) {
			if n.Document != nil {
				d := *n.Document
				n.Document = &d
			}
			n.Alerts = nil
			all[n.Name] = n
		})
		v.nodes[k] = all
	}
	return v
}

// Content implements kind.Unit.
func (u *Unit) Content(source wire.Kind) kind.Content { return u.contents[source] }

// Each implements kind.Unit.
func (u *Unit) Each(k wire.Kind, fn func(kind.Node)) {
	for _, n := range u.nodes[k] {
		fn(n)
	}
}

// Node implements kind.Unit.
func (u *Unit) Node(k wire.Kind, name string) (kind.Node, bool) {
	n, known := u.nodes[k][name]
	return n, known
}
