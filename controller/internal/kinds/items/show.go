package items

import (
	"maps"
	"slices"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Creation makes the change that creates an item, from metadata.
func Creation(meta []byte, id string) (Change, *wire.Error) {
	m, problems := items.Parse(meta)
	if problems != nil {
		return Change{}, problems.First()
	}
	return Change{Type: m.Type, Codename: m.Codename, ID: id, Description: m.Description, Owner: m.Owner}, nil
}

// Release makes the change that releases a version, in preparation unless another state is said.
func Release(of items.Ref, meta, content []byte, state items.State) (Change, *wire.Error) {
	m, problems := items.Parse(meta)
	if problems != nil {
		return Change{}, under("/meta", problems.First())
	}
	c, problems := items.ParseContent(content)
	if problems != nil {
		return Change{}, under("/content", problems.First())
	}
	if state == "" {
		state = items.Preparation
	}
	return Change{Type: of.Type, Codename: of.Codename, Meta: m, Content: c, State: state}, nil
}

// Judge says why a change would be refused, whatever is in the store.
func Judge(u kind.Unit, d Change) *wire.Error { return judge(u.Content(KindItems), d) }

// ListItems lists the items of a type that have a version in a state, with these versions; of any with "".
func ListItems(u kind.Unit, t items.Type, state items.State) view.Items {
	all := view.Items{Items: []view.Item{}}
	for _, it := range kind.As[Collection](u.Content(KindItems)).sorted() {
		if t != "" && it.Type != t {
			continue
		}
		v := it.view()
		if v.Versions = slices.DeleteFunc(v.Versions, func(v view.ItemVersion) bool {
			return state != "" && v.State != state
		}); state == "" || len(v.Versions) > 0 {
			all.Items = append(all.Items, v)
		}
	}
	return all
}

// ShowItem shows an item with what its versions consist of.
func ShowItem(u kind.Unit, ref items.Ref) (view.Item, *wire.Error) {
	it := kind.As[Collection](u.Content(KindItems)).List[Key(ref)]
	if it == nil {
		return view.Item{}, missing(ref)
	}
	v := it.view()
	for i, one := range it.sorted() {
		v.Versions[i].Meta, v.Versions[i].Content = &one.Meta, &one.Content
	}
	return v, nil
}

func (it *Item) view() view.Item {
	v := view.Item{Type: it.Type, Codename: it.Codename, ID: it.ID, URN: it.URN(), Description: it.Description,
		Owner: it.Owner, Rev: it.Rev, At: it.At, Who: it.Who, Versions: make([]view.ItemVersion, 0, len(it.Versions))}
	for _, one := range it.sorted() {
		of := view.ItemVersion{Version: one.Meta.Version, State: one.State, Digest: one.Digest, Form: one.Content.Form,
			Signed: true, Rev: one.Rev, At: one.At, Who: one.Who}
		sizes := map[string]int64{}
		for i := range one.Content.Builds {
			for _, b := range one.Content.Builds[i].Files() {
				digest, size := b.Stored()
				sizes[digest] = size
				of.Signed = of.Signed && b.Minisign != ""
			}
		}
		for _, n := range sizes {
			of.Size += n
		}
		v.Versions = append(v.Versions, of)
	}
	return v
}

// ListSubjects lists the subjects, by codename.
func ListSubjects(u kind.Unit) view.Subjects {
	own := kind.As[Subjects](u.Content(KindSubjects))
	all := view.Subjects{Subjects: make([]view.Subject, 0, len(own.List))}
	for _, name := range slices.Sorted(maps.Keys(own.List)) {
		all.Subjects = append(all.Subjects, own.List[name].view())
	}
	return all
}

// ShowSubject shows a whole subject.
func ShowSubject(u kind.Unit, name string) (view.Subject, *wire.Error) {
	s := kind.As[Subjects](u.Content(KindSubjects)).List[name]
	if s == nil {
		return view.Subject{}, missingSubject(name)
	}
	v := s.view()
	v.Document = &s.Subject
	return v, nil
}

func (s *Subject) view() view.Subject {
	d := &s.Subject
	return view.Subject{Codename: d.Codename, Type: d.Type, Priority: d.Priority, Reported: d.Reported,
		Nodes: len(d.Nodes), Items: len(d.Items), Rev: s.Rev, At: s.At, Who: s.Who}
}

// What happened to an item or a subject, in words.
const (
	didCreate, didRelease, didSet, didRemove = "created", "released", "set", "removed"
)

// Past follows the items of one name through their changes, the oldest first.
type Past struct {
	Of items.Ref

	events []view.ItemEvent
	there  map[string]bool // versions
}

// Add takes the next change of any item.
func (p *Past) Add(at kind.Change, d *Change) {
	if d.Ref() != p.Of {
		return
	}
	if p.there == nil {
		p.there = map[string]bool{}
	}
	e := view.ItemEvent{Rev: at.Seq, At: at.At, Who: at.Who, Version: d.Version, Did: string(d.State)}
	switch {
	case d.ID != "":
		e.Did = didCreate
	case d.Removed:
		e.Did = didRemove
		delete(p.there, d.Version)
	case d.Meta != nil && d.Content != nil:
		e.Version = d.Meta.Version
		if !p.there[e.Version] { // else the release only made it ready
			e.Did, e.Digest = didRelease, d.Content.Digest()
		}
		p.there[e.Version] = true
	}
	p.events = append(p.events, e)
	if e.Did == didRelease && d.State == items.Ready {
		e.Did, e.Digest = string(items.Ready), ""
		p.events = append(p.events, e)
	}
}

// History lists what happened.
func (p *Past) History() (view.ItemHistory, error) {
	if len(p.events) == 0 {
		return view.ItemHistory{}, missing(p.Of)
	}
	return view.ItemHistory{Events: p.events}, nil
}

// PastSubject is Past for a subject.
type PastSubject struct {
	Of string

	events []view.ItemEvent
}

// Add takes the next change of any subject.
func (p *PastSubject) Add(at kind.Change, d *SubjectChange) {
	if d.Codename != p.Of {
		return
	}
	e := view.ItemEvent{Rev: at.Seq, At: at.At, Who: at.Who, Did: didSet}
	if d.Removed {
		e.Did = didRemove
	}
	p.events = append(p.events, e)
}

// History lists what happened.
func (p *PastSubject) History() (view.ItemHistory, error) {
	if len(p.events) == 0 {
		return view.ItemHistory{}, missingSubject(p.Of)
	}
	return view.ItemHistory{Events: p.events}, nil
}
