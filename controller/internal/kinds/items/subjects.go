package items

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// KindSubjects is the source of subjects.
const KindSubjects = record.KindSubjects

// Subjects are the unit's subjects.
type Subjects struct {
	List map[string]*Subject `json:"subjects,omitempty"` // by codename

	all atomic.Pointer[[]items.Subject] // what SubjectsOf has made
}

// Subject is one of them. It is never changed, only replaced.
type Subject struct {
	Subject items.Subject `json:"subject"`
	Rev     uint64        `json:"rev"` // of its newest change
	At      time.Time     `json:"at"`
	Who     string        `json:"who,omitempty"`

	size int // bytes of the subject
}

// SubjectChange is a change of a subject. It is the data of its records.
type SubjectChange = record.SubjectData

// maxSubjects bounds the subjects of a unit; together they have at most maxBytes.
const maxSubjects = 1000

func subjectFold() *kind.Fold {
	return kind.JSON[SubjectChange, Subjects](kind.Fold{Reason: "subjects changed",
		Judge: judgeSubject, Same: sameSubject, Apply: applySubject, Load: loadSubjects})
}

// judgeSubject says why a change is refused.
func judgeSubject(c kind.Content, data any) *wire.Error {
	all, d := kind.As[Subjects](c), data.(SubjectChange)
	had := all.List[d.Codename]
	switch {
	case d.Removed && had == nil:
		return missingSubject(d.Codename)
	case d.From != 0 && had == nil:
		return refusal(wire.CodeWrongState, "", "subject %.80s was removed since", d.Codename)
	case d.From != 0 && had.Rev != d.From:
		return refusal(wire.CodeWrongState, "", "subject %s was changed since, at %s by %s: begin from what it is now",
			d.Codename, had.At.UTC().Format(time.RFC3339), had.Who)
	case d.Removed:
		return nil
	case d.Subject == nil:
		return refusal(wire.CodeMissing, "", "the subject is required")
	case d.Subject.Codename != d.Codename:
		return refusal(wire.CodeInvalidArgument, "/codename", "the subject is called %.80s here, and %.80s in its "+
			"document", d.Codename, d.Subject.Codename)
	}
	text := record.Encode(d.Subject)
	if _, problems := items.ParseSubject(text); problems != nil {
		return problems.First()
	}
	if had == nil && len(all.List) >= maxSubjects {
		return refusal(wire.CodeTooLarge, "", "a unit has at most %d subjects", maxSubjects)
	}
	size := len(text)
	for name, s := range all.List {
		if name != d.Codename {
			size += s.size
		}
	}
	if size > maxBytes {
		return refusal(wire.CodeTooLarge, "", "all subjects together would have %d bytes; at most %d are allowed", size,
			maxBytes)
	}
	return nil
}

func missingSubject(name string) *wire.Error {
	return refusal(wire.CodeNotFound, "", "there is no subject %s; tandem subject list has those that there are",
		wire.Plain(name, 80))
}

// sameSubject reports whether a subject is to be what it is.
func sameSubject(c kind.Content, data any) bool {
	d := data.(SubjectChange)
	had := kind.As[Subjects](c).List[d.Codename]
	return !d.Removed && had != nil && bytes.Equal(record.Encode(&had.Subject), record.Encode(d.Subject))
}

// applySubject changes the subjects. Data that was not judged is of a journal that was altered.
func applySubject(c kind.Content, at kind.Change, data any) kind.Content {
	d, next := data.(SubjectChange), &Subjects{List: maps.Clone(kind.As[Subjects](c).List)}
	if next.List == nil {
		next.List = map[string]*Subject{}
	}
	if d.Subject == nil {
		delete(next.List, d.Codename)
	} else {
		next.List[d.Codename] = &Subject{Subject: *d.Subject, Rev: at.Seq, At: at.At, Who: at.Who,
			size: len(record.Encode(d.Subject))}
	}
	return next
}

func loadSubjects(saved jsontext.Value) (kind.Content, error) {
	all := &Subjects{}
	if err := json.Unmarshal(saved, all); err != nil {
		return nil, err
	}
	for _, s := range all.List {
		s.size = len(record.Encode(&s.Subject))
	}
	return all, nil
}

// For returns nothing: nodes get what is made of all subjects.
func (*Subjects) For(kind.Facts) *kind.Body { return nil }

// SubjectsOf lists the subjects by codename, as what should run where is made of them. The content is that of
// KindSubjects, or nil. The list is shared: nobody writes to it.
func SubjectsOf(c kind.Content) []items.Subject {
	own := kind.As[Subjects](c)
	if all := own.all.Load(); all != nil {
		return *all
	}
	all := make([]items.Subject, 0, len(own.List))
	for _, s := range own.List {
		all = append(all, s.Subject)
	}
	slices.SortFunc(all, func(a, b items.Subject) int { return strings.Compare(a.Codename, b.Codename) })
	own.all.Store(&all) // one that was made at the same time is the same
	return all
}

// UnknownNodes are the nodes that a subject names and that were never heard of, at most kind.MaxNamed.
func UnknownNodes(u kind.Unit, s *items.Subject) (all []string) {
	for _, node := range s.Nodes {
		if _, known := u.Node(wire.KindInfo, node); !known && len(all) < kind.MaxNamed {
			all = append(all, node)
		}
	}
	return all
}

// UnknownItems says of which items that a subject names there are none, at most kind.MaxNamed.
func UnknownItems(u kind.Unit, s *items.Subject) (all []string) {
	list := kind.As[Collection](u.Content(KindItems)).List
	var known []items.Ref
	for _, it := range list {
		known = append(known, it.Ref())
	}
	for i := range s.Items {
		r := s.Items[i].Ref()
		if list[Key(r)] == nil && len(all) < kind.MaxNamed {
			all = append(all, "there is no item "+Key(r)+items.Near(r, known)+" (counts when it is created)")
		}
	}
	return all
}
