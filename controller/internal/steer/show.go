package steer

import (
	"cmp"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/components"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// stateWaiting is the state of what its node has not told of.
const stateWaiting = "waiting"

// Show lists the components, and the instances of services, that should run on a node, or in the unit if node is "": by
// node, components first.
func Show(u kind.Unit, node string) []view.ItemInstance {
	all := []view.ItemInstance{}
	list, _ := u.Content(wire.KindComponents).(*components.Placement)
	for _, i := range list.Current() {
		if node == "" || node == i.Node {
			all = append(all, component(u, i))
		}
	}
	slots := map[string]*view.Slot{}
	known := workloads.Slots(u, node)
	for i := range known {
		slots[known[i].Slot] = &known[i]
	}
	set, _ := u.Content(wire.KindWorkloads).(*workloads.Placement)
	for slot, i := range set.Instances() {
		if node != "" && node != i.Node {
			continue
		}
		v := view.ItemInstance{Instance: i, Slot: slot, State: stateWaiting}
		if s := slots[slot]; s != nil {
			v.Online, v.State, v.Why = s.Online, s.State, s.Why
			if s.Report != nil {
				v.Error = s.Report.Error
			}
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b view.ItemInstance) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Codename, b.Codename),
			cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Runtime, b.Runtime))
	})
	return all
}

// component is a component as its node tells of it.
func component(u kind.Unit, i items.Instance) view.ItemInstance {
	v := view.ItemInstance{Instance: i, State: stateWaiting}
	n, known := u.Node(wire.KindComponents, i.Node)
	if !known {
		return v
	}
	v.Online = n.Up
	if s := components.Of(&n, i.Runtime, i.Codename, i.Version); s != nil {
		v.State, v.Error = string(s.State), s.Error
		if s.Error != nil {
			v.Why = s.Error.Message
		}
	}
	return v
}
