// Package lenientjson repairs JSON that people have written. It removes comments, doubled and trailing commas, and
// closing brackets too many; it adds missing commas and closing brackets. It never changes a name or a value, and
// reports each change with its place.
// It is pure.
//
// The HuJSON library removes comments and trailing commas. This package does the rest, which no dialect of JSON allows.
//
//tandem:pure
package lenientjson

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Warning reports one change, or one accepted mistake, and its place.
type Warning struct {
	Line    int    `json:"line"`    // first line is 1
	Column  int    `json:"column"`  // in characters; the first is 1
	Message string `json:"message"` // the mistake
}

func (w Warning) String() string {
	return fmt.Sprintf("line %d, column %d: %s", w.Line, w.Column, w.Message)
}

// maxWarnings is the most warnings. Further repairs are made without one.
const maxWarnings = 100

// Repair returns data as standard JSON, as far as it can be repaired, and a warning for each change. A value keeps its
// line and column unless a mark has to be inserted before it on its line and there is no white space to replace. Repair
// does not change mistakes of other kinds; a strict parser refuses them.
func Repair(data []byte) ([]byte, []Warning) {
	m := &repairer{in: data, out: bytes.Clone(data)}
	m.tokens()
	if len(m.inserted) > 0 {
		m.out = m.withInsertions()
	}
	std, err := hujson.Standardize(append(m.out, '\n')) // which wants one behind a comment at the very end
	if err != nil {
		return m.out, m.warnings
	}
	return std[:len(std)-1], m.warnings
}

// repairer makes one pass over the tokens. Its state is enough to know which tokens the grammar allows next. Places are
// byte offsets in the input.
type repairer struct {
	in, out  []byte // input and result; of the same length until withInsertions
	open     []byte // open brackets, the innermost last
	last     byte   // previous token: one of { } [ ] , : or v for a scalar value, k for a name; 0 at the start
	lastEnd  int    // end of the previous token
	comma    int    // place of the newest comma
	inserted []insertion
	warnings []Warning
	done     int // place of the newest warning
	line     int // its line, from 0
	start    int // place where that line begins
}

// insertion is a mark to insert at a place.
type insertion struct {
	off  int
	mark byte
}

// warn adds a warning about a place.
func (m *repairer) warn(off int, message string) {
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

// tokens reads all tokens and repairs what is between them. It stops at a mistake that it cannot repair.
func (m *repairer) tokens() {
	for i := 0; i < len(m.in); {
		c := m.in[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		case c == '/':
			end := comment(m.in, i)
			if end == i {
				return // not a comment, and not repairable
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
			m.beforeValue(i)
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
			m.beforeValue(i)
			m.last, m.lastEnd = 'v', end
			if name {
				m.last = 'k'
			}
			i = end
		}
	}
	for len(m.open) > 0 && m.last != ':' && m.last != 'k' {
		m.warn(len(m.in), "the document ends before "+closer(m.open)+" closes what was opened")
		m.insert(len(m.in), m.pop())
	}
}

// beforeValue inserts a comma before the value or name that begins at i if the previous token is a value.
func (m *repairer) beforeValue(i int) {
	if len(m.open) == 0 {
		return
	}
	if m.last == 'v' || m.last == '}' || m.last == ']' {
		m.warn(m.lastEnd, "a comma is missing here")
		m.insert(i, ',')
	}
}

// atComma accepts a comma, or removes one before which there is no value.
func (m *repairer) atComma(i int) {
	switch m.last {
	case ',', '{', '[':
		m.warn(i, "a comma too many")
		m.out[i] = ' '
		return
	}
	m.comma, m.last, m.lastEnd = i, ',', i+1
}

// atClose handles a closing bracket. It first closes the brackets inside that are still open. It removes a bracket that
// closes none of those that are open. It returns false if nothing is open.
func (m *repairer) atClose(i int, c byte) bool {
	n := bytes.LastIndexByte(m.open, c-2) + 1
	if n == 0 && len(m.open) > 0 {
		m.warn(i, string(rune(c))+" closes nothing")
		m.out[i] = ' '
		return true
	}
	if m.last == ',' {
		m.warn(m.comma, "a comma before a closing bracket")
	}
	if n == 0 {
		return false
	}
	for len(m.open) > n {
		m.warn(i, closer(m.open)+" is missing here")
		m.insert(i, m.pop())
	}
	m.pop()
	m.last, m.lastEnd = c, i+1
	return true
}

// pop closes the innermost bracket and returns the closing one: '{'+2 is '}', and '['+2 is ']'.
func (m *repairer) pop() byte {
	n := len(m.open) - 1
	mark := m.open[n] + 2
	m.open = m.open[:n]
	return mark
}

// closer returns the bracket that closes the innermost open one.
func closer(open []byte) string { return string(rune(open[len(open)-1] + 2)) }

// insert puts a mark behind the last token, and before one that begins at to. It replaces a space or tab before the
// first comment there, so that nothing else moves. If there is none, it inserts the mark right behind the last token.
// The mark is then the last token: the next one that is inserted comes behind it.
func (m *repairer) insert(to int, mark byte) {
	for i := m.lastEnd; i < to && m.in[i] != '/'; i++ {
		if m.out[i] == ' ' || m.out[i] == '\t' {
			m.out[i], m.lastEnd = mark, i+1
			return
		}
	}
	m.inserted = append(m.inserted, insertion{m.lastEnd, mark})
}

// withInsertions returns the result with all insertions.
func (m *repairer) withInsertions() []byte {
	out := make([]byte, 0, len(m.out)+len(m.inserted))
	at := 0
	for _, ins := range m.inserted {
		out = append(append(out, m.out[at:ins.off]...), ins.mark)
		at = ins.off
	}
	return append(out, m.out[at:]...)
}

// comment returns the end of the comment that begins at i, or i if there is none.
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

// scalar returns the end of the string, number or word that begins at i, or i if there is none.
func scalar(in []byte, i int) int {
	if in[i] == '"' {
		for j := i + 1; j < len(in); j++ {
			switch in[j] {
			case '\\':
				j++
			case '"':
				return j + 1
			case '\n':
				return i // a string ends on its line
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

// followedByColon reports whether the next token after i is a colon.
func followedByColon(in []byte, i int) bool {
	rest := bytes.TrimLeft(in[i:], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}
