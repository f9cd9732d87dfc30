// Package board owns what tandem top shows: the unit as the live stream tells it, which part of it is looked at, and
// how that is written into the cells of a screen. A screen is a function of the board and its size; painting one writes
// only the cells that differ from the one before.
//
// It guarantees that no text of a node, a document or a person is obeyed by a terminal: what is not a simple printable
// character of one column has another in its place. It asks nobody and waits for nothing; package top does.
//
//tandem:pure
package board

import (
	"fmt"
	"strings"
	"unicode"

	"tandem.internal/controller/internal/phrase"
)

// Style is how a cell looks. Without colours all look alike.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Bold
	Red
	Green
	Yellow
	Chosen // the row that keys are about
)

var sequences = [...]string{Plain: "\x1b[0m", Bold: "\x1b[0;1m", Red: "\x1b[0;31m", Green: "\x1b[0;32m",
	Yellow: "\x1b[0;33m", Chosen: "\x1b[0;7m"}

type cell struct {
	char  rune
	style Style
}

// Frame is the content of a screen.
type Frame struct {
	Columns, Lines int
	cells          []cell
}

// blank returns an empty frame.
func blank(columns, lines int) *Frame {
	f := &Frame{columns, lines, make([]cell, columns*lines)}
	for i := range f.cells {
		f.cells[i].char = ' '
	}
	return f
}

// line returns the cells of a line.
func (f *Frame) line(y int) []cell { return f.cells[y*f.Columns : (y+1)*f.Columns] }

// put writes a text from a column on, as far as there is room, and returns the column after it.
func (f *Frame) put(x, y int, text string, style Style) int {
	if y < 0 || y >= f.Lines {
		return x
	}
	line := f.line(y)
	for _, r := range phrase.Clean(text) {
		if x >= len(line) {
			break
		}
		line[x] = cell{simple(r), style}
		x++
	}
	return x
}

// choose shows a line as the chosen one.
func (f *Frame) choose(y int) {
	line := f.line(y)
	for x := range line {
		line[x].style = Chosen
	}
}

// simple is r if every terminal shows it in one column, where it stands, else a question mark. From Hebrew on (U+0590)
// come scripts that some terminals show from right to left, with what stands beside them, or several letters as one.
func simple(r rune) rune {
	switch {
	case r < 0x590 && !unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x2010 && r <= 0x2027, r == '€',
		r == '→', r == '≤', r == '≥', r == unicode.ReplacementChar:
		return r
	}
	return '?'
}

// String is the text of the frame, without spaces at the ends of lines.
func (f *Frame) String() string {
	var b strings.Builder
	for y := range f.Lines {
		var line strings.Builder
		for _, c := range f.line(y) {
			line.WriteRune(c.char)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// joined is how many equal cells between two that differ are written again rather than stepped over.
const joined = 8

// Paint returns what turns a screen that shows one frame into one that shows the next; nil: nothing is known of what it
// shows.
func Paint(was, is *Frame, colours bool) []byte {
	var b strings.Builder
	if was == nil || was.Columns != is.Columns || was.Lines != is.Lines {
		if colours {
			b.WriteString(sequences[Plain])
		}
		b.WriteString("\x1b[2J")
		was = blank(is.Columns, is.Lines)
	}
	p := painter{b: &b, colours: colours}
	for y := range is.Lines {
		p.line(y, was.line(y), is.line(y))
	}
	p.use(Plain)
	return []byte(b.String())
}

type painter struct {
	b       *strings.Builder
	colours bool
	style   Style
}

func (p *painter) use(s Style) {
	if p.colours && s != p.style {
		p.b.WriteString(sequences[s])
	}
	p.style = s
}

func (p *painter) same(a, b cell) bool { return a.char == b.char && (!p.colours || a.style == b.style) }

// line writes the runs of cells that differ. Blank ones at the end of the line are erased.
func (p *painter) line(y int, was, is []cell) {
	end := len(is)
	for end > 0 && is[end-1] == (cell{' ', Plain}) {
		end--
	}
	for x := 0; x < end; {
		if p.same(was[x], is[x]) {
			x++
			continue
		}
		last, equal := x, 0
		for i := x; i < end && equal <= joined; i++ {
			if equal++; !p.same(was[i], is[i]) {
				last, equal = i, 0
			}
		}
		fmt.Fprintf(p.b, "\x1b[%d;%dH", y+1, x+1)
		for ; x <= last; x++ {
			p.use(is[x].style)
			p.b.WriteRune(is[x].char)
		}
	}
	for x := end; x < len(is); x++ {
		if !p.same(was[x], is[x]) {
			p.use(Plain)
			fmt.Fprintf(p.b, "\x1b[%d;%dH\x1b[K", y+1, end+1)
			return
		}
	}
}
