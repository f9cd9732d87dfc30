// Package follow has the unit follow the desired status of the cloud side (seed 001): what should run where is decided
// of what that asks for, and what is due for it is found by comparing, so that a restart in any stage goes on where it
// was. One item that cannot be there stops no other.
//
//tandem:pure
package follow

import (
	"cmp"
	"fmt"
	"slices"

	"tandem.internal/controller/internal/steer"
	"tandem.internal/controller/internal/unitstatus"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// Input has it decided of what the cloud side asks for: its versions of items, as far as the unit has them, its
// subjects, and its states of nodes, in place of the unit's own. It returns why something is not even decided about.
func Input(u *steer.Unit, d *cloud.DesiredStatus) []unitstatus.Failure {
	m := &asked{stock: map[string][]*items.Item{}, wanted: map[string][]*items.Item{}, failed: map[string]bool{},
		taken: map[*items.Item]*items.Item{}, kept: map[*items.Item]*items.Item{}, priority: map[*items.Item]bool{},
		exactly: map[*items.Item]items.Range{}, runs: map[use][]string{}, subject: map[string]*items.Subject{},
		ids: map[string]string{}, attached: map[use]bool{}}
	for i := range u.Current.Instances {
		in := &u.Current.Instances[i]
		at := use{in.Ref(), in.Subject}
		if !slices.Contains(m.runs[at], in.Version) {
			m.runs[at] = append(m.runs[at], in.Version)
		}
	}
	for i := range u.Items {
		it := &u.Items[i]
		for _, k := range keys(it.Meta.Type, it.ID, it.Meta.Codename) {
			m.stock[k] = append(m.stock[k], it)
		}
	}
	for i := range d.Items {
		m.take(&d.Items[i])
	}
	m.subjects(d)
	for i := range d.Instances {
		m.attach(&d.Instances[i])
	}
	m.layers(u.Current.Layers)
	u.Items = u.Items[:0:0]
	for _, it := range slices.Concat(m.items, m.old) {
		u.Items = append(u.Items, *it)
	}
	u.Subjects, u.Moves = m.all, nil // no service leaves an overloaded node where the cloud side steers
	states := States(d)
	for i := range u.Nodes {
		if n := u.Nodes[i].Info; states[n.Node] == items.Paused && n.State == items.Provisioned {
			n.State = items.Paused
		}
	}
	return m.failures
}

// States are those that nodes are set to, by name.
func States(d *cloud.DesiredStatus) map[string]items.NodeState {
	all := make(map[string]items.NodeState, len(d.Nodes))
	for i := range d.Nodes {
		all[d.Nodes[i].Item.Name()] = d.Nodes[i].State
	}
	return all
}

// Subjects are those of a desired status that are node types, and others, without what is attached to them.
func Subjects(d *cloud.DesiredStatus) (all []items.Subject) {
	for i := range d.Subjects {
		s := &d.Subjects[i]
		all = append(all, items.Subject{Codename: s.Identity.Name(), Type: s.Type, Reported: s.IsReportedFromUnit})
	}
	return all
}

// asked is what a desired status asks for, on its way to an input.
type asked struct {
	stock    map[string][]*items.Item    // versions that the unit has, by name and by ID
	wanted   map[string][]*items.Item    // those of them that may be used, the same way
	failed   map[string]bool             // names and IDs of items of which a version is not there
	taken    map[*items.Item]*items.Item // those that may be used, by those of the stock
	kept     map[*items.Item]*items.Item // those that only go on where they run, by those of the stock
	runs     map[use][]string            // versions that run
	items    []*items.Item               // taken
	old      []*items.Item               // kept
	all      []items.Subject
	subject  map[string]*items.Subject // by name and by ID
	ids      map[string]string         // of subjects that have one, by name
	attached map[use]bool
	failures []unitstatus.Failure
	priority map[*items.Item]bool        // was said
	exactly  map[*items.Item]items.Range // that has this version only
}

// use is an item for a subject.
type use struct {
	items.Ref
	subject string
}

// keys are the names of an item: by its ID, and by its codename, as far as it has them.
func keys(t items.Type, id, codename string) (all []string) {
	if id != "" {
		all = append(all, string(t)+" id "+id)
	}
	if codename != "" {
		all = append(all, string(t)+" "+codename)
	}
	return all
}

// key is the name by which an item is meant: its ID, if it has one, and else its codename.
func key(t items.Type, id *cloud.Identity) string {
	return append(keys(t, id.ID, id.Codename), "")[0]
}

// take takes a version that may be used, if the unit has it, and has it as it is meant.
func (m *asked) take(w *cloud.DesiredItem) {
	t := items.Type(w.Item.Type)
	known := m.stock[key(t, &w.Item)]
	f := unitstatus.Failure{Ref: items.Ref{Type: t, Codename: w.Item.Codename}, Version: w.Version}
	if len(known) > 0 {
		f.Ref = known[0].Meta.Ref()
	} else {
		f.ID = w.Item.ID
	}
	var it *items.Item
	var versions []string
	for _, v := range known {
		versions = append(versions, v.Meta.Version)
		if v.Meta.Version == w.Version {
			it = v
		}
	}
	switch {
	case len(known) == 0:
		f.Error = wire.New(wire.CodeNotFound, "", "the unit has no such item: release it there")
	case it == nil:
		f.Error = wire.New(wire.CodeNotFound, "", "the unit does not have this version"+near.Hint(w.Version, versions)+
			": release it there")
	case w.IndexDigest != "" && w.IndexDigest != it.Digest:
		f.Error = wire.New(wire.CodeHashMismatch, "", "the unit has it with the content "+it.Digest+", and it is to "+
			"have "+w.IndexDigest)
	case it.State == items.Preparation:
		f.Error = wire.New(wire.CodeWrongState, "", "it is in preparation in the unit, and not ready to be deployed")
	}
	if f.Error != nil {
		m.failures = append(m.failures, f)
		names := keys(t, w.Item.ID, w.Item.Codename)
		if len(known) > 0 {
			names = append(names, keys(t, known[0].ID, known[0].Meta.Codename)...)
		}
		for _, k := range names {
			m.failed[k] = true
		}
		return
	}
	if m.taken[it] != nil {
		return
	}
	own := copyOf(it)
	m.taken[it], m.items = own, append(m.items, own)
	for _, k := range keys(t, it.ID, it.Meta.Codename) {
		m.wanted[k] = append(m.wanted[k], own)
	}
}

// keep has a version of the stock go on, and returns it as it is decided about: what runs stays where it is, and
// nothing is started in it.
func (m *asked) keep(it *items.Item) *items.Item {
	own := copyOf(it)
	if it.Meta.Type != items.Layer {
		own.State = items.Deprecated
	}
	m.kept[it], m.old = own, append(m.old, own)
	return own
}

func copyOf(it *items.Item) *items.Item {
	own := *it
	own.Meta.Dependencies = slices.Clone(it.Meta.Dependencies)
	return &own
}

// running is the version of an item that runs for a subject, to stay until the one that is asked for is there; nil:
// none does. It may be used by nothing else.
func (m *asked) running(t items.Type, in *cloud.DesiredInstance) *items.Item {
	for _, it := range m.stock[key(t, &in.Item)] {
		if !slices.Contains(m.runs[use{it.Meta.Ref(), m.nameOf(&in.Subject)}], it.Meta.Version) {
			continue
		}
		if own := cmp.Or(m.taken[it], m.kept[it]); own != nil {
			return own
		}
		return m.keep(it)
	}
	return nil
}

// layers has what is kept go on with the layers that it has. What is asked for takes those that are asked for, as far
// as they will do.
func (m *asked) layers(installed []items.InstalledLayer) {
	on := map[items.InstalledLayer]bool{} // whatever the node
	for _, l := range installed {
		on[items.InstalledLayer{Codename: l.Codename, Version: l.Version}] = true
	}
	here := func(it *items.Item) bool {
		return on[items.InstalledLayer{Codename: it.Meta.Codename, Version: it.Meta.Version}]
	}
	more := map[items.Ref]bool{}      // layers that are kept
	for i := 0; i < len(m.old); i++ { // grows on the way
		for _, d := range layersOf(m.old[i]) {
			it := m.choose(d, here)
			if it != nil && m.taken[it] == nil && m.kept[it] == nil {
				m.keep(it)
				more[d.Ref()] = true
			}
		}
	}
	for _, it := range m.items {
		for _, d := range layersOf(it) {
			if more[d.Ref()] {
				m.choose(d, func(it *items.Item) bool { return m.taken[it] != nil })
			}
		}
	}
}

// layersOf are the dependencies of an item on layers.
func layersOf(it *items.Item) (all []*items.Dependency) {
	for i := range it.Meta.Dependencies {
		if d := &it.Meta.Dependencies[i]; d.Type == items.Layer && !d.Condition.Weak() {
			all = append(all, d)
		}
	}
	return all
}

// choose has the highest of some versions that will do be the only one that does, and returns it; nil: none will.
func (m *asked) choose(d *items.Dependency, of func(*items.Item) bool) (best *items.Item) {
	var high items.Version
	for _, it := range m.stock[key(items.Layer, &cloud.Identity{Codename: d.Codename})] {
		v, err := items.ParseVersion(it.Meta.Version)
		if err == nil && of(it) && d.Versions.Has(v, d.IncludePreRelease) && (best == nil || v.Compare(high) > 0) {
			best, high = it, v
		}
	}
	if best == nil {
		return nil
	}
	exactly, err := items.ParseRange("=" + best.Meta.Version)
	if err != nil {
		return nil // cannot happen: it is a version
	}
	d.Versions, d.IncludePreRelease = exactly, true
	return best
}

// subjects takes the subjects. Of which a name cannot be one here, entries are refused by it.
func (m *asked) subjects(d *cloud.DesiredStatus) {
	m.all = make([]items.Subject, 0, len(d.Subjects)) // never grows: elements stay where they are
	for i, s := range Subjects(d) {
		if !wire.ValidName(s.Codename) {
			continue
		}
		m.all = append(m.all, s)
		own := &m.all[len(m.all)-1]
		m.subject[s.Codename] = own
		if id := d.Subjects[i].Identity.ID; id != "" {
			m.subject[subjectID+id], m.ids[s.Codename] = own, id
		}
	}
}

// subjectID begins the ID of a subject; no name has a space.
const subjectID = "id "

// meant is the subject that is meant, by its ID, or by its name if it has no other ID; nil: there is none.
func (m *asked) meant(id *cloud.Identity) *items.Subject {
	if s := m.subject[subjectID+id.ID]; s != nil {
		return s
	}
	if own := m.ids[id.Name()]; own != "" && id.ID != "" && own != id.ID {
		return nil
	}
	return m.subject[id.Name()]
}

// nameOf is what the subject that is meant goes by.
func (m *asked) nameOf(id *cloud.Identity) string {
	if s := m.meant(id); s != nil {
		return s.Codename
	}
	return id.Name()
}

// attach attaches an item to a subject, as it is asked for.
func (m *asked) attach(in *cloud.DesiredInstance) {
	it, missing := m.version(in)
	if it == nil {
		if missing != nil {
			m.failures = append(m.failures, *missing)
		}
		return
	}
	refuse := func(code wire.Code, format string, args ...any) {
		m.failures = append(m.failures, unitstatus.Failure{Ref: it.Meta.Ref(), Version: it.Meta.Version,
			Subject: m.nameOf(&in.Subject), Error: wire.New(code, "", fmt.Sprintf(format, args...))})
	}
	subject := m.meant(&in.Subject)
	if it.Meta.Type == items.Service && in.NumInstances == 0 {
		return // none is asked for
	}
	if subject == nil {
		refuse(wire.CodeNotFound, "the subject %.80s is none of the desired status", in.Subject.Name())
		return
	}
	at := use{it.Meta.Ref(), subject.Codename}
	if m.attached[at] {
		refuse(wire.CodeDuplicate, "it is asked for in several versions for one subject")
		return
	}
	exactly, known := m.exactly[it]
	if !known {
		var err error
		if exactly, err = items.ParseRange("=" + it.Meta.Version); err != nil {
			refuse(wire.CodeBadValue, "%s", err)
			return
		}
		m.exactly[it] = exactly
	}
	a := items.Attachment{Type: it.Meta.Type, Codename: it.Meta.Codename, Versions: exactly, IncludePreRelease: true,
		Labels: in.Labels}
	if it.Meta.Type == items.Service {
		a.Instances = in.NumInstances
	}
	if p := in.Priority; p != nil { // of several the highest
		if !m.priority[it] || *p > it.Meta.Priority {
			it.Meta.Priority = *p
		}
		m.priority[it] = true
	}
	subject.Items = append(subject.Items, a)
	m.attached[at] = true
}

// version is the version that an entry is about; nil, and why it is none. What has failed already is not told again.
func (m *asked) version(in *cloud.DesiredInstance) (best *items.Item, missing *unitstatus.Failure) {
	types := []items.Type{items.Component, items.Service}
	if in.Item.Type != "" {
		types = []items.Type{items.Type(in.Item.Type)}
	}
	var high items.Version
	for _, t := range types {
		for _, it := range m.wanted[key(t, &in.Item)] {
			v, err := items.ParseVersion(it.Meta.Version)
			if err != nil || in.Version != "" && it.Meta.Version != in.Version {
				continue
			}
			if best == nil || v.Compare(high) > 0 {
				best, high = it, v
			}
		}
		if best == nil && m.failed[key(t, &in.Item)] {
			return m.running(t, in), nil
		}
	}
	f := &unitstatus.Failure{Ref: items.Ref{Type: types[len(types)-1], Codename: in.Item.Codename}, ID: in.Item.ID,
		Version: in.Version, Subject: m.nameOf(&in.Subject)}
	switch {
	case best == nil:
		f.Error = wire.New(wire.CodeNotFound, "", "it is none of the items of the desired status")
		return nil, f
	case best.Meta.Type == items.Layer:
		f.Error = wire.New(wire.CodeNotSupported, "", "a layer comes with what needs it, and is not run")
		return nil, f
	}
	return best, nil
}
