package desired

import (
	"cmp"
	"slices"

	"tandem.internal/shared/items"
)

// mostPairs bounds the services of a node among which every pair is tried.
const mostPairs = 32

// makeRoom puts a service where services of lower priority make room: the fewest, on the first node. It returns these,
// to be placed anew. Nil: there is no such place, or nobody may be moved.
func (w *world) makeRoom(i *instance) []*instance {
	if !w.in.Preempt {
		return nil
	}
	var at *runtime
	var fewest []*instance
	for _, n := range w.nodes {
		lower := slices.DeleteFunc(slices.Clone(n.instances), func(o *instance) bool {
			return o.Meta.Type != items.Service || o.Meta.Priority >= i.Meta.Priority
		})
		if len(lower) == 0 {
			continue
		}
		// those of the lowest priority go first
		slices.SortFunc(lower, func(a, b *instance) int {
			return cmp.Or(cmp.Compare(a.Meta.Priority, b.Meta.Priority), inOrder(a, b))
		})
		for _, r := range n.runtimes {
			if set := w.victims(i, r, lower); set != nil && (at == nil || len(set) < len(fewest)) {
				at, fewest = r, set
			}
		}
	}
	if at == nil {
		return nil
	}
	for _, v := range fewest {
		v.release()
		v.victim = i
		w.placed = slices.DeleteFunc(w.placed, func(o *instance) bool { return o == v })
	}
	w.put(i, at, ByRoom)
	return slices.SortedFunc(slices.Values(fewest), inOrder)
}

// victims are the instances that have to go so that another one may be in a runtime. Nil: that is not enough. One and
// two are tried each; of more none is among them that need not go.
func (w *world) victims(i *instance, r *runtime, lower []*instance) []*instance {
	fits := func(set []*instance) bool {
		places := make([]*runtime, len(set))
		for k, v := range set {
			places[k] = v.at
			v.release()
		}
		ok := w.onNode(i.candidate, r.node, false).filter == "" && w.inRuntime(i.candidate, r).filter == ""
		for k, v := range set {
			v.reserve(places[k])
		}
		return ok
	}
	if !fits(lower) {
		return nil
	}
	for _, v := range lower {
		if set := []*instance{v}; fits(set) {
			return set
		}
	}
	for k, v := range lower[:min(len(lower), mostPairs)] {
		for _, o := range lower[k+1 : min(len(lower), mostPairs)] {
			if set := []*instance{v, o}; fits(set) {
				return set
			}
		}
	}
	set := slices.Clone(lower)
	for k := len(set) - 1; k >= 0; k-- { // those of the highest priority stay first
		if without := slices.Delete(slices.Clone(set), k, k+1); fits(without) {
			set = without
		}
	}
	return set
}
