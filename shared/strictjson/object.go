package strictjson

import (
	"fmt"
	"strconv"

	"tandem.internal/shared/near"
	"tandem.internal/shared/wire"
)

// Field describes a member of an object. Read gets the place of the value and must read the whole value.
type Field struct {
	Name     string
	Required bool
	Read     func(At)
}

// Required describes a member that must be present.
func Required(name string, read func(At)) Field { return Field{name, true, read} }

// Optional describes a member that may be absent or null.
func Optional(name string, read func(At)) Field { return Field{name, false, read} }

// Object reads an object with these fields, at most 16, and no others. Null is the same as absent. ok reports whether
// the object was read to its end, with or without problems.
func (r *Reader) Object(a At, fields ...Field) (ok bool) {
	if !r.Is(a, '{') {
		return false
	}
	r.token()
	var seen, given uint16 // one bit for each field: present; present and not null
	var null [16]int       // offset of a field that is null
	for !r.over && r.dec.PeekKind() != '}' {
		off := r.Next()
		t, ok := r.token()
		if !ok {
			return false
		}
		name := t.String()
		here := At{Member(a.Ptr, name), r.Next()}
		i := fieldAt(fields, name)
		switch {
		case i < 0:
			r.Add(At{here.Ptr, off}, wire.CodeUnknownField, "unknown field "+Show(name)+near.Hint(name, names(fields)))
			r.Skip()
		case seen&(1<<i) != 0:
			r.twice(name, At{here.Ptr, off})
			r.Skip()
		case r.dec.PeekKind() == 'n':
			seen |= 1 << i
			null[i] = here.Off
			r.Skip()
		default:
			seen |= 1 << i
			given |= 1 << i
			fields[i].Read(here)
		}
	}
	if _, ok := r.token(); !ok {
		return false
	}
	for i, f := range fields {
		if f.Required && given&(1<<i) == 0 {
			off, why := a.Off, "is missing"
			if seen&(1<<i) != 0 {
				off, why = null[i], "is null, which is the same as missing"
			}
			r.Add(At{Member(a.Ptr, f.Name), off}, wire.CodeMissing, "the required field "+Show(f.Name)+" "+why)
		}
	}
	return true
}

// twice adds the problem of a name that was there before.
func (r *Reader) twice(name string, a At) {
	r.Add(a, wire.CodeDuplicate, "the field "+Show(name)+" appears twice")
}

// fieldAt returns the index of the field of that name; -1: there is none.
func fieldAt(fields []Field, name string) int {
	for i, f := range fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// names returns the names of fields.
func names(fields []Field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.Name
	}
	return list
}

// Members reads an object with at most most members of any name. each gets a name and the place of the value, and must
// read the whole value. Null is the same as absent. A name that is there twice is a problem.
func (r *Reader) Members(a At, most int, each func(name string, e At)) {
	r.MembersOr(a, most, each, r.twice)
}

// MembersOr is Members, but calls twice with each name that was there before, and its place; the value is passed over.
func (r *Reader) MembersOr(a At, most int, each, twice func(name string, e At)) {
	if !r.Is(a, '{') {
		return
	}
	r.token()
	seen := map[string]bool{}
	for !r.over && r.dec.PeekKind() != '}' {
		off := r.Next()
		t, ok := r.token()
		if !ok {
			return
		}
		name := t.String()
		e := At{Member(a.Ptr, name), r.Next()}
		switch {
		case seen[name]:
			twice(name, At{e.Ptr, off})
			r.Skip()
		case len(seen) == most:
			r.Add(At{e.Ptr, off}, wire.CodeTooLarge, fmt.Sprintf("more than %d fields", most))
			r.over = true
		case r.dec.PeekKind() == 'n':
			seen[name] = true
			r.Skip()
		default:
			seen[name] = true
			each(name, e)
		}
	}
	r.token()
}

// Array reads an array of at most most elements; null is not allowed. each gets an index and the place of the
// element, and must read the whole element.
func (r *Reader) Array(a At, most int, each func(i int, e At)) {
	if !r.Is(a, '[') {
		return
	}
	r.token()
	for i := 0; !r.over && r.dec.PeekKind() != ']'; i++ {
		e := At{a.Ptr + "/" + strconv.Itoa(i), r.Next()}
		switch {
		case i == most:
			r.Add(e, wire.CodeTooLarge, fmt.Sprintf("more than %d elements", most))
			r.Skip()
		case i > most:
			r.Skip()
		case r.dec.PeekKind() == 'n':
			r.Bad(e, "an element must not be null")
			r.Skip()
		default:
			each(i, e)
		}
	}
	r.token()
}
