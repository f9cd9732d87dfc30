package desired

import (
	"cmp"
	"maps"
	"slices"

	"tandem.internal/shared/items"
)

// owner is what has dependencies: a candidate, or a version of a layer.
type owner struct {
	*version
	c *candidate // nil: a layer
}

// party names the owner in reasons.
func (o owner) party() Party {
	if o.c != nil {
		return o.c.party()
	}
	return Party{Type: o.Meta.Type, Codename: o.Meta.Codename, Version: o.Meta.Version}
}

// demand is what an owner needs of a layer.
type demand struct {
	of  owner
	dep *items.Dependency
}

// closure is which versions of layers some candidates need.
type closure struct {
	w      *world
	chosen map[items.Ref][]*version // the highest first
	owners []owner                  // all that need something, candidates first
	loops  bool                     // versions of layers choose each other, without an end
}

// depend finds the layers that candidates need, and refuses candidates whose needs are not met or that wait for
// themselves. What a refused one needed does not count any more, so this is repeated until nothing is refused.
func (w *world) depend() {
	for {
		live := w.live()
		c := w.close(live)
		refused := map[*candidate]Reason{}
		if !c.loops {
			c.unmet(live, refused)
		}
		if len(refused) == 0 {
			c.cycles(refused)
		}
		if len(refused) == 0 {
			for _, one := range live {
				one.layers = c.layersOf(one)
				for _, l := range one.layers {
					one.layerItems = append(one.layerItems, l.Item)
				}
			}
			return
		}
		for _, one := range live {
			if r, ok := refused[one]; ok {
				w.refuse(one, r)
			}
		}
	}
}

// close chooses versions of layers: of each layer the highest that is in the ranges of all that need it; if there is
// none, several, as few as possible. What the chosen versions need counts, too, so this goes on until nothing changes.
func (w *world) close(live []*candidate) *closure {
	c := &closure{w: w, chosen: map[items.Ref][]*version{}}
	seen := map[*version]owner{} // every version of a layer that was chosen in any round
	for round := 0; ; round++ {
		demands := c.demands(live)
		next := make(map[items.Ref][]*version, len(demands))
		for ref, ds := range demands {
			next[ref] = w.pick(ref, ds)
			for _, v := range next[ref] {
				seen[v] = owner{version: v}
			}
		}
		if maps.EqualFunc(next, c.chosen, slices.Equal) {
			return c
		}
		c.chosen = next
		// without loops each round settles at least the layers that nothing unsettled needs
		if round > len(w.versions)+1 {
			c.loops = true
			c.owners = c.owners[:len(live)]
			for _, v := range slices.SortedFunc(maps.Keys(seen), compareVersions) {
				c.owners = append(c.owners, seen[v])
			}
			return c
		}
	}
}

func compareVersions(a, b *version) int {
	return cmp.Or(compareRefs(a.Meta.Ref(), b.Meta.Ref()), a.number.Compare(b.number))
}

// demands are what the candidates need of layers, and the chosen versions of these in turn. It sets owners.
func (c *closure) demands(live []*candidate) map[items.Ref][]demand {
	all := map[items.Ref][]demand{}
	c.owners = c.owners[:0]
	for _, one := range live {
		c.owners = append(c.owners, owner{one.version, one})
	}
	seen := map[*version]bool{}
	for i := 0; i < len(c.owners); i++ { // grows on the way
		o := c.owners[i]
		for j := range o.needs {
			d := &o.needs[j]
			if d.Type != items.Layer || d.Condition.Weak() {
				continue
			}
			all[d.Ref()] = append(all[d.Ref()], demand{o, d})
			if v := c.layer(d); v != nil && !seen[v] {
				seen[v] = true
				c.owners = append(c.owners, owner{version: v})
			}
		}
	}
	return all
}

// layer is the version of a layer that meets a need: of those chosen the highest. Nil: none does.
func (c *closure) layer(d *items.Dependency) *version {
	for _, v := range c.chosen[d.Ref()] {
		if d.Versions.Has(v.number, d.IncludePreRelease) {
			return v
		}
	}
	return nil
}

// mayUse reports whether a version of a layer may be chosen: it is ready, or deprecated and on some node.
func (w *world) mayUse(v *version) bool {
	return v.State == items.Ready ||
		v.State == items.Deprecated && w.layers[v.Meta.Codename+" "+v.Meta.Version]
}

// pick chooses versions of one layer, the highest first.
func (w *world) pick(ref items.Ref, ds []demand) (chosen []*version) {
	meets := func(v *version, d demand) bool { return d.dep.Versions.Has(v.number, d.dep.IncludePreRelease) }
	var usable []*version
	for _, v := range w.versions[ref] {
		if w.mayUse(v) {
			usable = append(usable, v)
		}
	}
	open := slices.DeleteFunc(slices.Clone(ds), func(d demand) bool {
		return !slices.ContainsFunc(usable, func(v *version) bool { return meets(v, d) })
	})
	count := func(v *version, ds []demand) (n int) {
		for _, d := range ds {
			if meets(v, d) {
				n++
			}
		}
		return n
	}
	left := slices.Clone(open)
	for len(left) > 0 {
		best, most := usable[0], 0 // the highest of those that meet the most
		for _, v := range usable {
			if n := count(v, left); n > most {
				best, most = v, n
			}
		}
		chosen = append(chosen, best)
		left = slices.DeleteFunc(left, func(d demand) bool { return meets(best, d) })
	}
	slices.SortFunc(chosen, func(a, b *version) int { return b.number.Compare(a.number) })
	for i := len(chosen) - 1; i >= 0; i-- { // what the others make up for is not needed
		without := slices.Delete(slices.Clone(chosen), i, i+1)
		if !slices.ContainsFunc(open, func(d demand) bool {
			return !slices.ContainsFunc(without, func(v *version) bool { return meets(v, d) })
		}) {
			chosen = without
		}
	}
	return chosen
}

// unmet refuses candidates whose needs are not met: their own, or those of a layer that they need.
func (c *closure) unmet(live []*candidate, refused map[*candidate]Reason) {
	bad := map[*version]*Reason{} // layers; nil: under way, or good
	var layer func(v *version) *Reason
	of := func(o owner) *Reason {
		for i := range o.needs {
			d := &o.needs[i]
			switch {
			case d.Condition.Weak():
			case d.Type != items.Layer:
				if r := c.needed(o, d); r != nil {
					return r
				}
			case c.layer(d) == nil:
				return c.lacks(o, d, NotReady)
			default:
				if r := layer(c.layer(d)); r != nil {
					return r
				}
			}
		}
		return nil
	}
	layer = func(v *version) *Reason {
		if r, known := bad[v]; known {
			return r
		}
		bad[v] = nil
		bad[v] = of(owner{version: v})
		return bad[v]
	}
	for _, one := range live {
		if r := of(owner{one.version, one}); r != nil {
			mine := one.reason(r.Reason)
			mine.Needs, mine.Versions, mine.Rule, mine.About, mine.By = r.Needs, r.Versions, r.Rule, r.About, r.By
			refused[one] = mine
		}
	}
}

// lacks is the reason of an owner whose need is not met.
func (c *closure) lacks(o owner, d *items.Dependency, why Code) *Reason {
	r := &Reason{Reason: Unmet, Versions: numbers(c.w.versions[d.Ref()]),
		Needs: &Need{Type: d.Type, Codename: d.Codename, Range: rangeText(d.Versions), Reason: why}}
	if o.c == nil {
		p := o.party()
		r.Needs.Of = &p
	}
	return r
}

// needed says why a service or component that an owner needs is not there; nil: it is. It has to be desired for some
// subject: needing it does not bring it.
func (c *closure) needed(o owner, d *items.Dependency) *Reason {
	r := c.lacks(o, d, "")
	for _, t := range c.w.byRef[d.Ref()] {
		inRange := d.Versions.Has(t.number, d.IncludePreRelease)
		switch {
		case t.out == nil && inRange:
			return nil
		case t.out == nil: // it is there in another version: both cannot be had
			if r.Reason != Conflict {
				by := t.party()
				r.Reason, r.Rule, r.By, r.About = Conflict, Versions, &by, d.Ref().String()
			}
		case r.Needs.Reason == "":
			r.Needs.Reason, r.Needs.By = t.out.Reason, t.out.By
		}
	}
	return r
}

// layersOf are the layers that a candidate needs, directly or not.
func (c *closure) layersOf(one *candidate) (all []*version) {
	seen := map[*version]bool{}
	var add func(o *version)
	add = func(o *version) {
		for i := range o.needs {
			d := &o.needs[i]
			if d.Type != items.Layer || d.Condition.Weak() {
				continue
			}
			if v := c.layer(d); !seen[v] {
				seen[v] = true
				all = append(all, v)
				add(v)
			}
		}
	}
	add(one.version)
	slices.SortFunc(all, compareVersions)
	return all
}
