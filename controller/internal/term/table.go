package term

import (
	"strings"
	"unicode/utf8"
)

// Colour is a control sequence; "" is the terminal's own colour.
type Colour string

// The colours.
const (
	Plain  Colour = ""
	Bold   Colour = "\x1b[1m"
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	reset         = "\x1b[0m"
)

// Cell is a field of a table. Its text may come from anywhere.
type Cell struct {
	Text   string
	Colour Colour
}

// Cell makes a cell of this colour.
func (c Colour) Cell(text string) Cell { return Cell{text, c} }

// Paint colours text, where colours are shown.
func (s *Screen) Paint(c Colour, text string) string {
	if !s.Colours || c == Plain {
		return text
	}
	return string(c) + text + reset
}

// Table aligns columns. Unlike text/tabwriter it does not count colours as characters.
type Table struct {
	Indent string
	Head   []string // nil: each row is a fact of its own
	rows   [][]Cell
}

// Add appends a row. Each field is a string or a Cell.
func (t *Table) Add(fields ...any) {
	row := make([]Cell, len(fields))
	for i, f := range fields {
		if text, ok := f.(string); ok {
			row[i] = Cell{Text: text}
			continue
		}
		row[i] = f.(Cell)
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// leastWidth is how many characters the last column, or a paragraph, has at least, however narrow the terminal is.
const leastWidth = 16

// Table prints a table. The last column is cut at the terminal's edge; in a table without a head it goes on in the
// next line. Empty columns are left out.
func (s *Screen) Table(t *Table) {
	widths := t.widths()
	if len(t.Head) > 0 {
		s.Head(t.Indent, t.Head, widths)
	}
	for _, r := range t.rows {
		if len(t.Head) > 0 || !s.OutTerminal || s.Width == 0 {
			s.Row(t.Indent, r, widths)
			continue
		}
		last, used := len(r)-1, utf8.RuneCountInString(t.Indent)
		for _, w := range widths[:last] {
			used += w + 2
		}
		for _, piece := range Wrap(r[last].Text, max(s.Width-used, leastWidth)) {
			r[last].Text = piece
			s.Row(t.Indent, r, widths)
			clear(r[:last])
		}
	}
}

// widths cleans the table's texts and returns the width of each column, 0 if it is empty.
func (t *Table) widths() []int {
	columns := len(t.Head)
	for _, r := range t.rows {
		columns = max(columns, len(r))
	}
	widths := make([]int, columns)
	for _, r := range t.rows {
		for i := range r {
			if r[i].Text = Clean(r[i].Text); r[i].Text != "" {
				widths[i] = max(widths[i], utf8.RuneCountInString(r[i].Text))
			}
		}
	}
	for i, h := range t.Head {
		if widths[i] > 0 || i == 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(h))
		}
	}
	return widths
}

// Head prints the names of columns of these widths.
func (s *Screen) Head(indent string, names []string, widths []int) {
	row := make([]Cell, len(names))
	for i, name := range names {
		row[i] = Bold.Cell(name)
	}
	s.Row(indent, row, widths)
}

// Row prints clean texts in columns of these widths; a column of width 0 is left out.
func (s *Screen) Row(indent string, row []Cell, widths []int) {
	var b strings.Builder
	b.WriteString(indent)
	used, gap := utf8.RuneCountInString(indent), 0
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		text := c.Text
		if s.OutTerminal && s.Width > 0 && i == len(row)-1 {
			text = Shorten(text, max(s.Width-used-gap, leastWidth))
		}
		if text == "" {
			gap += widths[i] + 2
			continue
		}
		b.WriteString(strings.Repeat(" ", gap))
		count := utf8.RuneCountInString(text)
		used += gap + count
		gap = widths[i] - count + 2
		b.WriteString(s.Paint(c.Colour, text))
	}
	s.Print("%s\n", b.String())
}
