// Package strictjson reads JSON documents by their format's description: every field is named, its
// kind is known, and whatever else is there is refused. It reports all the problems that one pass
// can find, each with its JSON pointer, line and column, and never keeps more of a document than it
// is told to. It is pure.
//
//tandem:pure
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// Reader reads a JSON document by the description of its format, and collects all problems with their
// places. Its memory grows only with the values that it returns. After a syntax error, or MaxProblems
// problems, the reading is over: every method returns at once, with ok false.
type Reader struct {
	data     []byte
	dec      *jsontext.Decoder
	problems []found
	over     bool // see Over
}

// At is the place of a value: JSON pointer and byte offset.
type At struct {
	Ptr string
	Off int
}

// Limits bound a document.
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
	return place(data, r.problems)
}

// tooDeep finds the first bracket that nests deeper than most, in one pass over the bytes.
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

// pointer returns the place of the last value that begins in data.
func pointer(data []byte) string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := dec.ReadToken(); err != nil { // the end of data, or a syntax error before it
			return string(dec.StackPointer())
		}
	}
}

// Add records a problem.
func (r *Reader) Add(a At, code wire.Code, message string) {
	if r.over {
		return
	}
	r.problems = append(r.problems, found{wire.New(code, a.Ptr, message), a.Off})
	r.over = len(r.problems) >= MaxProblems
}

// Bad records a value outside its range.
func (r *Reader) Bad(a At, message string) { r.Add(a, wire.CodeBadValue, message) }

// fail records a syntax error and ends the reading.
func (r *Reader) fail(err error) {
	a, message := At{"", len(r.data)}, "the document ends too early"
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		a.Ptr = string(s.JSONPointer)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			a.Off, message = int(s.ByteOffset), s.Err.Error()
			if trailingComma(r.data, a.Off) {
				message = "a comma stands before a closing bracket"
			}
		}
	} else if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		message = err.Error()
	}
	r.Add(a, wire.CodeMalformed, message)
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

// Here is the place of the document's root, before anything is read.
func (r *Reader) Here() At { return At{"", r.Next()} }

// token reads one token; ok is false when the reading is over.
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

// Skip passes over one value of any shape, checking its syntax.
func (r *Reader) Skip() {
	if r.over {
		return
	}
	if err := r.dec.SkipValue(); err != nil {
		r.fail(err)
	}
}

// Over reports whether the reading has ended early.
func (r *Reader) Over() bool { return r.over }

// Peek returns the kind of the next token without reading it: 0 when the reading is over.
func (r *Reader) Peek() jsontext.Kind {
	if r.over {
		return 0
	}
	return r.dec.PeekKind()
}

// Is reports whether the next value has the kind wanted. If not, it records that and skips it.
func (r *Reader) Is(a At, want jsontext.Kind) bool {
	if r.over {
		return false
	}
	got := r.dec.PeekKind()
	if got == want {
		return true
	}
	if got != 0 && got != '}' && got != ']' { // otherwise it is a syntax error, which skip reports
		r.Bad(a, fmt.Sprintf("must be %s, not %s", kindName(want), kindName(got)))
	}
	r.Skip()
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
		r.Is(a, 't') // records what it is instead
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

// Member appends an object's member to a JSON pointer (RFC 6901).
func Member(ptr, name string) string {
	if len(name) > wire.MaxPath {
		name = name[:wire.MaxPath]
	}
	return string(jsontext.Pointer(ptr).AppendToken(name))
}
