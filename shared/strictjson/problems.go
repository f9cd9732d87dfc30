package strictjson

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"tandem.internal/shared/wire"
)

// MaxProblems bounds how many problems one reading reports; it stops there.
const MaxProblems = 50

// Problems are the reasons why a document is refused, in the order of their places. It is nil when
// there is none. As an error, pass on p.Err(), never p itself: an empty Problems in an error
// variable is not nil.
type Problems []*wire.Error

// Error lists every problem on a line of its own, with its place.
func (p Problems) Error() string {
	var b strings.Builder
	for i, e := range p {
		if i > 0 {
			b.WriteByte('\n')
		}
		if e.Line > 0 {
			fmt.Fprintf(&b, "line %d, column %d: ", e.Line, e.Column)
		}
		b.WriteString(e.Error())
	}
	if len(p) >= MaxProblems {
		b.WriteString("\nthere may be more")
	}
	return b.String()
}

// Unwrap lets errors.Is and errors.As look at each problem.
func (p Problems) Unwrap() []error {
	errs := make([]error, len(p))
	for i, e := range p {
		errs[i] = e
	}
	return errs
}

// Err returns p as an error: nil when there is no problem.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// First returns the problem nearest the document's beginning, for where only one fits, or nil.
func (p Problems) First() *wire.Error {
	if len(p) == 0 {
		return nil
	}
	return p[0]
}

// found is a problem whose place is still a byte offset.
type found struct {
	err *wire.Error
	off int
}

// place sorts what was found by place and turns offsets into lines and columns, both from 1.
// Columns count characters.
func place(data []byte, list []found) Problems {
	if len(list) == 0 {
		return nil
	}
	// a generic sort would be 15 KB of the agent
	sort.SliceStable(list, func(i, j int) bool { return list[i].off < list[j].off })
	ps, lines := make(Problems, 0, len(list)), LinesOf(data)
	for _, f := range list {
		f.err.Line, f.err.Column = lines.Place(At{Off: f.off})
		ps = append(ps, f.err)
	}
	return ps
}

// Lines finds lines and columns of places that come one behind the other, in one pass.
type Lines struct {
	data         []byte
	line, column int // of what stands at done, column from 0
	done         int
}

// LinesOf makes Lines for a document.
func LinesOf(data []byte) Lines { return Lines{data: data, line: 1} }

// Place returns the line and column, both from 1, of what stands at a, which is not before the place asked
// for last. Columns count characters.
func (l *Lines) Place(a At) (line, column int) {
	off := min(max(a.Off, l.done), len(l.data))
	passed := l.data[l.done:off]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		l.line += n
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
		l.column = 0
	}
	l.column += utf8.RuneCount(passed) // only what is new: a document of one line has many places in it
	l.done = off
	return l.line, l.column + 1
}

// Place returns the line and column, both from 1, of what stands at a. Columns count characters.
func (r *Reader) Place(a At) (line, column int) {
	before := r.data[:min(max(a.Off, 0), len(r.data))]
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}
