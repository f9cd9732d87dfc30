// Package steer is between the unit and what decides what should run where: it makes the input of a decision of package
// desired from what the unit has, and of a plan the set of workloads that nodes get.
//
//tandem:pure
package steer

import (
	"math"
	"slices"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/components"
	"tandem.internal/controller/internal/kinds/config"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/kinds/workloads"
	"tandem.internal/controller/internal/rebalance"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/items"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
)

// Unit is what is decided about.
type Unit struct {
	desired.Input
	// Find returns a version of an item with its files; nil: there is none.
	Find   func(ref items.Ref, version string) *kinditems.Version
	infos  map[string]*wire.NodeInfo // of the nodes of Input
	byName map[string]*items.Node

	decided   rebalance.Durable // moves
	installed string            // hash of the set of workloads
	load      items.Load        // of nodes that are online
	away      []string          // nodes that are not

	// what bar has found, by item and runtime
	bars    map[barKey]*barred
	classes map[*items.Runtime]int    // of runtimes for which it is the same
	classOf map[string]int            // by what it depends on
	demands map[string][]publisher.ID // of nodes: of which one has to have signed all files
}

// Look reads the unit as it is now. What runs is what the newest set of workloads says: what it names stays where it
// is, also if the node has not got it yet. Nodes that were revoked, or have never told what they are, take no part.
func Look(u kind.Unit, now time.Time) *Unit {
	stock := u.Content(kinditems.KindItems)
	v := &Unit{infos: map[string]*wire.NodeInfo{},
		Find: func(ref items.Ref, version string) *kinditems.Version { return kinditems.Find(stock, ref, version) }}
	v.Items = v.withRuntimes(kinditems.ItemsOf(stock))
	v.Subjects = kinditems.SubjectsOf(u.Content(kinditems.KindSubjects))
	if set, ok := u.Content(wire.KindWorkloads).(*workloads.Placement); ok {
		v.Current = set.Current()
	}
	if list, ok := u.Content(wire.KindComponents).(*components.Placement); ok {
		v.Current.Instances = append(v.Current.Instances, list.Current()...)
	}
	units := u.Content(wire.KindConfig)
	v.byName = map[string]*items.Node{}
	u.Each(wire.KindWorkloads, func(n kind.Node) {
		if n.Revoked || n.Info == nil {
			return
		}
		v.infos[n.Name] = n.Info
		node := describe(&n, now)
		v.byName[n.Name] = node
		v.Nodes = append(v.Nodes, desired.NodeOf(node, config.Of(units, n.Name, n.Type())))
	})
	v.lookAtLoad(u, now)
	return v
}

// inRange reports whether a version is one that a dependency is about.
func inRange(d *items.Dependency, version string) bool {
	v, err := items.ParseVersion(version)
	return err == nil && d.Versions.Has(v, d.IncludePreRelease)
}

// withRuntimes are items in which each service says which runtimes it needs: who does not say is a process, or, of an
// image, a container.
func (u *Unit) withRuntimes(all []items.Item) []items.Item {
	silent := func(it items.Item) bool { return it.Meta.Type == items.Service && len(it.Meta.Runtimes) == 0 }
	if !slices.ContainsFunc(all, silent) {
		return all
	}
	all = slices.Clone(all)
	for i := range all {
		if silent(all[i]) {
			all[i].Meta.Runtimes = u.runtimesOf(&all[i].Meta)
		}
	}
	return all
}

// describe is what a node tells of itself, as package items has it.
func describe(n *kind.Node, now time.Time) *items.Node {
	info := n.Info
	t := &items.Node{Node: n.Name, Type: info.Type, State: items.Provisioned, CPU: info.CPU, RAM: int64(info.RAM),
		Resources: shared(info.Resources), Devices: shared(info.Devices), Subjects: info.Subjects}
	if info.Error != nil {
		t.State = items.Failed
	}
	if !n.Up {
		t.OfflineFor = duration.Duration(max(now.Sub(n.Since), time.Second))
	}
	for _, p := range info.Partitions {
		if len(p.Types) > 0 {
			t.Partitions = append(t.Partitions, items.Partition{Name: p.Name, Types: p.Types,
				TotalSize: int64(min(p.Size, math.MaxInt64))})
		}
	}
	parts := 0 // runtimes that are components
	for i := range info.Runtimes {
		r := &info.Runtimes[i]
		own := ofServices(r.ID)
		if own != ofServices(r.Type) || own && r.ID != r.Type || !wire.ValidName(r.ID) ||
			!own && parts == wire.MaxComponents {
			continue // nothing can be put there: no node keeps others from what was decided for them
		}
		if !own {
			parts++
		}
		t.Runtimes = append(t.Runtimes, items.Runtime{ID: r.ID, Type: r.Type, Architecture: r.Architecture,
			Variant: r.Variant, OS: r.OS, OSFeatures: r.OSFeatures, CPU: r.CPU, RAM: r.RAM,
			MaxInstances: r.MaxInstances})
	}
	return t
}

func shared(all []wire.Shared) []items.Resource {
	list := make([]items.Resource, 0, len(all))
	for _, s := range all {
		list = append(list, items.Resource{Name: s.Name, Shared: s.Shared})
	}
	return list
}

// runtime is a runtime of a node.
func (u *Unit) runtime(node, id string) *items.Runtime {
	n := u.node(node)
	return &n.Runtimes[slices.IndexFunc(n.Runtimes, func(r items.Runtime) bool { return r.ID == id })]
}

// node is a node of the input.
func (u *Unit) node(name string) *items.Node { return u.byName[name] }
