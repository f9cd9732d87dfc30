package workload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Filled is a set after its fillers have been applied: the configurations that nodes run.
type Filled struct {
	Configs []Config // sorted by slot: by node, then by service
	Slots   map[Slot]Explanation
}

// Explanation is the origin of a slot's configuration. Origins and Passed are set only if the caller asks for
// explanations.
type Explanation struct {
	Fillers []string          // names of the fillers that apply, without ancestors of others
	Origins map[string]string // name of a value's filler, by the value's JSON pointer; "": the slot's own entry
	Passed  map[string]string // reason why a filler does not apply, by name of the filler
}

// Fill applies the fillers of a set to its topologies and configurations (seed 004, Inapplicable).
//
// A filler applies to an entry if its filter holds, or it has no filter, and if the entry's properties have the values
// that the filler has. If the entry lacks one of these properties, a filler without a filter does not apply, and a
// filler with a filter adds the property. A property whose value contains a template is no condition.
//
// A value of a filler replaces the entry's value of the same name; other values of the entry stay. A filler inherits
// the values of its parents that it does not have itself. Two parents of one filler must not have different values of
// one name, and neither must two fillers that apply to one slot: the problem names both. Where a filler applies, its
// ancestors are not applied beside it.
//
// A topology of a slot that has an instance or a job, too, replaces its properties of the same names, and adds the
// others, before fillers are applied.
//
// The result does not depend on the order of entries and fillers. A configuration to which no filler applies does not
// change. The result is checked as Parse checks what is written, whole: what no node could run is a problem.
//
// Each problem has the line and column of the entry that is wrong. A set that takes too much work (see maxWork) is a
// problem, since a short set can expand to a very large result.
func Fill(set *Set) (*Filled, Problems) {
	f := newFilling(set)
	return f.all(), f.problems
}

// FillFiles is Fill that also returns the file of each problem and, if explain is set, explains each slot.
// Explanations may take three times the work.
func FillFiles(set *Set, explain bool) (*Filled, Problems, []string) {
	f := newFilling(set)
	if f.explain = explain; explain {
		f.most *= 3
	}
	return f.all(), f.problems, f.files
}

func newFilling(set *Set) *filling {
	return &filling{set: set, fillers: map[string]*resolved{}, most: maxWork}
}

// all applies the fillers to the whole set. It returns nil if there are problems.
func (f *filling) all() *Filled {
	set := f.set
	f.inherit(set.Fillers)
	out := &Filled{Slots: map[Slot]Explanation{}}
	topologies := f.topologies()
	for i := range set.Configs {
		c := set.Configs[i]
		if t := topologies[c.Slot]; t != nil {
			c.Properties = overlaid(c.Properties, t.Properties)
		}
		f.fill(out, &entry{c.Class, c.ConfigurationID, c.Slot, c.Properties, c.Needs}, ownPieces(&c))
	}
	for i := range set.Topologies {
		t := &set.Topologies[i]
		if _, taken := out.Slots[t.Slot]; !taken {
			f.fill(out, &entry{TopologicalInstance, "", t.Slot, t.Properties, nil},
				ownPieces(&Config{Slot: t.Slot, Properties: t.Properties}))
		}
	}
	slices.SortFunc(out.Configs, func(a, b Config) int {
		return cmp.Or(cmp.Compare(a.Slot.Node, b.Slot.Node), cmp.Compare(a.Slot.Service, b.Slot.Service))
	})
	if len(f.problems) == 0 {
		f.checkShared(out.Configs)
		f.checkNeeds(out.Configs)
	}
	if len(f.problems) == 0 && len(out.Configs) == 0 && len(set.Fillers) > 0 {
		f.add(Place{}, wire.CodeMissing, "", "there are fillers, but no topology, instance or job: everything that "+
			"runs in the unit would be stopped; if that is meant, apply an empty set: []")
	}
	if len(f.problems) > 0 {
		return nil
	}
	return out
}

// filling is the state of one call of Fill.
type filling struct {
	set      *Set
	explain  bool
	fillers  map[string]*resolved
	order    []string     // names of the fillers, sorted
	work     int          // work done so far, in units of maxWork
	most     int          // the most work
	stop     func() error // says whether to give up; nil: never
	poll     int          // work at which it is asked next
	problems Problems
	files    []string // file of each problem
}

// resolved is a filler with the values that it inherits.
type resolved struct {
	*Filler
	pieces     pieces
	places     []string        // JSON pointers of pieces, sorted
	conditions []condition     // properties that an entry must have
	ancestors  map[string]bool // names of its parents, of their parents, and so on
	done       bool            // finish was called
}

// condition is the value that a property of an entry must have if a filler is to apply, see Fill.
type condition struct{ name, text string }

// finish sets the pieces of a filler, its own and inherited ones, and derives places and conditions from them.
func (r *resolved) finish(all pieces) {
	r.pieces, r.done = all, true
	r.places = slices.Sorted(maps.Keys(all))
	for _, at := range r.places {
		if name, ok := strings.CutPrefix(at, atProperties+"/"); ok && !isTemplate(all[at].text) {
			r.conditions = append(r.conditions, condition{unescape(name), all[at].text})
		}
	}
}

// add adds a problem of the entry at a place, up to strictjson.MaxProblems.
func (f *filling) add(at Place, code wire.Code, path, format string, a ...any) {
	if len(f.problems) < strictjson.MaxProblems {
		e := wire.New(code, path, fmt.Sprintf(format, a...))
		e.Line, e.Column = at.Line, at.Column
		f.problems, f.files = append(f.problems, e), append(f.files, at.File)
	}
}

// inherit adds to each filler the values of its parents.
func (f *filling) inherit(fillers []Filler) {
	for i := range fillers {
		if _, taken := f.fillers[fillers[i].Name]; taken {
			f.add(f.filler(fillers[i].Name), wire.CodeDuplicate, "", "two fillers are called %s%s",
				strictjson.Show(fillers[i].Name), first(f.set.places[" "+fillers[i].Name]))
			continue
		}
		f.fillers[fillers[i].Name] = &resolved{Filler: &fillers[i], ancestors: map[string]bool{}}
	}
	f.order = slices.Sorted(maps.Keys(f.fillers))
	for _, n := range f.order {
		f.resolve(f.fillers[n], nil)
	}
}

// resolve adds to one filler the values of its parents, which it resolves first. chain has the names of the descendants
// through which it came to this filler; it serves to find cycles.
func (f *filling) resolve(r *resolved, chain []string) {
	if r.done || !f.spend(len(chain)) {
		return
	}
	if i := slices.Index(chain, r.Name); i >= 0 {
		f.add(f.filler(r.Name), wire.CodeBadValue, "", "fillers are each other's parents: %s",
			strings.Join(append(chain[i:], r.Name), " ← "))
		r.finish(templatePieces(r.Fill, r.Name))
		return
	}
	chain = append(chain, r.Name) // may overwrite the end of the chain of a filler that is already resolved
	inherited := pieces{}
	for _, n := range r.Parents {
		parent := f.fillers[n]
		if parent == nil {
			if f.full() {
				return
			}
			others := slices.DeleteFunc(slices.Clone(f.order), func(name string) bool { return name == r.Name })
			f.add(f.filler(r.Name), wire.CodeNotFound, "", "the filler %s names a parent %s that is not there%s",
				strictjson.Show(r.Name), strictjson.Show(n), near.Hint(n, others))
			continue
		}
		f.resolve(parent, chain)
		if !f.spend(copying * (len(parent.places) + len(parent.ancestors))) {
			return
		}
		r.ancestors[n] = true
		maps.Copy(r.ancestors, parent.ancestors)
		for _, at := range parent.places {
			p := parent.pieces[at]
			if other, set := inherited[at]; set && other.from != p.from {
				f.add(f.filler(r.Name), wire.CodeDuplicate, at, "the parents of filler %s disagree: %s and %s both "+
					"set this", strictjson.Show(r.Name), f.show(other.from), f.show(p.from))
				continue
			}
			inherited[at] = p
		}
	}
	if r.done { // by a nested call: it is its own ancestor
		return
	}
	maps.Copy(inherited, templatePieces(r.Fill, r.Name))
	r.finish(inherited)
	f.checkJob(r)
}

// applies reports whether a filler applies to e. If it does not, c is the first condition that is not true, or nil if
// it is the filter.
func (f *filling) applies(r *resolved, e *entry) (ok bool, c *condition) {
	f.spend(1 + r.Filter.cost())
	if !r.Filter.holds(e) {
		return false, nil
	}
	for i := range r.conditions {
		c = &r.conditions[i]
		f.spend(1)
		if have, ok := e.properties[c.name]; ok && have != c.text || !ok && r.Filter == nil {
			return false, c
		}
	}
	return true, nil
}

// reason returns why a filler does not apply to e; c is the result of applies.
func (e *entry) reason(c *condition) string {
	if c == nil {
		return "its filter does not hold"
	}
	if have, ok := e.properties[c.name]; ok {
		if IsSecret(c.name) {
			return fmt.Sprintf("the property %s has another value", strictjson.Show(c.name))
		}
		return fmt.Sprintf("the property %s is %s, not %s", strictjson.Show(c.name), strictjson.Show(have),
			strictjson.Show(c.text))
	}
	return fmt.Sprintf("there is no property %s", strictjson.Show(c.name))
}

// fill applies the fillers to one entry and adds the result to out. own are the entry's own values.
func (f *filling) fill(out *Filled, e *entry, own pieces) {
	if _, taken := out.Slots[e.slot]; taken {
		f.add(f.slot(e.slot), wire.CodeDuplicate, "", "the slot %s has two entries%s", e.slot,
			first(f.set.places[slotKey(e.slot, e.class)]))
		return
	}
	apply := f.applying(e)
	var x Explanation
	fromFillers := pieces{}
	for _, r := range apply {
		if !f.spend(len(apply)) || descendantAmong(r, apply) != "" {
			continue
		}
		if !f.spend(copying * len(r.places)) {
			return
		}
		x.Fillers = append(x.Fillers, r.Name)
		for _, at := range r.places {
			p := r.pieces[at]
			if other, set := fromFillers[at]; set && !other.equal(p) {
				f.add(f.slot(e.slot), wire.CodeDuplicate, at, "two fillers apply to the slot %s and disagree: %s and "+
					"%s", e.slot, f.show(other.from), f.show(p.from))
				continue
			}
			fromFillers[at] = p
		}
	}
	out.Slots[e.slot] = x
	if e.class == TopologicalInstance && len(x.Fillers) == 0 {
		if !f.full() {
			f.add(f.slot(e.slot), wire.CodeNotFound, "", "no filler applies to the slot %s%s", e.slot,
				reasons(f.passed(e, apply)))
		}
		return
	}
	for _, at := range slices.Sorted(maps.Keys(fromFillers)) {
		p, err := f.filled(fromFillers[at], e)
		if err != nil {
			f.add(f.filler(p.from), wire.CodeBadValue, at, "filler %s, slot %s: %v", strictjson.Show(p.from), e.slot,
				err)
		}
		own[at] = p
	}
	origins := map[string]string{}
	for at, p := range own {
		origins[at] = p.from
		f.spend(copying + p.size()/bytesOfWork)
	}
	if f.full() {
		return
	}
	if f.explain {
		x.Origins, x.Passed = origins, f.passed(e, apply)
		out.Slots[e.slot] = x
	}
	c := own.assemble(e.slot)
	c.Needs = e.needs
	f.checkRunnable(&c, origins)
	out.Configs = append(out.Configs, c)
}

// applying returns the fillers that apply to an entry.
func (f *filling) applying(e *entry) (apply []*resolved) {
	for _, n := range f.order {
		if f.full() {
			return nil
		}
		if ok, _ := f.applies(f.fillers[n], e); ok {
			apply = append(apply, f.fillers[n])
		}
	}
	return apply
}

// passed returns, by the filler's name, the reason why a filler is not applied to an entry: it does not apply, or it is
// an ancestor of one that applies.
func (f *filling) passed(e *entry, apply []*resolved) map[string]string {
	all := map[string]string{}
	for _, n := range f.order {
		r := f.fillers[n]
		if ok, c := f.applies(r, e); !ok {
			f.spend(explaining)
			all[n] = e.reason(c)
		} else if f.spend(len(apply)); f.full() {
			return nil
		} else if descendant := descendantAmong(r, apply); descendant != "" {
			all[n] = fmt.Sprintf("%s, which applies, has it as a parent", strictjson.Show(descendant))
		}
	}
	return all
}

// descendantAmong returns the name of the first filler that has r as an ancestor; "": there is none.
func descendantAmong(r *resolved, among []*resolved) string {
	for _, o := range among {
		if o.ancestors[r.Name] && o != r {
			return o.Name
		}
	}
	return ""
}

// reasons lists, as the end of a message, why the first four fillers do not apply.
func reasons(passed map[string]string) string {
	var b strings.Builder
	for i, n := range slices.Sorted(maps.Keys(passed)) {
		if i == 4 {
			fmt.Fprintf(&b, "; and %d more", len(passed)-i)
			break
		}
		fmt.Fprintf(&b, "; %s: %s", strictjson.Show(n), passed[n])
	}
	return b.String()
}
