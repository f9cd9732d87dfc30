package workload

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/lenientjson"
	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Warning reports a mistake that Strict repairs, and its place.
type Warning = lenientjson.Warning

// Strict returns the strict document that says what data means: Parse reads it without a problem. It repairs the
// mistakes in the seed's own examples, with a warning for each: punctuation (see package lenientjson), a checksum
// without its algorithm, a property that is there twice, and a missing size, checkPeriod, or properties or resources of
// a filler. What is strict already is returned as it is. Everything keeps its line, and its column unless something is
// inserted before it there. Problems are those of a document that cannot be repaired; there is none of it then.
func Strict(data []byte) ([]byte, []Warning, Problems) {
	if len(data) > MaxDocument {
		_, problems := Parse(data) // which refuses it
		return nil, nil, problems
	}
	data, warnings := lenientjson.Repair(data)
	p := &parser{lenient: true, filler: (*parser).readFiller}
	_, problems := parse(data, p)
	slices.SortStableFunc(p.slips, func(a, b slip) int { return cmp.Compare(a.off, b.off) })
	lines := strictjson.LinesOf(data)
	for _, s := range p.slips {
		line, column := lines.Place(strictjson.At{Off: s.off})
		warnings = append(warnings, Warning{Line: line, Column: column, Message: s.message})
	}
	if problems != nil {
		return nil, warnings, problems
	}
	if len(p.slips) > 0 {
		data, _ = lenientjson.Repair(withRemedies(data, p.slips)) // which leaves commas that are too many
	}
	if len(data) > MaxDocument {
		return nil, warnings, Problems{wire.New(wire.CodeTooLarge, "", fmt.Sprintf("with what is left out in it the "+
			"document has %d bytes; at most %d are allowed", len(data), MaxDocument))}
	}
	return data, warnings, nil
}

// ParseStoredLenient is ParseStored for a document that was accepted leniently and stored as it was, as controllers did
// before they stored the strict one.
func ParseStoredLenient(data []byte) (*Set, Problems) {
	data, _ = lenientjson.Repair(data)
	return parse(data, &parser{lenient: true, stored: true, filler: (*parser).readFiller})
}

// change replaces what is from one offset to another.
type change struct {
	from, to int
	by       []byte
}

// withRemedies returns a document with the remedies of its slips. It may have commas too many then.
func withRemedies(data []byte, slips []slip) []byte {
	changes := make([]change, len(slips))
	for i, s := range slips {
		changes[i] = s.change(data)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	var out []byte
	done := 0
	for _, c := range changes {
		out = append(append(out, data[done:c.from]...), c.by...)
		done = c.to
	}
	return append(out, data[done:]...)
}

// change returns what the remedy of a slip changes.
func (s slip) change(data []byte) change {
	inside := s.off + 1 // behind the bracket or quotation mark
	switch {
	case s.member != "":
		if at, ok := nullMember(data[s.off:], s.member); ok {
			return change{s.off + at, s.off + at + len("null"), []byte(s.value)}
		}
		return change{inside, inside, []byte(`"` + s.member + `":` + s.value + `,`)}
	case s.value != "":
		return change{inside, inside, []byte(s.value)}
	}
	end := s.off + endOfMember(data[s.off:])
	return change{s.off, end, bytes.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, data[s.off:end])}
}

// nullMember returns the offset of the value of an object's member that is null, which is the same as a missing one;
// false: there is none.
func nullMember(object []byte, name string) (int, bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' {
		var t jsontext.Token
		if t, err = dec.ReadToken(); err != nil {
			break
		}
		found := t.String() == name && dec.PeekKind() == 'n'
		if err = dec.SkipValue(); found {
			return int(dec.InputOffset()) - len("null"), err == nil
		}
	}
	return 0, false
}

// endOfMember returns the end of the value of the member that data begins with.
func endOfMember(data []byte) int {
	end := endOfValue(data)
	end += bytes.IndexByte(data[end:], ':') + 1
	return end + endOfValue(data[end:])
}

// endOfValue returns the end of the value that data begins with.
func endOfValue(data []byte) int {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	if err := dec.SkipValue(); err != nil {
		panic("workload: a value cannot be read again: " + err.Error()) // cannot happen: the parser has read it
	}
	return int(dec.InputOffset())
}
