package desired_test

import (
	"slices"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
)

// inRange reports whether a version of an item meets a need.
func inRange(d *items.Dependency, m *items.Meta) bool {
	v, err := items.ParseVersion(m.Version)
	return err == nil && d.Type == m.Type && d.Codename == m.Codename && d.Versions.Has(v, d.IncludePreRelease)
}

func higher(a, b string) bool {
	v, errA := items.ParseVersion(a)
	w, errB := items.ParseVersion(b)
	return errA == nil && errB == nil && v.Compare(w) > 0
}

// usable are the versions of layers that may be chosen.
func (o *oracle) usable() (all []*items.Item) {
	for i := range o.in.Items {
		it := &o.in.Items[i]
		installed := slices.ContainsFunc(o.in.Current.Layers, func(l items.InstalledLayer) bool {
			return l.Codename == it.Meta.Codename && l.Version == it.Meta.Version
		})
		if it.Meta.Type == items.Layer && (it.State == items.Ready || it.State == items.Deprecated && installed) {
			all = append(all, it)
		}
	}
	return all
}

// strong are the needs of metadata that do not only order.
func strong(m *items.Meta) (all []*items.Dependency) {
	for i := range m.Dependencies {
		if d := &m.Dependencies[i]; d.Condition != items.Before && d.Condition != items.After {
			all = append(all, d)
		}
	}
	return all
}

// layers lists what is wrong with the layers that were chosen.
func (o *oracle) layers() []string {
	var chosen []*items.Item
	owners := map[*items.Item]bool{}
	for _, l := range o.live {
		owners[l.Item] = true
		for _, v := range l.Layers {
			owners[v] = true
			if !slices.Contains(chosen, v) {
				chosen = append(chosen, v)
			}
		}
	}
	best := func(d *items.Dependency) (found *items.Item) {
		for _, v := range chosen {
			if inRange(d, &v.Meta) && (found == nil || higher(v.Meta.Version, found.Meta.Version)) {
				found = v
			}
		}
		return found
	}
	for _, l := range o.live { // each has what it reaches, and nothing else
		reached := map[*items.Item]bool{}
		queue := []*items.Meta{&l.Item.Meta}
		for len(queue) > 0 {
			m := queue[0]
			queue = queue[1:]
			for _, d := range strong(m) {
				if d.Type != items.Layer {
					if !slices.ContainsFunc(o.live, func(t desired.Live) bool { return inRange(d, &t.Item.Meta) }) {
						o.bad("%s lacks %s", l.Item.Meta.Codename, d.Codename)
					}
					continue
				}
				v := best(d)
				if v == nil {
					o.bad("%s lacks %s", l.Item.Meta.Codename, d.Codename)
				} else if !reached[v] {
					reached[v] = true
					queue = append(queue, &v.Meta)
				}
			}
		}
		alien := func(v *items.Item) bool { return !reached[v] }
		if len(reached) != len(l.Layers) || slices.ContainsFunc(l.Layers, alien) {
			o.bad("%s reaches %d layers, and has %d", l.Item.Meta.Codename, len(reached), len(l.Layers))
		}
	}
	for _, ref := range refs {
		o.versionsOf(ref, chosen, owners)
	}
	return o.wrong
}

// versionsOf checks the versions of one layer: one that meets all needs, the highest; or several, none for nothing.
func (o *oracle) versionsOf(ref items.Ref, chosen []*items.Item, owners map[*items.Item]bool) {
	var needs []*items.Dependency
	for own := range owners {
		for _, d := range strong(&own.Meta) {
			if d.Ref() == ref {
				needs = append(needs, d)
			}
		}
	}
	meetsAll := func(set []*items.Item) bool {
		return !slices.ContainsFunc(needs, func(d *items.Dependency) bool {
			return !slices.ContainsFunc(set, func(v *items.Item) bool { return inRange(d, &v.Meta) })
		})
	}
	var single *items.Item
	for _, v := range o.usable() {
		if v.Meta.Ref() == ref && meetsAll([]*items.Item{v}) &&
			(single == nil || higher(v.Meta.Version, single.Meta.Version)) {
			single = v
		}
	}
	var set []*items.Item
	for _, v := range chosen {
		if v.Meta.Ref() == ref {
			set = append(set, v)
		}
	}
	if ref.Type != items.Layer || len(needs) == 0 {
		if len(set) > 0 {
			o.bad("%s is chosen, and nobody needs it", ref)
		}
		return
	}
	if single != nil && (len(set) != 1 || set[0].Meta.Version != single.Meta.Version) {
		o.bad("of %s %s would do, and %d are chosen", ref, single.Meta.Version, len(set))
	}
	for i := range set {
		if meetsAll(slices.Delete(slices.Clone(set), i, i+1)) {
			o.bad("of %s %s is chosen for nothing", ref, set[i].Meta.Version)
		}
	}
}

// lacks reports whether what was refused for a need may lack something: itself, or a layer that it may need.
func (o *oracle) lacks(r desired.Reason) bool {
	seen := map[*items.Meta]bool{}
	var missing func(m *items.Meta) bool
	missing = func(m *items.Meta) bool {
		if seen[m] {
			return false
		}
		seen[m] = true
		for _, d := range strong(m) {
			there := false
			if d.Type != items.Layer {
				for _, t := range o.live {
					there = there || inRange(d, &t.Item.Meta)
				}
			}
			for _, v := range o.usable() {
				if inRange(d, &v.Meta) {
					there = true
					if missing(&v.Meta) {
						return true
					}
				}
			}
			if !there {
				return true
			}
		}
		return false
	}
	return missing(&o.find(r.Type, r.Codename, r.Version).Meta)
}
