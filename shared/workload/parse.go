package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tandem.internal/shared/near"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Parse reads one file: an array of configurations, topologies and fillers in any order. It is strict, according to
// the tables of seed 004. Each problem has its line, column and JSON pointer.
func Parse(data []byte) (*Set, Problems) { return parse(data, &parser{filler: (*parser).readFiller}) }

// ParseStored reads what was accepted before, as Parse did then: rules that are newer than the format do not refuse it,
// and it stays as it was written.
func ParseStored(data []byte) (*Set, Problems) {
	return parse(data, &parser{stored: true, filler: (*parser).readFiller})
}

// parser reads one file.
type parser struct {
	*strictjson.Reader
	lenient bool
	stored  bool // it was accepted before, see ParseStored
	// readFiller; nil where there can be none: without it, and what it needs, the agent is 16 KB smaller
	filler func(p *parser, i int, x *raw, names map[string]int)
	slips  []slip
	set    Set
	lines  strictjson.Lines
}

// parse reads one file; the set is nil if there are problems.
func parse(data []byte, p *parser) (*Set, Problems) {
	p.lines, p.set.stored = strictjson.LinesOf(data), p.stored
	ps := strictjson.Read(data, documentLimits, func(r *strictjson.Reader) {
		p.Reader = r
		slots, names := map[string]int{}, map[string]int{}
		r.Array(r.Here(), MaxEntries, func(i int, e strictjson.At) { p.entry(i, e, slots, names) })
	})
	if ps != nil {
		return nil, ps
	}
	return &p.set, nil
}

// slip is a mistake that is tolerated, and its remedy: what Strict writes.
type slip struct {
	off     int    // of the object that lacks member, of the text that lacks value, or of what is too much
	message string // of the warning
	member  string // what the object lacks
	value   string // of the member, or what the text lacks at its beginning; both "": a member is too much
}

// tolerable reports a mistake: as a problem, or as a slip if the parser is lenient. instead is the end of the warning:
// what the parser reads in place of the mistake. member and value are those of the slip.
func (p *parser) tolerable(a strictjson.At, code wire.Code, message, instead, member, value string) {
	if !p.lenient {
		p.Add(a, code, message)
		return
	}
	p.slips = append(p.slips, slip{a.Off, message + instead, member, value})
}

// raw has the members of one entry of any class, or of a filler's instance. The class may be anywhere in an entry, so
// all members are read before it is known.
type raw struct {
	class, slot, name, filter               string
	classAt, slotAt, nameAt, filterAt, inAt strictjson.At
	id                                      string
	idAt, propsAt, resAt                    strictjson.At
	container                               *Container
	properties                              map[string]string
	resources                               map[string]Artifact
	limits                                  map[string]Limit
	limitsAt                                map[string]strictjson.At
	parents                                 []string
	needs                                   []given
	inner                                   *raw
	given                                   map[string]strictjson.At // places of the members that are present, by name
}

// shortClasses are the short names of the classes of entries.
var shortClasses = []string{"Instance", "Job", "TopologicalInstance", "InstanceFiller"}

// entry reads element i of the file. slots and names have the elements of the slots, by key, and fillers so far.
func (p *parser) entry(i int, e strictjson.At, slots, names map[string]int) {
	x := p.members(e, true)
	if p.Over() || x == nil {
		return
	}
	if _, ok := x.given["@class"]; !ok {
		p.Add(strictjson.At{Ptr: strictjson.Member(e.Ptr, "@class"), Off: e.Off}, wire.CodeMissing,
			`the required field "@class" is missing`)
		return
	}
	class, ok := p.class(x, shortClasses)
	if !ok {
		return
	}
	at := Place{}
	at.Line, at.Column = p.lines.Place(e)
	rule := rules[class]
	for _, f := range slices.Sorted(maps.Keys(x.given)) {
		if _, known := rule[f]; !known {
			p.Add(x.given[f], wire.CodeUnknownField, fmt.Sprintf("%s has no field %s", class.Short(),
				strictjson.Show(f)))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(rule)) {
		if _, given := x.given[f]; rule[f] && !given {
			p.Add(strictjson.At{Ptr: strictjson.Member(e.Ptr, f), Off: e.Off}, wire.CodeMissing,
				fmt.Sprintf("the required field %s is missing", strictjson.Show(f)))
		}
	}
	switch class {
	case InstanceFiller:
		if p.filler == nil {
			p.set.Fillers = append(p.set.Fillers, Filler{}) // who reads a document refuses it
			return
		}
		p.filler(p, i, x, names)
		p.set.addPlace(" "+x.name, at)
	default:
		slot, ok := p.slot(x)
		if ok {
			key := slotKey(slot, class)
			if first, taken := slots[key]; taken {
				p.Add(x.slotAt, wire.CodeDuplicate, fmt.Sprintf("the slot %s has an entry already, /%d", slot, first))
			}
			slots[key] = i
			p.set.addPlace(key, at)
		}
		if class == TopologicalInstance {
			p.set.Topologies = append(p.set.Topologies, Topology{slot, x.properties})
			return
		}
		p.set.Configs = append(p.set.Configs, Config{Class: class, ConfigurationID: x.id, Slot: slot,
			Container:  x.container,
			Properties: x.properties, Resources: x.resources, TimeLimits: x.limits, Needs: p.needsOf(x, slot)})
		p.runnable(x)
	}
}

// rules has the members that an entry of each class may have; true: required.
var rules = map[Class]map[string]bool{
	Instance: {"@class": true, "configurationId": false, "slot": true, "container": false,
		"properties": false, "resources": true, "timeLimits": false, "needs": false},
	Job: {"@class": true, "configurationId": false, "slot": true, "container": false,
		"properties": false, "resources": true, "timeLimits": false, "needs": false},
	TopologicalInstance: {"@class": true, "slot": true, "properties": true},
	InstanceFiller:      {"@class": true, "name": true, "filter": false, "parentFillers": false, "instance": true},
}

// members reads the members of an entry of any class, or, if outer is false, of a filler's instance. It returns nil if
// e is no object.
func (p *parser) members(e strictjson.At, outer bool) *raw {
	x := &raw{given: map[string]strictjson.At{}, limitsAt: map[string]strictjson.At{}}
	field := func(name string, read func(strictjson.At)) strictjson.Field {
		return strictjson.Optional(name, func(a strictjson.At) {
			x.given[name] = a
			read(a)
		})
	}
	templates := !outer
	fields := []strictjson.Field{
		field("@class", func(a strictjson.At) { x.classAt = a; x.class, _ = p.Str(a) }),
		field("configurationId", func(a strictjson.At) { x.idAt = a; x.id = p.str(a, templates) }),
		field("container", func(a strictjson.At) { x.container = p.container(a, templates) }),
		field("properties", func(a strictjson.At) { x.propsAt = a; x.properties = p.texts(a, property, templates) }),
		field("resources", func(a strictjson.At) { x.resAt = a; x.resources = p.resources(a, templates) }),
		field("timeLimits", func(a strictjson.At) { x.limits = p.timeLimits(a, x.limitsAt) }),
	}
	if outer {
		fields = append(fields,
			field("slot", func(a strictjson.At) { x.slotAt = a; x.slot, _ = p.Str(a) }),
			field("name", func(a strictjson.At) { x.nameAt = a; x.name, _ = p.Str(a) }),
			field("filter", func(a strictjson.At) { x.filterAt = a; x.filter, _ = p.Str(a) }),
			field("parentFillers", func(a strictjson.At) { x.parents = p.parents(a) }),
			field("needs", func(a strictjson.At) { x.needs = p.needs(a) }),
			field("instance", func(a strictjson.At) { x.inAt = a; x.inner = p.members(a, false) }),
		)
	}
	if !p.Object(e, fields...) {
		return nil
	}
	return x
}

// class returns the class of x, which may be given by its long or its short name. known are the short names that are
// allowed.
func (p *parser) class(x *raw, known []string) (Class, bool) {
	short := strings.TrimPrefix(x.class, classPrefix)
	if !slices.Contains(known, short) {
		p.Bad(x.classAt, fmt.Sprintf("the class %s is none of %s%s", strictjson.Show(x.class),
			strings.Join(known, ", "), near.Hint(short, known)))
		return "", false
	}
	return Class(classPrefix + short), true
}

// slot returns the slot of x; false if it is missing or malformed.
func (p *parser) slot(x *raw) (Slot, bool) {
	if _, given := x.given["slot"]; !given {
		return Slot{}, false
	}
	slot, err := ParseSlot(x.slot)
	if err != nil {
		p.Bad(x.slotAt, err.Error())
	}
	return slot, err == nil
}

// runnable reports the defects of an applicable configuration (seed 004, resources and timeLimits).
func (p *parser) runnable(x *raw) {
	if _, given := x.given["resources"]; !given {
		return
	}
	for _, w := range defects(x.container, x.resources, x.limits) {
		at := x.resAt
		if w.limit != "" {
			at = x.limitsAt[w.limit]
		}
		p.Add(at, w.code, w.message)
	}
}

// filler reads element i, a filler. names has the elements of the fillers so far.
func (p *parser) readFiller(i int, x *raw, names map[string]int) {
	if why := name(x.name); why != "" {
		p.Bad(x.nameAt, why)
	} else if first, taken := names[x.name]; taken {
		p.Add(x.nameAt, wire.CodeDuplicate, fmt.Sprintf("a filler is called %s already, /%d", strictjson.Show(x.name),
			first))
	} else {
		names[x.name] = i
	}
	f := Filler{Name: x.name, Parents: x.parents}
	if _, given := x.given["filter"]; given {
		var err *wire.Error
		if f.Filter, err = ParseFilter(x.filter); err != nil {
			p.Bad(x.filterAt, err.Message)
		}
	}
	if in := x.inner; in != nil {
		f.Fill = Template{ConfigurationID: in.id, Container: in.container, Properties: in.properties,
			Resources: in.resources, TimeLimits: in.limits}
		if _, given := in.given["@class"]; given {
			f.Fill.Class, _ = p.class(in, shortClasses[:2])
		}
		for _, must := range []string{"properties", "resources"} {
			if _, given := in.given[must]; !given && len(x.parents) == 0 { // else it is inherited
				why := fmt.Sprintf("the required field %s is missing", strictjson.Show(must))
				at := strictjson.At{Ptr: strictjson.Member(x.inAt.Ptr, must), Off: x.inAt.Off}
				p.tolerable(at, wire.CodeMissing, why, "; read as empty", must, "{}")
			}
		}
		// with parents see checkJob
		if _, given := in.given["timeLimits"]; f.Fill.Class == Job && !given && len(x.parents) == 0 {
			p.Add(strictjson.At{Ptr: strictjson.Member(x.inAt.Ptr, "timeLimits"), Off: x.inAt.Off}, wire.CodeMissing,
				noTimeLimits)
		}
	}
	p.set.Fillers = append(p.set.Fillers, f)
}

// parents reads parentFillers: the name of a filler, or an array of names.
func (p *parser) parents(a strictjson.At) []string {
	var list []string
	one := func(a strictjson.At) {
		s, ok := p.Str(a)
		if !ok {
			return
		}
		if why := name(s); why != "" {
			p.Bad(a, why)
		} else if slices.Contains(list, s) {
			p.Add(a, wire.CodeDuplicate, "the parent "+strictjson.Show(s)+" is named twice")
		} else {
			list = append(list, s)
		}
	}
	if p.Peek() == '[' {
		p.Array(a, MaxParents, func(_ int, e strictjson.At) { one(e) })
		return list
	}
	one(a)
	return list
}

// str reads a text. If templates is set, it may contain templates, which must be well-formed.
func (p *parser) str(a strictjson.At, templates bool) string { return p.shaped(a, templates, text) }

// shaped is str of a text that why has nothing against.
func (p *parser) shaped(a strictjson.At, templates bool, why func(s string, most int) string) string {
	s, ok := p.Str(a)
	if !ok {
		return ""
	}
	if why := why(s, MaxText); why != "" {
		p.Bad(a, why)
	} else if templates {
		if err := checkTemplate(s); err != nil {
			p.Bad(a, err.Error())
		}
	}
	return s
}

// texts reads an object whose members are texts. what is the noun for a member in messages. A property may have several
// lines; one that is there twice, as in the seed's example of filling, is tolerable: the filler's stands first there.
func (p *parser) texts(a strictjson.At, what string, templates bool) map[string]string {
	all, shape := map[string]string{}, text
	if what == property {
		shape = lines
	}
	p.MembersOr(a, MaxMembers, func(n string, e strictjson.At) {
		if why := name(n); why != "" {
			p.Bad(e, what+": "+why)
		}
		all[n] = p.shaped(e, templates, shape)
	}, func(n string, again strictjson.At) {
		message := "the field " + strictjson.Show(n) + " appears twice"
		if what != property {
			p.Add(again, wire.CodeDuplicate, message)
			return
		}
		p.tolerable(again, wire.CodeDuplicate, message, "; the first one counts", "", "")
	})
	return all
}

const property = "property"

// timeLimits reads time limits by hook (seed 004, timeLimits), and adds the place of each to places.
func (p *parser) timeLimits(a strictjson.At, places map[string]strictjson.At) map[string]Limit {
	all := map[string]Limit{}
	p.Members(a, MaxMembers, func(n string, e strictjson.At) {
		var l Limit
		atLeast := func(least uint64, dst **int64, rule string) func(strictjson.At) {
			return func(a strictjson.At) {
				if v, ok := p.Whole(a, least, 1<<53, rule); ok {
					n := int64(v)
					*dst = &n
				}
			}
		}
		ms := func(dst **int64) func(strictjson.At) {
			return atLeast(0, dst, "a time is a whole number of milliseconds, 0 or more")
		}
		execution := ms(&l.MaxExecutionTimeMs)
		if !p.stored {
			execution = atLeast(1, &l.MaxExecutionTimeMs, "the most time of a hook is a whole number of "+
				"milliseconds, 1 or more (without it the time is not limited)")
		}
		p.Object(e,
			strictjson.Optional("minRestartPeriodMs", ms(&l.MinRestartPeriodMs)),
			strictjson.Optional("maxRestartPeriodMs", ms(&l.MaxRestartPeriodMs)),
			strictjson.Optional("restartPeriodScaleMs", ms(&l.RestartPeriodScaleMs)),
			strictjson.Optional("restartPeriodBackoff", func(a strictjson.At) {
				lit, ok := p.Number(a)
				if !ok {
					return
				}
				v, err := strconv.ParseFloat(lit, 64)
				if err != nil || v < 0 {
					p.Bad(a, "a backoff is a number, 0 or more, not "+strictjson.Clipped(lit))
					return
				}
				v += 0 // turns a negative zero into zero
				l.RestartPeriodBackoff = &v
			}),
			strictjson.Optional("maxExecutionTimeMs", execution),
		)
		all[n], places[n] = l, e
	})
	return all
}
