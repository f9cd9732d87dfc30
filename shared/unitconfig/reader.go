package unitconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// reader walks a JSON document as a format's description tells it to, and collects problems with
// their places instead of stopping at the first. It needs no memory in proportion to the input but
// for what it keeps. After a syntax error, or MaxProblems problems, it is over: every method
// returns at once, ok false.
type reader struct {
	data     []byte
	dec      *jsontext.Decoder
	problems []found
	over     bool
}

// at is where a value stands: JSON pointer and byte offset.
type at struct {
	ptr string
	off int
}

// read runs the format's root over data, and returns the problems.
func read(data []byte, root func(*reader)) Problems {
	r := &reader{data: data}
	switch {
	case len(data) > MaxDocument:
		r.add(at{}, wire.CodeTooLarge, fmt.Sprintf("the document has %d bytes; at most %d are allowed", len(data), MaxDocument))
	case len(bytes.TrimSpace(data)) == 0:
		r.add(at{}, wire.CodeMalformed, "the document is empty")
	case bytes.HasPrefix(data, []byte("\ufeff")):
		r.add(at{}, wire.CodeMalformed, "the document begins with a byte order mark, which JSON does not allow")
	default:
		if off, deep := tooDeep(data); deep {
			r.add(at{"", off}, wire.CodeMalformed, fmt.Sprintf("nested more than %d levels deep", maxDepth))
			break
		}
		// Duplicate names are allowed here so that this package can report every one of them.
		r.dec = jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
		root(r)
		r.end()
	}
	return place(data, r.problems)
}

// tooDeep finds the first bracket that nests deeper than maxDepth, in one pass over the bytes.
func tooDeep(data []byte) (int, bool) {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i, true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return 0, false
}

// add records a problem.
func (r *reader) add(a at, code wire.Code, message string) {
	if r.over {
		return
	}
	r.problems = append(r.problems, found{wire.New(code, a.ptr, message), a.off})
	r.over = len(r.problems) >= MaxProblems
}

// bad records a value outside its range.
func (r *reader) bad(a at, message string) { r.add(a, wire.CodeBadValue, message) }

// fail records a syntax error and ends the reading.
func (r *reader) fail(err error) {
	a, message := at{"", len(r.data)}, "the document ends too early"
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		a.ptr = string(s.JSONPointer)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			a.off, message = int(s.ByteOffset), s.Err.Error()
			if trailingComma(r.data, a.off) {
				message = "a comma stands before a closing bracket"
			}
		}
	} else if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		message = err.Error()
	}
	r.add(a, wire.CodeMalformed, message)
	r.over = true
}

// trailingComma reports whether a comma stands at off with nothing but a closing bracket after it.
func trailingComma(data []byte, off int) bool {
	if off >= len(data) || data[off] != ',' {
		return false
	}
	rest := bytes.TrimLeft(data[off+1:], " \t\r\n")
	return len(rest) > 0 && (rest[0] == '}' || rest[0] == ']')
}

// end checks that nothing follows the document.
func (r *reader) end() {
	if r.over {
		return
	}
	off := r.next()
	if _, err := r.dec.ReadToken(); err == nil {
		r.add(at{"", off}, wire.CodeMalformed, "something follows the end of the document")
	} else if !errors.Is(err, io.EOF) {
		r.fail(err)
	}
}

// next returns the byte offset of the next token.
func (r *reader) next() int {
	off := int(r.dec.InputOffset())
	for off < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[off]) >= 0 {
		off++
	}
	return off
}

// token reads one token; ok is false when the reading is over.
func (r *reader) token() (t jsontext.Token, ok bool) {
	if r.over {
		return t, false
	}
	t, err := r.dec.ReadToken()
	if err != nil {
		r.fail(err)
		return t, false
	}
	return t, true
}

// skip passes over one value of any shape, checking its syntax.
func (r *reader) skip() {
	if r.over {
		return
	}
	if err := r.dec.SkipValue(); err != nil {
		r.fail(err)
	}
}

// is reports whether the next value has the kind wanted. If not, it records that and skips it.
func (r *reader) is(a at, want jsontext.Kind) bool {
	if r.over {
		return false
	}
	got := r.dec.PeekKind()
	if got == want {
		return true
	}
	if got != 0 && got != '}' && got != ']' { // otherwise it is a syntax error, which skip reports
		r.bad(a, fmt.Sprintf("must be %s, not %s", kindName(want), kindName(got)))
	}
	r.skip()
	return false
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}

// field describes a member of an object. read gets the value's place and must consume the value.
type field struct {
	name     string
	required bool
	read     func(at)
}

// object reads an object with these fields, at most 16, and no others. A null is the same as an absent field.
// ok says that it was read to its end, whatever its problems.
func (r *reader) object(a at, fields ...field) (ok bool) {
	if !r.is(a, '{') {
		return false
	}
	r.token()
	var seen, given uint16 // bits by field
	var null [16]int       // where a field is null
	for !r.over && r.dec.PeekKind() != '}' {
		off := r.next()
		t, ok := r.token()
		if !ok {
			return false
		}
		name := t.String()
		here := at{member(a.ptr, name), r.next()}
		i := fieldAt(fields, name)
		switch {
		case i < 0:
			r.add(at{here.ptr, off}, wire.CodeUnknownField, "unknown field "+show(name)+didYouMean(name, names(fields)))
			r.skip()
		case seen&(1<<i) != 0:
			r.add(at{here.ptr, off}, wire.CodeDuplicate, "the field "+show(name)+" appears twice")
			r.skip()
		case r.dec.PeekKind() == 'n':
			seen |= 1 << i
			null[i] = here.off
			r.skip()
		default:
			seen |= 1 << i
			given |= 1 << i
			fields[i].read(here)
		}
	}
	if _, ok := r.token(); !ok {
		return false
	}
	for i, f := range fields {
		if f.required && given&(1<<i) == 0 {
			off, why := a.off, "is missing"
			if seen&(1<<i) != 0 {
				off, why = null[i], "is null, which is the same as missing"
			}
			r.add(at{member(a.ptr, f.name), off}, wire.CodeMissing, "the required field "+show(f.name)+" "+why)
		}
	}
	return true
}

func fieldAt(fields []field, name string) int {
	for i, f := range fields {
		if f.name == name {
			return i
		}
	}
	return -1
}

func names(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

// array reads an array of at most most elements. A null element is refused.
func (r *reader) array(a at, most int, each func(i int, e at)) {
	if !r.is(a, '[') {
		return
	}
	r.token()
	for i := 0; !r.over && r.dec.PeekKind() != ']'; i++ {
		e := at{a.ptr + "/" + strconv.Itoa(i), r.next()}
		switch {
		case i == most:
			r.add(e, wire.CodeTooLarge, fmt.Sprintf("more than %d elements", most))
			r.skip()
		case i > most:
			r.skip()
		case r.dec.PeekKind() == 'n':
			r.bad(e, "an element must not be null")
			r.skip()
		default:
			each(i, e)
		}
	}
	r.token()
}

// str reads a string.
func (r *reader) str(a at) (string, bool) {
	if !r.is(a, '"') {
		return "", false
	}
	t, ok := r.token()
	if !ok {
		return "", false
	}
	return t.String(), true
}

// number reads a number as its literal text.
func (r *reader) number(a at) (string, bool) {
	if !r.is(a, '0') {
		return "", false
	}
	t, ok := r.token()
	if !ok {
		return "", false
	}
	return t.String(), true
}

// member appends an object's member to a JSON pointer (RFC 6901).
func member(ptr, name string) string {
	if len(name) > wire.MaxPath {
		name = name[:wire.MaxPath]
	}
	return string(jsontext.Pointer(ptr).AppendToken(name))
}
