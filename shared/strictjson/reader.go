// Package strictjson reads JSON documents according to a description of their format: each field has a name and a type,
// and a field that the description does not have is a problem. It reports all problems that it finds in one pass, each
// with JSON pointer, line and column. It is pure.
//
//tandem:pure
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// Reader reads a JSON document and collects problems with their places. It needs memory only for the values that it
// returns. After a syntax error, or MaxProblems problems, reading is over: every method returns at once, with ok false.
type Reader struct {
	data     []byte
	dec      *jsontext.Decoder
	problems []unplaced
	over     bool // see Over
}

// At is the place of a value: its JSON pointer (RFC 6901) and its offset in bytes.
type At struct {
	Ptr string
	Off int
}

// Limits are the limits of a document.
type Limits struct {
	Size  int // bytes
	Depth int // levels of nesting
}

// Read calls root with a Reader of data, checks that nothing follows the document, and returns the problems.
func Read(data []byte, most Limits, root func(*Reader)) Problems {
	r := &Reader{data: data}
	switch {
	case len(data) > most.Size:
		r.Add(At{}, wire.CodeTooLarge,
			fmt.Sprintf("the document has %d bytes; at most %d are allowed", len(data), most.Size))
	case len(bytes.TrimSpace(data)) == 0:
		r.Add(At{}, wire.CodeMalformed, "the document is empty")
	case bytes.HasPrefix(data, []byte("\ufeff")):
		r.Add(At{}, wire.CodeMalformed, "the document begins with a byte order mark, which JSON does not allow")
	case isYAML(data):
		r.Add(At{}, wire.CodeMalformed, "the document is YAML, and JSON is expected")
	default:
		if off, deep := tooDeep(data, most.Depth); deep {
			r.Add(At{pointer(data[:off+1]), off}, wire.CodeMalformed,
				fmt.Sprintf("nested more than %d levels deep", most.Depth))
			break
		}
		// Duplicate names are allowed here so that the reader can report every one of them.
		r.dec = jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
		root(r)
		r.end()
	}
	return placeAll(data, r.problems)
}

// isYAML reports whether a document begins as YAML does and JSON never does: with a mark, a directive, an item of a
// list, or a name without quotes and a colon, maybe after comments. The expression takes much memory, which a document
// that begins as JSON does not cost.
func isYAML(data []byte) bool {
	if c := bytes.TrimSpace(data)[0]; c == '{' || c == '[' {
		return false
	}
	return regexp.MustCompile(`^(\s*(#[^\n]*)?\n)*[ \t]*(---|%YAML\b|-|[A-Za-z_][A-Za-z0-9_. -]*:)(\s|$)`).Match(data)
}

// tooDeep returns the offset of the first bracket that is nested deeper than most levels.
func tooDeep(data []byte, most int) (int, bool) {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return i, true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return 0, false
}

// pointer returns the JSON pointer of the last value that begins in data.
func pointer(data []byte) string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := dec.ReadToken(); err != nil { // the end of data, or a syntax error before it
			return string(dec.StackPointer())
		}
	}
}

// Add adds a problem, unless reading is over.
func (r *Reader) Add(a At, code wire.Code, message string) {
	if r.over {
		return
	}
	r.problems = append(r.problems, unplaced{wire.New(code, a.Ptr, message), a.Off})
	r.over = len(r.problems) >= MaxProblems
}

// Bad adds a problem with code bad-value.
func (r *Reader) Bad(a At, message string) { r.Add(a, wire.CodeBadValue, message) }

// fail adds a syntax error as a problem and ends reading.
func (r *Reader) fail(err error) {
	a, message := At{"", len(r.data)}, "the document ends too early"
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		a.Ptr = string(s.JSONPointer)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			a.Off, message = int(s.ByteOffset), s.Err.Error()
			if trailingComma(r.data, a.Off) {
				message = "a comma stands before a closing bracket"
			} else if r.dec.InputOffset() == 0 {
				message = "the document is not JSON: " + message
			}
		}
	} else if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		message = err.Error()
	}
	r.Add(a, wire.CodeMalformed, message)
	r.over = true
}

// trailingComma reports whether there is a comma at off, and a closing bracket next.
func trailingComma(data []byte, off int) bool {
	if off >= len(data) || data[off] != ',' {
		return false
	}
	rest := bytes.TrimLeft(data[off+1:], " \t\r\n")
	return len(rest) > 0 && (rest[0] == '}' || rest[0] == ']')
}

// end checks that nothing follows the document.
func (r *Reader) end() {
	if r.over {
		return
	}
	off := r.Next()
	if _, err := r.dec.ReadToken(); err == nil {
		r.Add(At{"", off}, wire.CodeMalformed, "something follows the end of the document")
	} else if !errors.Is(err, io.EOF) {
		r.fail(err)
	}
}

// Next returns the byte offset of the next token.
func (r *Reader) Next() int {
	off := int(r.dec.InputOffset())
	for off < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[off]) >= 0 {
		off++
	}
	return off
}

// Here returns the place of the document's root, before anything is read.
func (r *Reader) Here() At { return At{"", r.Next()} }

// token reads one token; ok is false when reading is over.
func (r *Reader) token() (t jsontext.Token, ok bool) {
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

// Skip reads one value of any type and checks its syntax only.
func (r *Reader) Skip() {
	if r.over {
		return
	}
	if err := r.dec.SkipValue(); err != nil {
		r.fail(err)
	}
}

// Over reports whether reading has ended early.
func (r *Reader) Over() bool { return r.over }

// Peek returns the kind of the next token without reading it; 0 when reading is over.
func (r *Reader) Peek() jsontext.Kind {
	if r.over {
		return 0
	}
	return r.dec.PeekKind()
}

// Is reports whether the next value has the kind want. If not, it adds a problem and skips the value.
func (r *Reader) Is(a At, want jsontext.Kind) bool {
	if r.over {
		return false
	}
	got := r.dec.PeekKind()
	if got == want {
		return true
	}
	bad := func() { r.Bad(a, fmt.Sprintf("must be %s, not %s", kindName(want), kindName(got))) }
	if got == '{' || got == '[' { // before what is wrong inside
		bad()
		r.Skip()
		return false
	}
	if r.Skip(); !r.over { // else it is not even what it begins like
		bad()
	}
	return false
}

// kindName returns the name of a kind in messages.
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

// Str reads a string.
func (r *Reader) Str(a At) (string, bool) {
	if !r.Is(a, '"') {
		return "", false
	}
	t, ok := r.token()
	if !ok {
		return "", false
	}
	return t.String(), true
}

// Bool reads true or false.
func (r *Reader) Bool(a At) (v, ok bool) {
	k := r.Peek()
	if k != 't' && k != 'f' {
		r.Is(a, 't') // adds the problem
		return false, false
	}
	_, ok = r.token()
	return k == 't', ok
}

// Number reads a number as its literal text.
func (r *Reader) Number(a At) (string, bool) {
	if !r.Is(a, '0') {
		return "", false
	}
	t, ok := r.token()
	if !ok {
		return "", false
	}
	return t.String(), true
}

// Member appends the name of an object's member to a JSON pointer (RFC 6901). A long name is cut off.
func Member(ptr, name string) string {
	if len(name) > wire.MaxPath {
		name = name[:wire.MaxPath]
	}
	return string(jsontext.Pointer(ptr).AppendToken(name))
}
