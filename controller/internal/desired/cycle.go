package desired

import (
	"slices"

	"tandem.internal/shared/items"
)

// graph is who waits for whom among the owners of a closure.
type graph struct {
	owners []owner
	after  [][]int // whom each waits for, in their order
}

// cycles refuses candidates that wait for themselves, and those that need such a one or a layer that does. Order
// counts, too: before and after. Each is told the smallest cycle of those that it is in, or needs.
func (c *closure) cycles(refused map[*candidate]Reason) {
	g := c.graph()
	path := make([][]Party, len(g.owners)) // of a cycle
	for _, part := range g.components() {
		cycle := g.smallest(part)
		for _, i := range part {
			path[i] = cycle
		}
	}
	// who needs what is in a cycle is refused with it; needs are the edges that are not weak
	needs := c.needs(g.owners)
	for again := true; again; {
		again = false
		for i, targets := range needs {
			if path[i] != nil {
				continue
			}
			for _, all := range targets {
				in := slices.DeleteFunc(slices.Clone(all), func(t int) bool { return path[t] == nil })
				// of services in several versions one is enough
				if len(in) == len(all) || c.loops && len(in) > 0 {
					path[i], again = path[in[0]], true
					break
				}
			}
		}
	}
	for i, o := range g.owners {
		if o.c != nil && path[i] != nil {
			r := o.c.reason(Cycle)
			r.Path = path[i]
			refused[o.c] = r
		}
	}
}

// targets are the owners that a dependency is about.
func (c *closure) targets(owners []owner, byRef map[items.Ref][]int, d *items.Dependency) (all []int) {
	for _, t := range byRef[d.Ref()] {
		v := owners[t].version
		switch {
		case c.loops: // versions have no end: what counts is the item
		case d.Type == items.Layer && v != c.layer(d):
			continue
		case !d.Versions.Has(v.number, d.IncludePreRelease):
			continue
		}
		all = append(all, t)
	}
	return all
}

func indexes(owners []owner) map[items.Ref][]int {
	byRef := map[items.Ref][]int{}
	for i, o := range owners {
		byRef[o.Meta.Ref()] = append(byRef[o.Meta.Ref()], i)
	}
	return byRef
}

// graph makes the graph of the closure.
func (c *closure) graph() *graph {
	g := &graph{owners: c.owners, after: make([][]int, len(c.owners))}
	byRef := indexes(g.owners)
	for i, o := range g.owners {
		for j := range o.needs {
			d := &o.needs[j]
			for _, t := range c.targets(g.owners, byRef, d) {
				if d.Condition == items.Before {
					g.after[t] = append(g.after[t], i)
				} else {
					g.after[i] = append(g.after[i], t)
				}
			}
		}
	}
	for i := range g.after {
		slices.Sort(g.after[i])
		g.after[i] = slices.Compact(g.after[i])
	}
	return g
}

// needs are, for each owner and each of its needs, the owners that meet it.
func (c *closure) needs(owners []owner) [][][]int {
	all, byRef := make([][][]int, len(owners)), indexes(owners)
	for i, o := range owners {
		for j := range o.needs {
			d := &o.needs[j]
			if targets := c.targets(owners, byRef, d); !d.Condition.Weak() && len(targets) > 0 {
				all[i] = append(all[i], targets)
			}
		}
	}
	return all
}

// components are the sets of owners that wait for each other (Tarjan's algorithm), without those of one that does not
// wait for itself.
func (g *graph) components() (all [][]int) {
	index, low := make([]int, len(g.owners)), make([]int, len(g.owners)) // from 1; 0: not visited
	on := make([]bool, len(g.owners))
	var stack []int
	next := 1
	var visit func(i int)
	visit = func(i int) {
		index[i], low[i] = next, next
		next++
		stack, on[i] = append(stack, i), true
		for _, t := range g.after[i] {
			if index[t] == 0 {
				visit(t)
				low[i] = min(low[i], low[t])
			} else if on[t] {
				low[i] = min(low[i], index[t])
			}
		}
		if low[i] != index[i] {
			return
		}
		at := slices.Index(stack, i)
		part := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, t := range part {
			on[t] = false
		}
		if len(part) > 1 || slices.Contains(g.after[i], i) {
			slices.Sort(part)
			all = append(all, part)
		}
	}
	for i := range g.owners {
		if index[i] == 0 {
			visit(i)
		}
	}
	return all
}

// smallest is the shortest cycle within a set of owners that wait for each other; of several the first.
func (g *graph) smallest(part []int) (cycle []Party) {
	var best []int
	for _, from := range part {
		before := map[int]int{from: -1}
		queue := []int{from}
	search:
		for len(queue) > 0 {
			at := queue[0]
			queue = queue[1:]
			for _, t := range g.after[at] {
				if t == from {
					var found []int
					for i := at; i >= 0; i = before[i] {
						found = append(found, i)
					}
					slices.Reverse(found)
					if best == nil || len(found) < len(best) {
						best = found
					}
					break search
				}
				if _, seen := before[t]; !seen {
					before[t] = at
					queue = append(queue, t)
				}
			}
		}
	}
	for _, i := range best {
		cycle = append(cycle, g.owners[i].party())
	}
	return cycle
}
