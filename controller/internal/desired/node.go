package desired

import (
	"cmp"
	"math"
	"slices"

	"tandem.internal/shared/items"
)

// node is a node with what is left of it.
type node struct {
	Node
	index      int           // among all nodes
	free       items.Amounts // CPU and RAM
	storage    *space        // nil: the node does not tell of it, and nothing is reserved
	state      *space        // may be the same
	resources  []share
	devices    []share
	ports      map[items.Port]*instance
	runtimes   []*runtime  // by type and ID
	instances  []*instance // that are placed here
	components []int       // that run here now: indexes in the current state
}

// space is what is left of a partition.
type space struct{ free int64 }

// runtime is a runtime with what is left of it.
type runtime struct {
	*items.Runtime
	node     *node
	free     items.Amounts // of its own allowance
	services int           // that it runs
}

// share is something that instances have shares of.
type share struct {
	name    string
	left    int // -1: any number
	holders []*instance
}

// instance is an instance of a candidate, placed or to be placed.
type instance struct {
	*candidate
	index    int
	runs     *items.Instance // as it runs now; nil: it does not
	now      int             // its index in the current state
	at       *runtime        // nil: not placed
	platform *items.Platform // nil: it is built for any
	reserved items.Amounts
	chosen   Choice
	victim   *instance   // that took its place; nil: none
	move     *ReliefMove // that it was placed by; nil: none
}

// newInstance makes an instance. Of thousands a single allocation has many.
func (w *world) newInstance(c *candidate) *instance {
	if len(w.fresh) == 0 {
		w.fresh = make([]instance, 256)
	}
	i := &w.fresh[0]
	w.fresh = w.fresh[1:]
	i.candidate = c
	return i
}

// addNodes sorts the nodes.
func (w *world) addNodes() {
	for i := range w.in.Nodes {
		n := &node{Node: w.in.Nodes[i], ports: map[items.Port]*instance{}}
		n.free = items.Amounts{CPU: n.Info.CPU - n.Info.Used.CPU, RAM: n.Info.RAM - n.Info.Used.RAM}
		n.addSpaces()
		n.resources, n.devices = shares(n.Info.Resources), shares(n.Info.Devices)
		for j := range n.Info.Runtimes {
			r := &runtime{Runtime: &n.Info.Runtimes[j], node: n, free: items.Amounts{CPU: math.MaxInt64,
				RAM: math.MaxInt64}}
			if r.CPU != nil {
				r.free.CPU = *r.CPU
			}
			if r.RAM != nil {
				r.free.RAM = *r.RAM
			}
			n.runtimes = append(n.runtimes, r)
		}
		slices.SortFunc(n.runtimes, func(a, b *runtime) int {
			return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
		})
		w.nodes = append(w.nodes, n)
		w.byNode[n.Info.Node] = n
	}
	slices.SortFunc(w.nodes, func(a, b *node) int { return cmp.Compare(a.Info.Node, b.Info.Node) })
	for i, n := range w.nodes {
		n.index = i
	}
}

// addSpaces finds the partitions of which instances reserve.
func (n *node) addSpaces() {
	for i := range n.Info.Partitions {
		p := &n.Info.Partitions[i]
		s := &space{p.TotalSize}
		if slices.Contains(p.Types, items.ForStorage) {
			n.storage = s
			s.free -= n.Info.Used.Storage
		}
		if slices.Contains(p.Types, items.ForState) {
			n.state = s
			s.free -= n.Info.Used.State
		}
	}
}

func shares(all []items.Resource) []share {
	list := make([]share, 0, len(all))
	for _, r := range all {
		s := share{name: r.Name, left: r.Shared}
		if r.Shared == 0 {
			s.left = -1
		}
		list = append(list, s)
	}
	return list
}

// of returns the share of that name; nil: there is none.
func of(all []share, name string) *share {
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}

// left is what a service may still reserve of a runtime: no more than is left of its node.
func (r *runtime) left() items.Amounts {
	return items.Amounts{CPU: min(r.free.CPU, r.node.free.CPU), RAM: min(r.free.RAM, r.node.free.RAM)}
}

// reserves is what an instance reserves on a node: what is requested, at most the quota; else the node's ratio of the
// quota, rounded half up. Components reserve nothing, and nothing is reserved of a space that the node does not tell.
func (c *candidate) reserves(n *node) items.Amounts {
	one := func(quota, requested int64, ratio int) int64 {
		if requested > 0 {
			return min(requested, quota)
		}
		return (quota*int64(ratio) + 50) / 100
	}
	q, r := c.Meta.Quotas, c.Meta.Requested
	need := items.Amounts{CPU: one(q.CPU, r.CPU, n.Ratios.CPU), RAM: one(q.RAM, r.RAM, n.Ratios.RAM)}
	if n.storage != nil {
		need.Storage = one(q.Storage, r.Storage, n.Ratios.Storage)
	}
	if n.state != nil {
		need.State = one(q.State, r.State, n.Ratios.State)
	}
	return need
}

// reserve puts an instance at its place.
func (i *instance) reserve(at *runtime) {
	n := at.node
	i.at, i.reserved, i.platform = at, i.reserves(n), i.platformOn(at)
	i.account(-1)
	for _, p := range i.ports {
		n.ports[p] = i
	}
	for _, s := range i.shares(n) {
		s.holders = append(s.holders, i)
	}
	n.instances = append(n.instances, i)
}

// release takes an instance from its place.
func (i *instance) release() {
	n, self := i.at.node, func(o *instance) bool { return o == i }
	i.account(1)
	for _, p := range i.ports {
		delete(n.ports, p)
	}
	for _, s := range i.shares(n) {
		s.holders = slices.DeleteFunc(s.holders, self)
	}
	n.instances = slices.DeleteFunc(n.instances, self)
	i.at = nil
}

// account takes what an instance reserves from what is left of its place, or gives it back.
func (i *instance) account(sign int) {
	n, s := i.at.node, int64(sign)
	n.free.CPU += s * i.reserved.CPU
	n.free.RAM += s * i.reserved.RAM
	if n.storage != nil {
		n.storage.free += s * i.reserved.Storage
	}
	if n.state != nil {
		n.state.free += s * i.reserved.State
	}
	if i.at.CPU != nil {
		i.at.free.CPU += s * i.reserved.CPU
	}
	if i.at.RAM != nil {
		i.at.free.RAM += s * i.reserved.RAM
	}
	if i.Meta.Type == items.Service {
		i.at.services -= sign
	}
	for _, v := range i.shares(n) {
		if v.left >= 0 {
			v.left += sign
		}
	}
}

// shares are those of a node's resources and devices that an instance takes.
func (i *instance) shares(n *node) (all []*share) {
	for _, name := range i.resources {
		all = append(all, of(n.resources, name))
	}
	for _, name := range i.devices {
		all = append(all, of(n.devices, name))
	}
	return all
}

// PlatformOf is the first platform that a runtime runs; nil: none will do, or there are none.
func PlatformOf(all []items.Platform, r *items.Runtime) *items.Platform {
	return first(all, &runtime{Runtime: r})
}

// platformOn is the first platform of an item that a runtime runs; nil: it is built for any, or none will do.
func (c *candidate) platformOn(r *runtime) *items.Platform { return first(c.Meta.Platforms, r) }

func first(all []items.Platform, r *runtime) *items.Platform {
	for i := range all {
		if p := &all[i]; runs(r, p) {
			return p
		}
	}
	return nil
}

// runs reports whether a runtime runs what is built for a platform.
func runs(r *runtime, p *items.Platform) bool {
	same := func(wanted, has string) bool { return wanted == "" || wanted == has }
	return p.Architecture == r.Architecture && same(p.Variant, r.Variant) && same(p.OS, r.OS) &&
		!slices.ContainsFunc(p.OSFeatures, func(f string) bool { return !slices.Contains(r.OSFeatures, f) })
}
