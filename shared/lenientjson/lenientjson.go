// Package lenientjson makes strict JSON of what people write: comments, commas that are missing,
// doubled or trailing, and brackets that are never closed. It mends punctuation only, never a name
// or a value, and tells of everything that it changed and where. It is pure.
//
// Comments and trailing commas are the HuJSON library's work; the rest, which no dialect allows,
// is done here, on the tokens.
//
//tandem:pure
package lenientjson

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Warning tells of one change. Line and Column count from 1, columns in characters.
type Warning struct {
	Line    int    `json:"line"`    // first line is 1
	Column  int    `json:"column"`  // in bytes, the first is 1
	Message string `json:"message"` // what was let pass
}

func (w Warning) String() string {
	return fmt.Sprintf("line %d, column %d: %s", w.Line, w.Column, w.Message)
}

// maxWarnings bounds them; what is mended beyond that many is no longer told.
const maxWarnings = 100

// Repair returns data as standard JSON, as far as it can be repaired, and what was changed. What
// stands where in data stands there in the result too, but where a mark had to be inserted and no
// white space made room for it. What cannot be mended is left as it is, for a strict reader to refuse.
func Repair(data []byte) ([]byte, []Warning) {
	m := &mender{in: data, out: bytes.Clone(data)}
	m.tokens()
	if len(m.inserted) > 0 {
		m.out = m.spliced()
	}
	std, err := hujson.Standardize(m.out)
	if err != nil {
		return m.out, m.warnings
	}
	return std, m.warnings
}

// mender goes over the tokens once and remembers what the grammar expects next.
type mender struct {
	in, out  []byte // of the same length until insertions are spliced in
	open     []byte // brackets that are open
	last     byte   // the token before: one of { } [ ] , : or v for a scalar value, k for a name; 0 at the start
	lastEnd  int    // behind it
	comma    int    // where the comma before stands
	inserted []insertion
	warnings []Warning
	line     int // of place
	start    int // of that line
	done     int
}

type insertion struct {
	off  int
	mark byte
}

func (m *mender) warn(off int, message string) {
	if len(m.warnings) == maxWarnings {
		return
	}
	if off < m.done {
		m.line, m.start, m.done = 0, 0, 0
	}
	passed := m.in[m.done:off]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		m.line += n
		m.start = m.done + bytes.LastIndexByte(passed, '\n') + 1
	}
	m.done = off
	m.warnings = append(m.warnings, Warning{m.line + 1, utf8.RuneCount(m.in[m.start:off]) + 1, message})
}

// tokens does the work.
func (m *mender) tokens() {
	for i := 0; i < len(m.in); {
		c := m.in[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		case c == '/':
			end := comment(m.in, i)
			if end == i {
				return // not a comment: nothing that can be mended
			}
			m.warn(i, "a comment")
			i = end
		case c == ',':
			m.atComma(i)
			i++
		case c == ':':
			m.last, m.lastEnd = ':', i+1
			i++
		case c == '{' || c == '[':
			m.before(i)
			m.open = append(m.open, c)
			m.last, m.lastEnd = c, i+1
			i++
		case c == '}' || c == ']':
			if !m.atClose(i, c) {
				return
			}
			i++
		default:
			end := scalar(m.in, i)
			if end == i {
				return
			}
			name := len(m.open) > 0 && m.open[len(m.open)-1] == '{' && m.last != ':'
			if name && (c != '"' || !followedByColon(m.in, end)) {
				return
			}
			m.before(i)
			m.last, m.lastEnd = 'v', end
			if name {
				m.last = 'k'
			}
			i = end
		}
	}
	for len(m.open) > 0 && m.last != ':' && m.last != 'k' {
		m.warn(len(m.in), "the document ends before "+closer(m.open)+" closes what was opened")
		m.insert(m.lastEnd, len(m.in), m.pop())
	}
}

// before is called where a value or a name begins: a comma is missing if a value stands before it.
func (m *mender) before(i int) {
	if len(m.open) == 0 {
		return
	}
	if m.last == 'v' || m.last == '}' || m.last == ']' {
		m.warn(m.lastEnd, "a comma is missing here")
		m.insert(m.lastEnd, i, ',')
	}
}

func (m *mender) atComma(i int) {
	switch m.last {
	case ',', '{', '[':
		m.warn(i, "a comma too many")
		m.out[i] = ' '
		return
	}
	m.comma, m.last, m.lastEnd = i, ',', i+1
}

// atClose closes c's bracket, and first those within it that were left open.
func (m *mender) atClose(i int, c byte) bool {
	if m.last == ',' {
		m.warn(m.comma, "a comma before a closing bracket")
	}
	for n := len(m.open); n > 0; n-- {
		if m.open[n-1] == c-2 {
			for len(m.open) > n {
				m.warn(i, closer(m.open)+" is missing here")
				m.insert(m.lastEnd, i, m.pop())
			}
			m.pop()
			m.last, m.lastEnd = c, i+1
			return true
		}
	}
	return false
}

// pop closes the innermost bracket and returns the mark that does so: '{'+2 is '}', and so with [.
func (m *mender) pop() byte {
	n := len(m.open) - 1
	mark := m.open[n] + 2
	m.open = m.open[:n]
	return mark
}

func closer(open []byte) string { return string(rune(open[len(open)-1] + 2)) }

// insert puts a mark between the tokens that end at from and begin at to: in place of white space
// if there is some that ends no line and is no comment's, so that nothing else moves.
func (m *mender) insert(from, to int, mark byte) {
	for i := from; i < to; i++ {
		if m.in[i] == '/' {
			break
		}
		if m.out[i] == ' ' || m.out[i] == '\t' {
			m.out[i] = mark
			return
		}
	}
	m.inserted = append(m.inserted, insertion{from, mark})
}

func (m *mender) spliced() []byte {
	out := make([]byte, 0, len(m.out)+len(m.inserted))
	at := 0
	for _, ins := range m.inserted {
		out = append(append(out, m.out[at:ins.off]...), ins.mark)
		at = ins.off
	}
	return append(out, m.out[at:]...)
}

// comment returns where the comment that begins at i ends, or i if none does.
func comment(in []byte, i int) int {
	rest := in[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			return i + n
		}
		return len(in)
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + 2 + n + 2
		}
	}
	return i
}

// scalar returns where the string, number or word that begins at i ends, or i if none does.
func scalar(in []byte, i int) int {
	if in[i] == '"' {
		for j := i + 1; j < len(in); j++ {
			switch in[j] {
			case '\\':
				j++
			case '"':
				return j + 1
			case '\n':
				return i // a string never goes over a line's end
			}
		}
		return i
	}
	j := i
	for j < len(in) && bytes.IndexByte([]byte(" \t\r\n,:{}[]\"/"), in[j]) < 0 {
		j++
	}
	return j
}

func followedByColon(in []byte, i int) bool {
	rest := bytes.TrimLeft(in[i:], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}
