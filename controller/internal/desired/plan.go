package desired

import (
	"cmp"
	"slices"

	"tandem.internal/shared/items"
)

// plan writes down what was decided, and what is to be done for it.
func (w *world) plan() *Plan {
	p := &Plan{Nodes: make([]NodePlan, len(w.nodes)), Reasons: sortReasons(w.reasons)}
	index := make(map[string]int, len(w.nodes))
	claimed := make([]bool, len(w.in.Current.Instances))
	for k, n := range w.nodes {
		index[n.Info.Node] = k
		np := &p.Nodes[k]
		np.Node = n.Info.Node
		slices.SortFunc(n.instances, byName)
		np.Instances = make([]Placed, 0, len(n.instances))
		for _, i := range n.instances {
			np.Instances = append(np.Instances, i.view())
			np.Changes = i.change(np.Changes, &p.Changes)
			if i.runs != nil {
				claimed[i.now] = true
			}
		}
		np.Layers = n.layers()
		for _, l := range np.Layers {
			if !w.has[items.InstalledLayer{Node: np.Node, Codename: l.Codename, Version: l.Version}] {
				p.Changes.Fetch++
				np.Changes = append(np.Changes, Change{Do: Fetch, Type: items.Layer, Codename: l.Codename,
					Version: l.Version})
			}
		}
	}
	w.moved(p, index)
	for i := range w.in.Current.Instances {
		c := &w.in.Current.Instances[i]
		if k, known := index[c.Node]; known && !claimed[i] {
			p.Changes.Stop++
			p.Nodes[k].Changes = append(p.Nodes[k].Changes, stop(c))
		}
	}
	for l := range w.has {
		k, known := index[l.Node]
		if !known || slices.ContainsFunc(p.Nodes[k].Layers, func(o PlacedLayer) bool {
			return o.Codename == l.Codename && o.Version == l.Version
		}) {
			continue
		}
		p.Changes.Remove++
		p.Nodes[k].Changes = append(p.Nodes[k].Changes, Change{Do: Remove, Type: items.Layer, Codename: l.Codename,
			Version: l.Version})
	}
	for k := range p.Nodes {
		slices.SortFunc(p.Nodes[k].Changes, byWork)
	}
	return p
}

// byName sorts the instances of a node: components, then services.
func byName(a, b *instance) int {
	return cmp.Or(a.name-b.name, a.index-b.index, cmp.Compare(a.at.ID, b.at.ID))
}

// byWork sorts changes: by item, then what is done.
func byWork(a, b Change) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Codename, b.Codename), cmp.Compare(a.Subject, b.Subject),
		cmp.Compare(a.Index, b.Index), cmp.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Do, b.Do))
}

func (i *instance) view() Placed {
	p := Placed{Type: i.Meta.Type, Codename: i.Meta.Codename, Version: i.Meta.Version, Digest: i.Digest,
		Subject: i.subject.Codename, Index: i.index, Runtime: i.at.ID, Platform: i.platform,
		Priority: i.Meta.Priority, CPU: i.reserved.CPU, RAM: i.reserved.RAM, Storage: i.reserved.Storage,
		State: i.reserved.State, Env: i.env, EnvDigest: i.envDigest, Chosen: i.chosen}
	if i.chosen == ByRelief {
		p.Relieves = &i.move.Because
	}
	return p
}

// change adds what is to be done for an instance.
func (i *instance) change(all []Change, counts *Counts) []Change {
	c := Change{Type: i.Meta.Type, Codename: i.Meta.Codename, Version: i.Meta.Version, Subject: i.subject.Codename,
		Index: i.index, Runtime: i.at.ID}
	switch now := i.runs; {
	case now == nil:
		c.Do = Start
		counts.Start++
	case now.Node != i.at.node.Info.Node:
		c.Do, c.From, c.FromNode = Move, now.Version, now.Node
		counts.Move++
	case now.Runtime != i.at.ID:
		c.Do, c.From, c.FromNode = Move, now.Version, now.Node
		counts.Move++
	case now.Version != i.Meta.Version, now.EnvDigest != i.envDigest:
		c.Do, c.From, c.Env = Update, now.Version, now.EnvDigest != i.envDigest
		counts.Update++
	default:
		counts.Keep++
		return all
	}
	return append(all, c)
}

// moved adds to each node what stops there because it runs elsewhere from now on.
func (w *world) moved(p *Plan, index map[string]int) {
	for _, i := range w.placed {
		to := i.at.node.Info.Node
		if i.runs == nil || i.runs.Node == to {
			continue
		}
		if k, known := index[i.runs.Node]; known {
			c := stop(i.runs)
			c.ToNode = to
			p.Nodes[k].Changes = append(p.Nodes[k].Changes, c)
		}
	}
}

func stop(i *items.Instance) Change {
	return Change{Do: Stop, Type: i.Type, Codename: i.Codename, Version: i.Version, Subject: i.Subject, Index: i.Index,
		Runtime: i.Runtime}
}

// layers are those that the instances of a node need.
func (n *node) layers() (all []PlacedLayer) {
	needed := map[*version][]string{}
	for _, i := range n.instances {
		if len(i.candidate.layers) == 0 {
			continue
		}
		item := i.ref().String() + " " + i.Meta.Version
		for _, l := range i.candidate.layers {
			if !slices.Contains(needed[l], item) {
				needed[l] = append(needed[l], item)
			}
		}
	}
	for v, by := range needed {
		slices.Sort(by)
		all = append(all, PlacedLayer{v.Meta.Codename, v.Meta.Version, v.Digest, by})
	}
	slices.SortFunc(all, func(a, b PlacedLayer) int {
		return cmp.Or(cmp.Compare(a.Codename, b.Codename), cmp.Compare(a.Version, b.Version))
	})
	return all
}
