// Package unitstatus assembles what a unit says of itself to the cloud side, in the order of seed 001 (UnitStatus
// message sequence): all nodes as they tell of themselves; components and services of subjects that are no node
// types; those of node types; and the rest. When it is said is a Batch's matter.
//
//tandem:pure
package unitstatus

import (
	"cmp"
	"maps"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/components"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Wanted is what is known of the desired status that the unit follows; the zero value: it follows none.
type Wanted struct {
	CorrelationID string
	Subjects      []items.Subject            // beside those of the unit's own
	States        map[string]items.NodeState // of nodes, as they were set
	Failures      []Failure                  // what is desired, and cannot be there
}

// Failure is why an item, or an instance of it, is not there.
type Failure struct {
	Ref     items.Ref
	ID      string // UUID of an item whose name is not known; "": it is
	Version string // "": none was chosen
	Subject string // "": it is about the item
	Index   int    // of an instance
	Error   *wire.Error
}

// String is the failure in words.
func (f *Failure) String() string {
	text := string(f.Ref.Type) + " " + cmp.Or(f.Ref.Codename, f.ID)
	if f.Version != "" {
		text += " " + f.Version
	}
	if f.Subject != "" {
		text += " of " + f.Subject
	}
	return text + ": " + f.Error.Error()
}

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

// Assemble says how a unit is.
func (u *Unit) Assemble(w *Wanted) *cloud.UnitStatus {
	a := &assembly{Unit: u, w: w, ids: map[items.Ref]string{}, nodeTypes: map[string]bool{}, at: map[version]int{},
		groups: map[group]int{}, items: []cloud.Item{}, instances: []cloud.Instances{}}
	s := &cloud.UnitStatus{MessageType: cloud.TypeUnitStatus, CorrelationID: w.CorrelationID, UnitConfig: a.config()}
	stock := u.Content(kinditems.KindItems)
	for _, it := range kinditems.ItemsOf(stock) {
		a.ids[it.Meta.Ref()] = it.ID
	}
	for _, all := range [][]items.Subject{kinditems.SubjectsOf(u.Content(kinditems.KindSubjects)), w.Subjects} {
		for i := range all {
			a.nodeTypes[all[i].Codename] = all[i].Type == items.NodeType
		}
	}
	s.Nodes, s.Subjects = a.nodes()
	a.running()
	a.layers()
	a.failures()
	s.Items, s.Instances = a.items, a.instances
	return s
}

// assembly is a status under way.
type assembly struct {
	*Unit
	w         *Wanted
	ids       map[items.Ref]string // UUIDs of items
	nodeTypes map[string]bool      // subjects that are
	slots     map[string]*view.Slot
	byNode    map[string][]*view.Slot

	items     []cloud.Item
	instances []cloud.Instances
	at        map[version]int // of items
	groups    map[group]int   // of instances
}

type version struct {
	items.Ref
	version string
	id      string // UUID of an item whose name is not known
}

type group struct {
	version
	subject string
}

// config is the unit configuration that is in force, and the one that was refused or has failed.
func (a *assembly) config() []cloud.ConfigState {
	st := a.Unit.config
	all := []cloud.ConfigState{{Version: st.Version, State: cmp.Or(st.State, kind.Absent),
		ErrorInfo: cloud.ErrorOf(st.Error)}}
	if t := st.Attempted; t != nil {
		all = append(all, cloud.ConfigState{Version: t.Version, State: kind.Failed, ErrorInfo: cloud.ErrorOf(t.Error)})
	}
	return all
}

// nodes are those of the unit, by name, with those to which a state was set though there are none, and the subjects
// that they report.
func (a *assembly) nodes() ([]cloud.Node, []cloud.Identity) {
	all, subjects, unknown := []cloud.Node{}, map[string]bool{}, maps.Clone(a.w.States)
	a.Each(wire.KindWorkloads, func(n kind.Node) {
		if n.Revoked {
			return
		}
		delete(unknown, n.Name)
		all = append(all, a.node(&n))
		if n.Info != nil {
			for _, s := range n.Info.Subjects {
				subjects[s] = true
			}
		}
	})
	for name := range unknown {
		all = append(all, cloud.Node{Identity: cloud.Identity{Codename: name}, State: cloud.NodeError,
			ErrorInfo: cloud.ErrorOf(wire.New(wire.CodeNotFound, "", "the unit has no such node"))})
	}
	slices.SortFunc(all, func(x, y cloud.Node) int { return cmp.Compare(x.Identity.Codename, y.Identity.Codename) })
	names := []cloud.Identity{}
	for s := range subjects {
		names = append(names, cloud.Identity{Codename: s})
	}
	slices.SortFunc(names, func(x, y cloud.Identity) int { return cmp.Compare(x.Codename, y.Codename) })
	return all, names
}

// node is a node as it tells of itself.
func (a *assembly) node(n *kind.Node) cloud.Node {
	v := cloud.Node{Identity: cloud.Identity{Codename: n.Name}, IsConnected: n.Up,
		State: cmp.Or(string(a.w.States[n.Name]), cloud.NodeProvisioned)}
	i := n.Info
	if i == nil {
		return v
	}
	if i.Type != "" {
		v.NodeGroupSubject = &cloud.Identity{Codename: i.Type}
	}
	if v.ErrorInfo = cloud.ErrorOf(i.Error); i.Error != nil {
		v.State = cloud.NodeError
	}
	v.MaxDmips, v.TotalRAM, v.Attrs = i.CPU, i.RAM, i.Attributes
	v.OSInfo = osOf(i.OS, nil)
	if i.CPUs > 0 {
		v.CPUs = []cloud.CPU{{TotalNumCores: i.CPUs, ArchInfo: cloud.ArchInfo{Architecture: i.Arch}}}
	}
	for _, p := range i.Partitions {
		v.Partitions = append(v.Partitions, cloud.Partition{Name: p.Name, Path: p.Path, Types: p.Types,
			TotalSize: p.Size})
	}
	for j := range i.Runtimes {
		r := &i.Runtimes[j]
		v.Runtimes = append(v.Runtimes, cloud.Runtime{Identity: cloud.Identity{Codename: r.ID}, RuntimeType: r.Type,
			ArchInfo: cloud.ArchInfo{Architecture: r.Architecture, Variant: r.Variant},
			OSInfo:   osOf(r.OS, r.OSFeatures), AllowedDmips: r.CPU, AllowedRAM: r.RAM, MaxInstances: r.MaxInstances})
	}
	v.Resources, v.Devices = shared(i.Resources), shared(i.Devices)
	return v
}

func osOf(name string, features []string) *cloud.OSInfo {
	if name == "" && len(features) == 0 {
		return nil
	}
	return &cloud.OSInfo{OS: name, Features: features}
}

func shared(all []wire.Shared) (list []cloud.Resource) {
	for _, s := range all {
		list = append(list, cloud.Resource{Name: s.Name, SharedCount: s.Shared})
	}
	return list
}

// identity names an item.
func (a *assembly) identity(v version) cloud.Identity {
	id := cloud.Identity{ID: cmp.Or(v.id, a.ids[v.Ref]), Type: string(v.Type), Codename: v.Codename}
	if id.ID != "" {
		id.URN = (&kinditems.Item{ID: id.ID}).URN()
	}
	return id
}

// placed is an instance that should be somewhere, and its slot if it is of a service.
type placed struct {
	items.Instance
	slot string
}

// running adds components and services, in the order of the seed.
func (a *assembly) running() {
	var all []placed
	list, _ := a.Content(wire.KindComponents).(*components.Placement)
	for _, i := range list.Current() {
		all = append(all, placed{i, ""})
	}
	set, _ := a.Content(wire.KindWorkloads).(*workloads.Placement)
	for slot, i := range set.Instances() {
		all = append(all, placed{i, slot})
	}
	rank := func(p *placed) int { // which loop of the seed's it is part of
		switch ofType := a.nodeTypes[p.Subject]; {
		case ofType && p.Type == items.Service:
			return 3
		case ofType:
			return 2
		case p.Type == items.Service:
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(x, y placed) int {
		return cmp.Or(rank(&x)-rank(&y), cmp.Compare(x.Codename, y.Codename), cmp.Compare(x.Version, y.Version),
			cmp.Compare(x.Subject, y.Subject), cmp.Compare(x.Index, y.Index), cmp.Compare(x.Node, y.Node),
			cmp.Compare(x.Runtime, y.Runtime))
	})
	a.look()
	for i := range all {
		p := &all[i]
		item, state, info := a.service(p)
		if p.Type == items.Component {
			item, state, info = a.component(&p.Instance)
		}
		v := version{p.Ref(), p.Version, ""}
		a.note(v, item, info)
		a.add(group{v, p.Subject}, cloud.Instance{Node: &cloud.Identity{Codename: p.Node},
			Runtime: &cloud.Identity{Codename: p.Runtime}, Instance: p.Index, State: state, ErrorInfo: info})
	}
}

// look reads what nodes tell of their slots.
func (a *assembly) look() {
	a.slots, a.byNode = map[string]*view.Slot{}, map[string][]*view.Slot{}
	known := workloads.Slots(a.Unit, "")
	for i := range known {
		s := &known[i]
		a.slots[s.Slot] = s
		a.byNode[s.Node] = append(a.byNode[s.Node], s)
	}
}

// add adds an instance to those of its item, version and subject.
func (a *assembly) add(g group, i cloud.Instance) {
	at, known := a.groups[g]
	if !known {
		at = len(a.instances)
		a.groups[g] = at
		a.instances = append(a.instances, cloud.Instances{Item: a.identity(g.version),
			Subject: cloud.Identity{Codename: g.subject}, Version: g.version.version})
	}
	a.instances[at].Instances = append(a.instances[at].Instances, i)
}

// ranks orders the states of an item: what holds for one of its nodes hides what comes after it.
var ranks = []cloud.ItemState{cloud.ItemFailed, cloud.ItemDownloading, cloud.ItemInstalling, cloud.ItemPending,
	cloud.ItemInstalled}

// note says how a version is on one more node. The error counts if it has failed there.
func (a *assembly) note(v version, state cloud.ItemState, info *cloud.ErrorInfo) {
	at, known := a.at[v]
	if !known {
		at = len(a.items)
		a.at[v] = at
		a.items = append(a.items, cloud.Item{Item: a.identity(v), Version: v.version, State: cloud.ItemInstalled})
	}
	it := &a.items[at]
	if slices.Index(ranks, state) < slices.Index(ranks, it.State) {
		it.State = state
		if state == cloud.ItemFailed {
			it.ErrorInfo = info
		}
	}
}

// failures adds what is desired and not there.
func (a *assembly) failures() {
	for i := range a.w.Failures {
		f := &a.w.Failures[i]
		v, info := version{f.Ref, f.Version, f.ID}, cloud.ErrorOf(f.Error)
		if f.Subject != "" {
			a.add(group{v, f.Subject}, cloud.Instance{Instance: f.Index, State: cloud.InstanceFailed, ErrorInfo: info})
			if _, known := a.at[v]; known {
				continue // it is there for somebody, or is told of already
			}
		}
		a.note(v, cloud.ItemFailed, info)
	}
}
