package workload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Filled is what a set becomes when its fillers have been applied: what can be run.
type Filled struct {
	Configs []Config // by slot
	Slots   map[Slot]Explanation
}

// Explanation says how a slot's configuration came about.
type Explanation struct {
	Origins map[string]string // JSON pointer in the configuration: the filler that gave the value, "" for the slot's own entry
	Fillers []string          // that apply, but for those that are parents of others
	Passed  map[string]string // the other fillers, and why not
}

// Fill applies the fillers of a set to its topologies and configurations (seed 004, Inapplicable).
//
// A filler applies to an entry if its filter holds, or there is none, and if the properties that
// the filler names have the same values there. A property that the entry lacks keeps a filler
// without a filter away; one with a filter adds it. A property with a template in it is no condition.
//
// What a filler says replaces what the entry has under the same name; the rest stays. A filler
// has what its parents have and it lacks. Two parents of one filler, and two fillers that apply to
// one slot, must not disagree: the error names both. A filler does not compete with its own parents.
//
// The result depends neither on the order of entries nor on that of fillers. What is filled
// already and has no fillers beside it stays as it is.
//
// A problem has the line and column at which the entry begins that is to be mended.
func Fill(set *Set) (*Filled, Problems) {
	filled, ps, _ := FillFiles(set)
	return filled, ps
}

// FillFiles is Fill, and says of each problem also in which file of the set it is.
func FillFiles(set *Set) (*Filled, Problems, []string) {
	f := &filling{set: set, fillers: map[string]*resolved{}}
	f.inherit(set.Fillers)
	out := &Filled{Slots: map[Slot]Explanation{}}
	for i := range set.Configs {
		c := &set.Configs[i]
		f.fill(out, &entry{c.Class, c.ConfigurationID, c.Slot, c.Properties}, ownPieces(c))
	}
	for i := range set.Topologies {
		t := &set.Topologies[i]
		f.fill(out, &entry{TopologicalInstance, "", t.Slot, t.Properties}, ownPieces(&Config{Slot: t.Slot, Properties: t.Properties}))
	}
	slices.SortFunc(out.Configs, func(a, b Config) int {
		return cmp.Or(cmp.Compare(a.Slot.Node, b.Slot.Node), cmp.Compare(a.Slot.Service, b.Slot.Service))
	})
	if len(f.problems) == 0 {
		f.agree(out.Configs)
	}
	if len(f.problems) > 0 {
		return nil, f.problems, f.files
	}
	return out, nil, nil
}

// piece is one value of a configuration, under the pointer that says which, and who gave it.
type piece struct {
	from     string
	text     string
	artifact *Artifact
	limit    *Limit
}

// equal reports whether two pieces say the same.
func (p piece) equal(o piece) bool {
	if p.artifact != nil {
		a, b := p.artifact, o.artifact
		return a.Class == b.Class && a.UUID == b.UUID && slices.Equal(a.URLs, b.URLs) && a.Cached == b.Cached && a.Size == b.Size && a.Verification == b.Verification
	}
	if p.limit != nil {
		return p.limit.equal(*o.limit)
	}
	return p.text == o.text
}

func (l Limit) equal(o Limit) bool {
	same := func(a, b *int64) bool { return (a == nil) == (b == nil) && value(a) == value(b) }
	return same(l.MinRestartPeriodMs, o.MinRestartPeriodMs) && same(l.MaxRestartPeriodMs, o.MaxRestartPeriodMs) &&
		same(l.RestartPeriodScaleMs, o.RestartPeriodScaleMs) && same(l.MaxExecutionTimeMs, o.MaxExecutionTimeMs) &&
		(l.RestartPeriodBackoff == nil) == (o.RestartPeriodBackoff == nil) && value(l.RestartPeriodBackoff) == value(o.RestartPeriodBackoff)
}

// pieces are a configuration taken apart.
type pieces map[string]piece

const (
	atClass       = "/@class"
	atID          = "/configurationId"
	atConstraints = "/container/constraints"
	atProperties  = "/properties"
	atResources   = "/resources"
	atLimits      = "/timeLimits"
)

// takeApart names every value of t as its giver's.
func takeApart(t Template, from string) pieces {
	ps := pieces{}
	if t.Class != "" {
		ps[atClass] = piece{from: from, text: string(t.Class)}
	}
	if t.ConfigurationID != "" {
		ps[atID] = piece{from: from, text: t.ConfigurationID}
	}
	texts := func(at string, all map[string]string) {
		for n, v := range all {
			ps[strictjson.Member(at, n)] = piece{from: from, text: v}
		}
	}
	if t.Container != nil {
		texts(atConstraints, t.Container.Constraints)
	}
	texts(atProperties, t.Properties)
	for n, v := range t.Resources {
		ps[strictjson.Member(atResources, n)] = piece{from: from, artifact: &v}
	}
	for n, v := range t.TimeLimits {
		ps[strictjson.Member(atLimits, n)] = piece{from: from, limit: &v}
	}
	return ps
}

func ownPieces(c *Config) pieces {
	return takeApart(Template{c.Class, c.ConfigurationID, c.Container, c.Properties, c.Resources, c.TimeLimits}, "")
}

// filling is one call of Fill.
type filling struct {
	set      *Set
	fillers  map[string]*resolved
	problems Problems
	files    []string // of the problems
}

// resolved is a filler with all that it inherits.
type resolved struct {
	*Filler
	pieces    pieces
	ancestors map[string]bool
	done      bool
}

func (f *filling) add(at Place, code wire.Code, path, format string, a ...any) {
	if len(f.problems) < strictjson.MaxProblems {
		e := wire.New(code, path, fmt.Sprintf(format, a...))
		e.Line, e.Column = at.Line, at.Column
		f.problems, f.files = append(f.problems, e), append(f.files, at.File)
	}
}

// inherit completes every filler from its parents.
func (f *filling) inherit(fillers []Filler) {
	for i := range fillers {
		if _, taken := f.fillers[fillers[i].Name]; taken {
			f.add(f.filler(fillers[i].Name), wire.CodeDuplicate, "", "two fillers are called %s%s", strictjson.Show(fillers[i].Name), first(f.set.places[" "+fillers[i].Name]))
			continue
		}
		f.fillers[fillers[i].Name] = &resolved{Filler: &fillers[i], ancestors: map[string]bool{}}
	}
	for _, n := range slices.Sorted(maps.Keys(f.fillers)) {
		f.resolve(f.fillers[n], nil)
	}
}

// resolve completes one filler. way is how it was reached, to find circles.
func (f *filling) resolve(r *resolved, way []string) {
	if r.done {
		return
	}
	if i := slices.Index(way, r.Name); i >= 0 {
		f.add(f.filler(r.Name), wire.CodeBadValue, "", "fillers are each other's parents: %s", strings.Join(append(way[i:], r.Name), " ← "))
		r.pieces, r.done = takeApart(r.Fill, r.Name), true
		return
	}
	way = append(slices.Clone(way), r.Name)
	inherited := pieces{}
	for _, n := range r.Parents {
		parent := f.fillers[n]
		if parent == nil {
			others := slices.DeleteFunc(slices.Sorted(maps.Keys(f.fillers)), func(name string) bool { return name == r.Name })
			f.add(f.filler(r.Name), wire.CodeNotFound, "", "the filler %s names a parent %s that is not there%s", strictjson.Show(r.Name), strictjson.Show(n), strictjson.DidYouMean(n, others))
			continue
		}
		f.resolve(parent, way)
		r.ancestors[n] = true
		maps.Copy(r.ancestors, parent.ancestors)
		for _, at := range slices.Sorted(maps.Keys(parent.pieces)) {
			p := parent.pieces[at]
			if other, set := inherited[at]; set && other.from != p.from {
				f.add(f.filler(r.Name), wire.CodeDuplicate, at, "the parents of filler %s disagree: %s and %s both set this", strictjson.Show(r.Name), f.show(other.from), f.show(p.from))
				continue
			}
			inherited[at] = p
		}
	}
	if r.done { // found to be its own ancestor meanwhile
		return
	}
	maps.Copy(inherited, takeApart(r.Fill, r.Name))
	r.pieces, r.done = inherited, true
}

// keepsAway says why a filler does not apply to e, or "".
func (r *resolved) keepsAway(e *entry) string {
	if !r.Filter.holds(e) {
		return "its filter does not hold"
	}
	for _, at := range slices.Sorted(maps.Keys(r.pieces)) {
		name, ok := strings.CutPrefix(at, atProperties+"/")
		if !ok || isTemplate(r.pieces[at].text) {
			continue
		}
		want := r.pieces[at].text
		switch have, ok := e.properties[unescape(name)]; {
		case ok && have != want:
			return fmt.Sprintf("the property %s is %s, not %s", strictjson.Show(unescape(name)), strictjson.Show(have), strictjson.Show(want))
		case !ok && r.Filter == nil:
			return fmt.Sprintf("there is no property %s", strictjson.Show(unescape(name)))
		}
	}
	return ""
}

// unescape reads one token of a JSON pointer.
func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// fill applies to one entry what applies to it.
func (f *filling) fill(out *Filled, e *entry, own pieces) {
	if _, taken := out.Slots[e.slot]; taken {
		f.add(f.slot(e.slot), wire.CodeDuplicate, "", "the slot %s has two entries%s", e.slot, first(f.set.places[e.slot.String()]))
		return
	}
	x := Explanation{Origins: map[string]string{}, Passed: map[string]string{}}
	var apply []*resolved
	for _, n := range slices.Sorted(maps.Keys(f.fillers)) {
		if why := f.fillers[n].keepsAway(e); why != "" {
			x.Passed[n] = why
			continue
		}
		apply = append(apply, f.fillers[n])
	}
	given := pieces{}
	for _, r := range apply {
		if heir := heirOf(r, apply); heir != "" {
			x.Passed[r.Name] = fmt.Sprintf("%s, which applies, has it as a parent", strictjson.Show(heir))
			continue
		}
		x.Fillers = append(x.Fillers, r.Name)
		for _, at := range slices.Sorted(maps.Keys(r.pieces)) {
			p := r.pieces[at]
			if other, set := given[at]; set && !other.equal(p) {
				f.add(f.slot(e.slot), wire.CodeDuplicate, at, "two fillers apply to the slot %s and disagree: %s and %s", e.slot, f.show(other.from), f.show(p.from))
				continue
			}
			given[at] = p
		}
	}
	out.Slots[e.slot] = x
	if e.class == TopologicalInstance && len(x.Fillers) == 0 {
		f.add(f.slot(e.slot), wire.CodeNotFound, "", "no filler applies to the slot %s%s", e.slot, reasons(x.Passed))
		return
	}
	for _, at := range slices.Sorted(maps.Keys(given)) {
		p, err := given[at].filledFrom(e)
		if err != nil {
			f.add(f.filler(p.from), wire.CodeBadValue, at, "filler %s, slot %s: %v", strictjson.Show(p.from), e.slot, err)
		}
		own[at] = p
	}
	for at, p := range own {
		x.Origins[at] = p.from
	}
	c := own.assemble(e.slot)
	f.judge(&c, x.Origins)
	out.Configs = append(out.Configs, c)
}

func heirOf(r *resolved, among []*resolved) string {
	for _, o := range among {
		if o.ancestors[r.Name] && o != r {
			return o.Name
		}
	}
	return ""
}

// reasons tells why a few fillers do not apply.
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

// filledFrom replaces the templates in a piece by what e has.
func (p piece) filledFrom(e *entry) (piece, error) {
	var err error
	fill := func(s string) string {
		v, ferr := e.fill(s)
		if err == nil {
			err = ferr
		}
		return v
	}
	if a := p.artifact; a != nil {
		filled := *a
		filled.UUID, filled.Verification.Checksum = fill(a.UUID), fill(a.Verification.Checksum)
		filled.URLs = make([]string, len(a.URLs))
		for i, u := range a.URLs {
			filled.URLs[i] = fill(u)
		}
		p.artifact = &filled
		return p, err
	}
	p.text = fill(p.text)
	return p, err
}

// assemble puts a configuration together again.
func (ps pieces) assemble(slot Slot) Config {
	c := Config{Class: Instance, Slot: slot, Resources: map[string]Artifact{}}
	put := func(dst *map[string]string, name, v string) {
		if *dst == nil {
			*dst = map[string]string{}
		}
		(*dst)[name] = v
	}
	for at, p := range ps {
		i := strings.LastIndexByte(at, '/')
		name := unescape(at[i+1:])
		switch at[:i] {
		case atProperties:
			put(&c.Properties, name, p.text)
		case atConstraints:
			if c.Container == nil {
				c.Container = &Container{}
			}
			put(&c.Container.Constraints, name, p.text)
		case atResources:
			c.Resources[name] = *p.artifact
		case atLimits:
			if c.TimeLimits == nil {
				c.TimeLimits = map[string]Limit{}
			}
			c.TimeLimits[name] = *p.limit
		default:
			if at == atClass {
				c.Class = Class(p.text)
			} else {
				c.ConfigurationID = p.text
			}
		}
	}
	return c
}

// judge says what keeps a configuration from being run.
func (f *filling) judge(c *Config, origins map[string]string) {
	giver := func(at string) Place {
		if from := origins[at]; from != "" {
			return f.filler(from)
		}
		return f.slot(c.Slot)
	}
	for _, l := range lacks(c.Resources, c.TimeLimits) {
		at := atResources
		if l.limit != "" {
			at = strictjson.Member(atLimits, l.limit)
		}
		f.add(giver(at), l.code, at, "slot %s: %s", c.Slot, l.message)
	}
	for _, n := range slices.Sorted(maps.Keys(c.Resources)) {
		r, at := c.Resources[n], strictjson.Member(atResources, n)
		for i, u := range r.URLs {
			if err := checkURL(u); err != nil {
				f.add(giver(at), wire.CodeBadValue, fmt.Sprintf("%s/urls/%d", at, i), "slot %s: %v", c.Slot, err)
			}
		}
		if _, _, err := ParseChecksum(r.Verification.Checksum); err != nil {
			f.add(giver(at), wire.CodeBadValue, at+"/verification/checksum", "slot %s: %v", c.Slot, err)
		}
	}
}
