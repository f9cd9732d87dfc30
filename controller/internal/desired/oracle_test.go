package desired_test

import (
	"fmt"
	"slices"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
)

// oracle judges a plan by the rules in the document, without any of the code that made it.
type oracle struct {
	in    *desired.Input
	plan  *desired.Plan
	live  []desired.Live
	wrong []string
}

func newOracle(in *desired.Input, p *desired.Plan) *oracle {
	return &oracle{in: in, plan: p, live: desired.LiveOf(p)}
}

func (o *oracle) bad(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

func (o *oracle) find(typ items.Type, name, version string) *items.Item {
	for i := range o.in.Items {
		if m := &o.in.Items[i].Meta; m.Type == typ && m.Codename == name && m.Version == version {
			return &o.in.Items[i]
		}
	}
	return nil
}

func (o *oracle) node(id string) *desired.Node {
	for i := range o.in.Nodes {
		if o.in.Nodes[i].Info.Node == id {
			return &o.in.Nodes[i]
		}
	}
	return nil
}

func (o *oracle) subject(name string) *items.Subject {
	for i := range o.in.Subjects {
		if o.in.Subjects[i].Codename == name {
			return &o.in.Subjects[i]
		}
	}
	return nil
}

func (o *oracle) layersFor(name, version, subject string) []*items.Item {
	for _, l := range o.live {
		if l.Item.Meta.Codename == name && l.Item.Meta.Version == version && l.Subject == subject {
			return l.Layers
		}
	}
	return nil
}

// want is an instance that is somewhere or may go there.
type want struct {
	meta    *items.Meta
	subject *items.Subject
	index   int
	node    *desired.Node
	runtime *items.Runtime
	stays   bool
}

// fits says what is wrong with a place, apart from what others have there; "": nothing.
func (o *oracle) fits(w want) string {
	n, m := w.node.Info, w.meta
	switch {
	case n.State == items.Unprovisioned:
		return "unprovisioned"
	case n.State != items.Provisioned && !w.stays:
		return "does not take part"
	case n.OfflineFor > 0 && !w.stays:
		return "offline"
	case n.OfflineFor > 0 && m.Type == items.Service && o.in.EvictAfter > 0 && n.OfflineFor.Std() > o.in.EvictAfter:
		return "offline for too long"
	case w.subject.Type == items.NodeType && n.Type != w.subject.Codename:
		return "not of the type"
	case w.subject.Type != items.NodeType && len(w.subject.Nodes) > 0 && !slices.Contains(w.subject.Nodes, n.Node):
		return "not attached"
	case len(m.Runtimes) > 0 && !slices.Contains(m.Runtimes, w.runtime.Type):
		return "another runtime"
	}
	for _, a := range w.subject.Items {
		if a.Type == m.Type && a.Codename == m.Codename {
			for _, l := range a.Labels {
				if !slices.Contains(w.node.Labels, l) {
					return "no label " + l
				}
			}
		}
	}
	built := append([]*items.Item{{Meta: *m}}, o.layersFor(m.Codename, m.Version, w.subject.Codename)...)
	for _, b := range built {
		ok := len(b.Meta.Platforms) == 0
		for _, p := range b.Meta.Platforms {
			ok = ok || p.Architecture == w.runtime.Architecture
		}
		if !ok {
			return "another platform"
		}
	}
	return ""
}

// reserve is what an instance reserves.
func reserve(quota, requested int64, ratio int) int64 {
	if requested != 0 {
		return min(quota, requested)
	}
	exact := quota * int64(ratio)
	whole := exact / 100
	if exact%100 >= 50 {
		whole++
	}
	return whole
}

// usage is what the services of a node have.
type usage struct {
	cpu, ram     int64
	disk         map[string]int64
	rtCPU, rtRAM map[string]int64
	count        map[string]int
	shares       map[string]int
	ports        map[items.Port]int
}

func (o *oracle) used(n *desired.NodePlan) usage {
	u := usage{rtCPU: map[string]int64{}, rtRAM: map[string]int64{}, count: map[string]int{}, shares: map[string]int{},
		ports: map[items.Port]int{}, disk: map[string]int64{}}
	for _, i := range n.Instances {
		if i.Type == items.Service {
			u.add(o.node(n.Node), &o.find(i.Type, i.Codename, i.Version).Meta, i.Runtime)
		}
	}
	return u
}

func (u *usage) add(n *desired.Node, m *items.Meta, runtime string) {
	cpu := reserve(m.Quotas.CPU, m.Requested.CPU, n.Ratios.CPU)
	ram := reserve(m.Quotas.RAM, m.Requested.RAM, n.Ratios.RAM)
	u.disk[items.ForStorage] += reserve(m.Quotas.Storage, m.Requested.Storage, n.Ratios.Storage)
	u.disk[items.ForState] += reserve(m.Quotas.State, m.Requested.State, n.Ratios.State)
	u.cpu, u.ram = u.cpu+cpu, u.ram+ram
	u.rtCPU[runtime] += cpu
	u.rtRAM[runtime] += ram
	u.count[runtime]++
	for _, r := range m.Resources {
		u.shares["resource "+r]++
	}
	for _, d := range m.Devices {
		u.shares["device "+d]++
	}
	for _, p := range m.Ports {
		u.ports[p]++
	}
}

// tooMuch says what a node does not have enough of; "": nothing.
func (u *usage) tooMuch(n *desired.Node) string {
	over := func(used, has int64) bool { return used > 0 && used > has }
	i := n.Info
	if over(u.cpu, i.CPU-i.Used.CPU) || over(u.ram, i.RAM-i.Used.RAM) {
		return "more than the node"
	}
	for _, p := range i.Partitions { // there is one of each type, or one of both
		var all, before int64
		for t, others := range map[string]int64{items.ForStorage: i.Used.Storage,
			items.ForState: i.Used.State} {
			if slices.Contains(p.Types, t) {
				all, before = all+u.disk[t], before+others
			}
		}
		if over(all, p.TotalSize-before) {
			return "more than the partition " + p.Name
		}
	}
	for _, r := range i.Runtimes {
		if r.CPU != nil && over(u.rtCPU[r.ID], *r.CPU) || r.RAM != nil && over(u.rtRAM[r.ID], *r.RAM) ||
			r.MaxInstances > 0 && u.count[r.ID] > r.MaxInstances {
			return "more than the runtime " + r.ID
		}
	}
	left := map[string]int{}
	for _, r := range i.Resources {
		left["resource "+r.Name] = r.Shared - 1
	}
	for _, d := range i.Devices {
		left["device "+d.Name] = d.Shared - 1
	}
	for name, used := range u.shares {
		if most, has := left[name]; !has || most >= 0 && used > most+1 {
			return "no share of " + name
		}
	}
	for p, used := range u.ports {
		if used > 1 {
			return "twice the port " + p.String()
		}
	}
	return ""
}

// ran reports whether an instance runs at a place now.
func (o *oracle) ran(i desired.Placed, node string) (version string, there bool) {
	for _, c := range o.in.Current.Instances {
		if c.Type == i.Type && c.Codename == i.Codename && c.Node == node && c.Runtime == i.Runtime &&
			(c.Type == items.Component || c.Subject == i.Subject && c.Index == i.Index) {
			return c.Version, true
		}
	}
	return "", false
}

// places lists what is wrong with the places of a plan.
func (o *oracle) places() []string {
	seen := map[string]bool{}
	for k := range o.plan.Nodes {
		np := &o.plan.Nodes[k]
		n := o.node(np.Node)
		for _, i := range np.Instances {
			it := o.find(i.Type, i.Codename, i.Version)
			id := fmt.Sprintf("%s/%s/%d", i.Codename, i.Subject, i.Index)
			if i.Type == items.Component {
				id = i.Codename + "/" + np.Node + "/" + i.Runtime
			}
			version, stays := o.ran(i, np.Node)
			at := slices.IndexFunc(n.Info.Runtimes, func(r items.Runtime) bool { return r.ID == i.Runtime })
			switch {
			case it == nil || at < 0 || seen[id]:
				o.bad("%s is not there, or twice", id)
				continue
			case it.State == items.Preparation, it.State == items.Deprecated && (!stays || version != i.Version):
				o.bad("%s is %s", id, it.State)
			}
			seen[id] = true
			if why := o.fits(want{&it.Meta, o.subject(i.Subject), i.Index, n, &n.Info.Runtimes[at], stays}); why != "" {
				o.bad("%s on %s: %s", id, np.Node, why)
			}
			if i.Type == items.Service {
				o.environment(&i, it)
			}
			for _, l := range o.layersFor(i.Codename, i.Version, i.Subject) {
				if !slices.ContainsFunc(np.Layers, func(p desired.PlacedLayer) bool {
					return p.Codename == l.Meta.Codename && p.Version == l.Meta.Version
				}) {
					o.bad("%s on %s lacks the layer %s %s", id, np.Node, l.Meta.Codename, l.Meta.Version)
				}
			}
		}
		for _, l := range np.Layers {
			if !slices.ContainsFunc(np.Instances, func(i desired.Placed) bool {
				return slices.ContainsFunc(o.layersFor(i.Codename, i.Version, i.Subject), func(n *items.Item) bool {
					return n.Meta.Codename == l.Codename && n.Meta.Version == l.Version
				})
			}) {
				o.bad("%s has the layer %s for nothing", np.Node, l.Codename)
			}
		}
		u := o.used(np)
		if why := u.tooMuch(n); why != "" {
			o.bad("%s: %s", np.Node, why)
		}
	}
	return o.wrong
}

// environment says what is wrong with the environment of an instance.
func (o *oracle) environment(i *desired.Placed, it *items.Item) {
	var over items.Env
	for _, a := range o.subject(i.Subject).Items {
		if a.Type == i.Type && a.Codename == i.Codename {
			over = a.Env
		}
	}
	seen, before := 0, ""
	for _, v := range i.Env {
		text, from, there := it.Meta.Env[v.Name], desired.OfMetadata, false
		if _, there = it.Meta.Env[v.Name]; there {
			seen++
		}
		if t, is := over[v.Name]; is {
			text, from, there = t, desired.OfSubject, true
		}
		if !there || v.Text != text || v.From != from || v.Name <= before {
			o.bad("%s of %s has the environment %+v", i.Codename, i.Subject, i.Env)
		}
		before = v.Name
	}
	for name := range over {
		if _, both := it.Meta.Env[name]; !both {
			seen++
		}
	}
	if seen != len(i.Env) || seen < len(it.Meta.Env) || (i.EnvDigest == "") != (seen == 0) {
		o.bad("%s of %s has the environment %+v and no other", i.Codename, i.Subject, i.Env)
	}
}

// placesFor lists the places that an instance could have after all.
func (o *oracle) placesFor(r desired.Reason) (all []string) {
	it := o.find(r.Type, r.Codename, r.Version)
	for k := range o.plan.Nodes {
		n := o.node(o.plan.Nodes[k].Node)
		for j := range n.Info.Runtimes {
			rt := &n.Info.Runtimes[j]
			if o.fits(want{&it.Meta, o.subject(r.Subject), *r.Index, n, rt, false}) != "" {
				continue
			}
			u := o.used(&o.plan.Nodes[k])
			before := u.tooMuch(n)
			u.add(n, &it.Meta, rt.ID)
			if before == "" && u.tooMuch(n) == "" {
				all = append(all, n.Info.Node+"/"+rt.ID)
			}
		}
	}
	return all
}
