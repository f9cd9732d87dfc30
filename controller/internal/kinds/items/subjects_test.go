package items

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// TestSubjects: a subject is set as a whole, from what it was if that is said, and removed.
func TestSubjects(t *testing.T) {
	u := newUnit(t)
	subject := func(name string, priority int) SubjectChange {
		return SubjectChange{Codename: name,
			Subject: &items.Subject{Codename: name, Type: items.Group, Priority: priority}}
	}
	u.must(KindSubjects, subject("line", 1))
	u.must(KindSubjects, subject("gate", 1))
	if same, err := u.change(KindSubjects, subject("line", 1)); !same || err != nil {
		t.Errorf("the same again: %v, %v", same, err)
	}
	u.must(KindSubjects, subject("line", 2))
	if all := SubjectsOf(u.contents[KindSubjects]); len(all) != 2 || all[0].Codename != "gate" || all[1].Priority != 2 {
		t.Errorf("%+v", all)
	}
	late := subject("line", 3)
	late.From = 1
	u.refused(KindSubjects, late, wire.CodeWrongState, "", "changed since, at 2026-11-26T09:03:00Z by token/ann")
	late.From = 3
	u.must(KindSubjects, late)

	u.refused(KindSubjects, SubjectChange{Codename: "line"}, wire.CodeMissing, "", "required")
	u.refused(KindSubjects, SubjectChange{Codename: "none", Removed: true}, wire.CodeNotFound, "", "no subject none")
	moved := subject("line", 1)
	moved.Codename = "gate"
	u.refused(KindSubjects, moved, wire.CodeInvalidArgument, "/codename", "line in its document")
	bad := subject("line", 1)
	bad.Subject.Items = []items.Attachment{{Type: items.Layer, Codename: "python"}}
	u.refused(KindSubjects, bad, wire.CodeBadValue, "/items/0/type", "component, service")
	u.must(KindSubjects, SubjectChange{Codename: "gate", Removed: true})
	gone := subject("gate", 1)
	gone.From = 2
	u.refused(KindSubjects, gone, wire.CodeWrongState, "", "was removed since")
	if all := SubjectsOf(u.contents[KindSubjects]); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

// TestSubjectBounds: the subjects of a unit and their bytes are bounded.
func TestSubjectBounds(t *testing.T) {
	c := &Subjects{List: map[string]*Subject{}}
	one := items.Subject{Type: items.Group}
	for i := range items.MaxAttached {
		one.Nodes = append(one.Nodes, fmt.Sprint("node-", i))
	}
	for i := range maxSubjects {
		one.Codename = fmt.Sprint("s", i)
		c.List[one.Codename] = &Subject{Subject: one, size: len(record.Encode(&one))}
	}
	d := SubjectChange{Codename: "more", Subject: &items.Subject{Codename: "more", Type: items.Group}}
	if err := judgeSubject(c, d); err == nil || !strings.Contains(err.Message, "at most 1000 subjects") {
		t.Error(err)
	}
	delete(c.List, "s0")
	if err := judgeSubject(c, d); err == nil || !strings.Contains(err.Message, "at most 8388608") {
		t.Error(err)
	}
}
