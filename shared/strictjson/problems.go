package strictjson

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"tandem.internal/shared/wire"
)

// MaxProblems is the most problems that one call of Read returns; it stops there.
const MaxProblems = 50

// Problems are the reasons why a document is refused, in the order in which they occur in it; nil if there are none.
// To return it as an error use Err: an error variable that holds an empty Problems is not nil.
type Problems []*wire.Error

// Error returns one line for each problem, with its line and column in the document.
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

// Unwrap returns the problems, for errors.Is and errors.As.
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

// First returns the first problem, or nil.
func (p Problems) First() *wire.Error {
	if len(p) == 0 {
		return nil
	}
	return p[0]
}

// unplaced is a problem without line and column.
type unplaced struct {
	err *wire.Error
	off int // of its place, in bytes
}

// placeAll sorts problems by offset and sets their lines and columns, both counted from 1. Columns count characters.
func placeAll(data []byte, list []unplaced) Problems {
	if len(list) == 0 {
		return nil
	}
	// slices.SortStableFunc would add 15 KB to the agent
	sort.SliceStable(list, func(i, j int) bool { return list[i].off < list[j].off })
	ps, lines := make(Problems, 0, len(list)), LinesOf(data)
	for _, f := range list {
		f.err.Line, f.err.Column = lines.Place(At{Off: f.off})
		ps = append(ps, f.err)
	}
	return ps
}

// Lines converts offsets in a document to lines and columns. The offsets must not fall, so that all of them take one
// pass over the document.
type Lines struct {
	data         []byte
	done         int // offset of the last place
	line, column int // of that place; the column is counted from 0
}

// LinesOf returns Lines for a document.
func LinesOf(data []byte) Lines { return Lines{data: data, line: 1} }

// Place returns the line and column of a, both counted from 1; columns count characters. a must not be before the place
// of the last call.
func (l *Lines) Place(a At) (line, column int) {
	off := min(max(a.Off, l.done), len(l.data))
	passed := l.data[l.done:off]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		l.line += n
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
		l.column = 0
	}
	l.column += utf8.RuneCount(passed) // counts each byte once, also if the document is a single line
	l.done = off
	return l.line, l.column + 1
}

// Place returns the line and column of a, both counted from 1; columns count characters.
func (r *Reader) Place(a At) (line, column int) {
	before := r.data[:min(max(a.Off, 0), len(r.data))]
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}
