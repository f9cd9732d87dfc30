package cli

import (
	"strings"
	"unicode/utf8"
)

// What a cell may look like on a terminal.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// cell is one field of a table: text from anywhere, and its colour.
type cell struct{ text, colour string }

// table aligns columns. Unlike text/tabwriter it does not count colours as characters.
type table struct {
	indent string
	head   []string
	rows   [][]cell
}

// add appends a row of plain text.
func (t *table) add(texts ...string) {
	row := make([]cell, len(texts))
	for i, s := range texts {
		row[i] = cell{text: s}
	}
	t.rows = append(t.rows, row)
}

// printTable writes a table: the last column is cut at the terminal's edge
// if that leaves it 40 characters, empty columns are left out.
func (a *app) printTable(t *table) {
	columns := len(t.head)
	for _, r := range t.rows {
		columns = max(columns, len(r))
	}
	widths := make([]int, columns)
	for _, r := range t.rows {
		for i := range r {
			if r[i].text = clean(r[i].text); r[i].text != "" {
				widths[i] = max(widths[i], utf8.RuneCountInString(r[i].text))
			}
		}
	}
	for i, h := range t.head {
		if widths[i] > 0 || i == 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(h))
		}
	}
	if len(t.head) > 0 {
		row := make([]cell, len(t.head))
		for i, h := range t.head {
			row[i] = cell{h, bold}
		}
		a.printRow(t.indent, row, widths)
	}
	for _, r := range t.rows {
		a.printRow(t.indent, r, widths)
	}
}

func (a *app) printRow(indent string, row []cell, widths []int) {
	var b strings.Builder
	b.WriteString(indent)
	used, gap := utf8.RuneCountInString(indent), 0
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		text := c.text
		if a.OutTerminal && a.Width > 0 && i == len(row)-1 {
			text = shorten(text, max(a.Width-used-gap, 40))
		}
		if text == "" {
			gap += widths[i] + 2
			continue
		}
		b.WriteString(strings.Repeat(" ", gap))
		used += gap + widths[i]
		gap = widths[i] - utf8.RuneCountInString(text) + 2
		if a.colours && c.colour != "" {
			text = c.colour + text + plain
		}
		b.WriteString(text)
	}
	a.print("%s\n", b.String())
}
