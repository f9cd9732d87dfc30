package desired

import (
	"cmp"
	"slices"

	"tandem.internal/shared/items"
)

// inOrder sorts instances as they are placed: by priority, the highest first; item, version, subject and index.
func inOrder(a, b *instance) int { return cmp.Or(a.turn-b.turn, a.index-b.index) }

// order gives candidates their places in the orders of placement and of names.
func (w *world) order() {
	names := func(a, b *candidate) int {
		return cmp.Or(compareRefs(a.ref(), b.ref()), cmp.Compare(a.subject.Codename, b.subject.Codename))
	}
	turns := slices.SortedFunc(slices.Values(w.candidates), func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.Meta.Priority, a.Meta.Priority), compareRefs(a.ref(), b.ref()),
			a.number.Compare(b.number), names(a, b))
	})
	for i, c := range turns {
		c.turn = i
	}
	for i, c := range slices.SortedFunc(slices.Values(w.candidates), names) {
		c.name = i
	}
}

// place finds a place for each instance. First those that run stay where they may; what is left of the nodes is for
// the others.
func (w *world) place() {
	w.order()
	var services []*instance
	live := w.live()
	slices.SortFunc(live, func(a, b *candidate) int { return a.name - b.name })
	for _, c := range live {
		if c.Meta.Type == items.Component {
			w.component(c)
			continue
		}
		for index := range c.att.Instances {
			i := w.newInstance(c)
			i.index = index
			if w.refusedInstance(i) {
				continue
			}
			services = append(services, i)
		}
	}
	slices.SortFunc(services, inOrder)
	rest := services[:0]
	for _, i := range services {
		if !w.stays(i) {
			rest = append(rest, i)
		}
	}
	for _, i := range w.placed {
		if i.Meta.Type == items.Service {
			w.leave(i)
		}
	}
	for k := 0; k < len(rest); k++ { // grows by those that make room
		i := rest[k]
		if i.kept {
			w.reasons = append(w.reasons, i.reason(Deprecated))
			continue
		}
		if w.arrive(i) || w.find(i) {
			continue
		}
		if gone := w.makeRoom(i); gone != nil {
			for _, v := range gone { // in their turn, which has not come yet
				at, _ := slices.BinarySearchFunc(rest[k+1:], v, inOrder)
				rest = slices.Insert(rest, k+1+at, v)
			}
			continue
		}
		w.reasons = append(w.reasons, w.unplaced(i, w.nodes))
	}
}

// reason is a Reason about an instance.
func (i *instance) reason(code Code) Reason {
	r := i.candidate.reason(code)
	if i.Meta.Type == items.Service {
		r.Index = &i.index
	}
	return r
}

// stays leaves an instance where it runs, if the place passes all filters. If it runs at several places, as when a node
// comes back whose instances were moved, it is the first that does; where the version is right goes before the others.
func (w *world) stays(i *instance) bool {
	all := slices.Clone(w.runs[serviceKey{i.Meta.Codename, i.subject.Codename, i.index}])
	right := func(at int) bool { return w.in.Current.Instances[at].Version == i.Meta.Version }
	if i.kept {
		all = slices.DeleteFunc(all, func(at int) bool { return !right(at) })
	}
	m := w.moveOf(i)
	rank := func(at int) int {
		switch {
		case m != nil && w.in.Current.Instances[at].Node == m.To:
			return 0
		case right(at):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b int) int { return rank(a) - rank(b) })
	for _, at := range all {
		if i.runs, i.now = &w.in.Current.Instances[at], at; w.staysAt(i) {
			return true
		}
	}
	if len(all) > 0 {
		i.runs, i.now = &w.in.Current.Instances[all[0]], all[0]
	}
	return false
}

// staysAt leaves an instance at the place where it is said to run, if that passes all filters.
func (w *world) staysAt(i *instance) bool {
	n := w.byNode[i.runs.Node]
	if n == nil || w.onNode(i.candidate, n, true).filter != "" {
		return false
	}
	for _, r := range n.runtimes {
		if r.ID == i.runs.Runtime && w.inRuntime(i.candidate, r).filter == "" {
			w.put(i, r, ByStaying)
			return true
		}
	}
	return false
}

func (w *world) put(i *instance, r *runtime, why Choice) {
	i.reserve(r)
	i.chosen = why
	w.placed = append(w.placed, i)
}

// find puts an instance where all filters pass.
func (w *world) find(i *instance) bool {
	best, why := w.search(i, w.nodes)
	if best == nil {
		return false
	}
	w.put(i, best, why)
	return true
}

// search finds a place among some nodes where all filters pass: on a node of the highest priority, where the most CPU
// is free, then RAM; of equals the first.
func (w *world) search(i *instance, nodes []*node) (best *runtime, why Choice) {
	var has items.Amounts
	why = ByBeing
	for _, n := range nodes {
		if best != nil && n.Priority < best.node.Priority && why != ByBeing {
			continue // it would be no better, and say no more
		}
		if w.onNode(i.candidate, n, false).filter != "" {
			continue
		}
		for _, r := range n.runtimes {
			if w.inRuntime(i.candidate, r).filter != "" {
				continue
			}
			if best == nil {
				best, has = r, r.left()
				continue
			}
			left := r.left()
			order, by := compareLeft(n.Priority, best.node.Priority, left, has)
			if order < 0 {
				best, has = r, left
			}
			why = weakest(why, by, order < 0)
		}
	}
	return best, why
}

// compareLeft is below 0 if the first place is better than the second, and says what makes the difference.
func compareLeft(priority, other int, left, has items.Amounts) (int, Choice) {
	if order := cmp.Compare(other, priority); order != 0 {
		return order, ByPriority
	}
	if order := cmp.Compare(has.CPU, left.CPU); order != 0 {
		return order, ByCPU
	}
	if order := cmp.Compare(has.RAM, left.RAM); order != 0 {
		return order, ByRAM
	}
	return 0, ByID
}

// weakest keeps what decided against the nearest of all other places. A new best leaves the one before it as the
// nearest.
func weakest(why, by Choice, better bool) Choice {
	order := []Choice{ByBeing, ByPriority, ByCPU, ByRAM, ByID}
	if better || slices.Index(order, by) > slices.Index(order, why) {
		return by
	}
	return why
}

// component puts a component on the nodes that it has: in every runtime that will do.
func (w *world) component(c *candidate) {
	some, refused := false, false
	var misfit Reason
	for _, n := range c.on {
		for _, r := range n.runtimes {
			if w.inRuntime(c, r).filter != "" {
				continue
			}
			at := misfitKey{c.ref(), c.Meta.Version, c.subject.Codename, 0, n.Info.Node, r.ID}
			if why := w.misfits[at]; why != "" {
				nodes := misfit.Nodes
				misfit = c.reason(Refused)
				misfit.About, misfit.Nodes = why, nodes+1
				continue
			}
			i := w.newInstance(c)
			for _, at := range n.components {
				if now := &w.in.Current.Instances[at]; now.Codename == c.Meta.Codename && now.Runtime == r.ID {
					i.runs, i.now = now, at
				}
			}
			staying := i.runs != nil
			switch v := w.onNode(c, n, staying); {
			case v.filter != "":
				refused = refused || v.filter != OfLabels
			case c.kept && (!staying || i.runs.Version != c.Meta.Version):
				refused = true
			default:
				some = true
				w.put(i, r, ByNode)
			}
		}
	}
	if len(c.on) == 0 && len(c.subject.nodes) > 0 {
		return // it is outranked on all of them
	}
	if misfit.Reason != "" {
		w.reasons = append(w.reasons, misfit)
	}
	if !some && misfit.Reason == "" || refused {
		code := Unplaced
		r := w.unplaced(&instance{candidate: c}, c.on)
		if len(r.Refusals) == 0 && c.kept {
			code, r = Deprecated, c.reason(Deprecated)
		}
		r.Reason = code
		w.reasons = append(w.reasons, r)
	}
}

// unplaced says why no place among some nodes will do.
func (w *world) unplaced(i *instance, nodes []*node) Reason {
	r := i.reason(Unplaced)
	if i.victim != nil {
		by := i.victim.party()
		r.By = &by
	}
	counts := make(map[Filter]int, len(filters))
	var all []Refusal
	note := func(v verdict, n *node, rt *runtime) {
		counts[v.filter]++
		if slices.Index(filters, v.filter) > slices.Index(filters, r.Emptied) {
			r.Emptied = v.filter
		}
		all = append(all, Refusal{Filter: v.filter, Node: n.Info.Node})
		last := &all[len(all)-1]
		if rt != nil {
			last.Runtime = rt.ID
		}
	}
	for _, n := range nodes {
		staying := i.runs != nil && i.runs.Node == n.Info.Node
		if i.Meta.Type == items.Component && w.isOn(i.candidate, n) {
			continue
		}
		if v := w.onNode(i.candidate, n, staying); v.filter != "" {
			note(v, n, nil)
			continue
		}
		for _, rt := range n.runtimes {
			if v := w.inRuntime(i.candidate, rt); v.filter != "" {
				note(v, n, rt)
			}
		}
		if len(n.runtimes) == 0 {
			note(verdict{filter: OfRuntime}, n, nil)
		}
	}
	slices.SortStableFunc(all, func(a, b Refusal) int {
		return cmp.Compare(slices.Index(filters, b.Filter), slices.Index(filters, a.Filter))
	})
	for _, f := range all[:min(len(all), mostRefusals)] {
		r.Refusals = append(r.Refusals, w.detail(i, f))
	}
	for _, f := range filters {
		if counts[f] > 0 {
			r.Counts = append(r.Counts, Count{f, counts[f]})
		}
	}
	return r
}

// isOn reports whether a component is placed on a node.
func (w *world) isOn(c *candidate, n *node) bool {
	return slices.ContainsFunc(n.instances, func(i *instance) bool { return i.candidate == c })
}

// detail is a refusal with all that is known.
func (w *world) detail(i *instance, f Refusal) Refusal {
	n := w.byNode[f.Node]
	staying := i.runs != nil && i.runs.Node == n.Info.Node
	for _, rt := range n.runtimes {
		if f.Runtime != "" && rt.ID == f.Runtime {
			return i.refusal(w.inRuntime(i.candidate, rt), n, rt)
		}
	}
	v := w.onNode(i.candidate, n, staying)
	if v.filter == "" {
		v = verdict{filter: f.Filter}
	}
	return i.refusal(v, n, nil)
}
