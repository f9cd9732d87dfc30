package desired

import (
	"slices"
	"strings"

	"tandem.internal/shared/items"
)

// verdict is what the filters say of a place: the first that refuses it, and why. The zero verdict is a yes.
type verdict struct {
	filter            Filter
	about             string
	needed, available int64
}

// onNode passes a node through the filters of nodes. staying: it is where the instance runs now.
func (w *world) onNode(c *candidate, n *node, staying bool) verdict {
	if v := w.takesPart(c, n, staying); v.filter != "" {
		return v
	}
	if !c.subject.takes(n) {
		return verdict{filter: OfNode}
	}
	for _, l := range c.labels {
		if !slices.Contains(n.Labels, l) {
			return verdict{filter: OfLabels, about: l}
		}
	}
	if c.Meta.Type == items.Component {
		return verdict{}
	}
	if v := left(OfResources, c.resources, n.resources); v.filter != "" {
		return v
	}
	if v := left(OfDevices, c.devices, n.devices); v.filter != "" {
		return v
	}
	for _, p := range c.ports {
		if n.ports[p] != nil {
			return verdict{filter: OfPorts, about: p.String(), needed: 1}
		}
	}
	if w.underLoad != nil {
		return w.underLoad(n)
	}
	return verdict{}
}

// takesPart is the filters of state and online. A node that is paused, in error or offline keeps what it has: of
// services for the time of EvictAfter.
func (w *world) takesPart(c *candidate, n *node, staying bool) verdict {
	switch s := n.Info.State; {
	case s == items.Unprovisioned, s != items.Provisioned && !staying:
		return verdict{filter: OfState, about: string(s)}
	}
	off := n.Info.OfflineFor.Std()
	long := w.in.EvictAfter > 0 && off > w.in.EvictAfter && c.Meta.Type == items.Service
	if off > 0 && (!staying || long) {
		return verdict{filter: OfOnline}
	}
	return verdict{}
}

// left looks for a share of each of some resources.
func left(f Filter, names []string, has []share) verdict {
	for _, name := range names {
		if s := of(has, name); s == nil || s.left == 0 {
			return verdict{filter: f, about: name, needed: 1}
		}
	}
	return verdict{}
}

// inRuntime passes a runtime of a node that has passed through the filters of runtimes.
func (w *world) inRuntime(c *candidate, r *runtime) verdict {
	if len(c.Meta.Runtimes) > 0 && !slices.Contains(c.Meta.Runtimes, r.Type) {
		return verdict{filter: OfRuntime, about: r.Type + ", not " + strings.Join(c.Meta.Runtimes, " or ")}
	}
	if len(c.Meta.Platforms) > 0 && c.platformOn(r) == nil {
		return verdict{filter: OfPlatform, about: r.Architecture}
	}
	for _, l := range c.layers {
		if len(l.Meta.Platforms) > 0 && first(l.Meta.Platforms, r) == nil {
			return verdict{filter: OfPlatform, about: r.Architecture + ", for the layer " + l.Meta.Codename}
		}
	}
	if w.in.Bar != nil {
		if why := w.in.Bar(c.Item, c.layerItems, r.node.Info, r.Runtime); why != "" {
			return verdict{filter: OfContent, about: why}
		}
	}
	if c.Meta.Type == items.Component {
		return verdict{}
	}
	need, has := c.reserves(r.node), r.left()
	switch {
	case need.CPU > 0 && need.CPU > has.CPU:
		return verdict{filter: OfCPU, needed: need.CPU, available: max(has.CPU, 0)}
	case need.RAM > 0 && need.RAM > has.RAM:
		return verdict{filter: OfRAM, needed: need.RAM, available: max(has.RAM, 0)}
	}
	if v := r.node.onDisk(need); v.filter != "" {
		return v
	}
	if r.MaxInstances > 0 && r.services >= r.MaxInstances {
		return verdict{filter: OfInstances, needed: 1}
	}
	return verdict{}
}

// onDisk is the filters of storage and state storage. If they are of one partition, both have to fit.
func (n *node) onDisk(need items.Amounts) verdict {
	if need.Storage > 0 && need.Storage > n.storage.free {
		return verdict{filter: OfStorage, needed: need.Storage, available: max(n.storage.free, 0)}
	}
	if need.State == 0 {
		return verdict{}
	}
	left := n.state.free
	if n.state == n.storage {
		left -= need.Storage
	}
	if need.State > left {
		return verdict{filter: OfStateStorage, needed: need.State, available: max(left, 0)}
	}
	return verdict{}
}

// refusal is a verdict with its place and who holds what is needed.
func (i *instance) refusal(v verdict, n *node, r *runtime) Refusal {
	f := Refusal{Node: n.Info.Node, Filter: v.filter, About: v.about, Needed: v.needed, Available: v.available}
	if r != nil {
		f.Runtime = r.ID
	}
	var holders []*instance
	switch v.filter {
	case OfResources, OfDevices:
		has := n.resources
		if v.filter == OfDevices {
			has = n.devices
		}
		if s := of(has, v.about); s != nil {
			holders = s.holders
		}
	case OfPorts:
		for p, h := range n.ports {
			if p.String() == v.about {
				holders = []*instance{h}
			}
		}
	case OfCPU, OfRAM, OfStorage, OfStateStorage, OfInstances:
		for _, h := range n.instances {
			if h.holds(v.filter, r) {
				holders = append(holders, h)
			}
		}
	}
	holders = slices.SortedFunc(slices.Values(holders), inOrder)
	for _, h := range holders[:min(len(holders), mostHolders)] {
		f.Holders = append(f.Holders, Holder{h.Meta.Codename, h.subject.Codename, h.index})
	}
	return f
}

// holds reports whether an instance has some of what a filter counts.
func (i *instance) holds(f Filter, r *runtime) bool {
	has, n := i.reserved, i.at.node
	both := n.storage == n.state
	switch f {
	case OfCPU:
		return has.CPU > 0
	case OfRAM:
		return has.RAM > 0
	case OfStorage:
		return has.Storage > 0 || both && has.State > 0
	case OfStateStorage:
		return has.State > 0 || both && has.Storage > 0
	}
	return i.at == r && i.Meta.Type == items.Service
}
