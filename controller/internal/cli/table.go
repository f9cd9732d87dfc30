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

// least is how many characters the last column has at least, however narrow the terminal is.
const least = 40

// printTable writes a table: the last column is cut at the terminal's edge, or, where there is no head and each
// row is a fact of its own, continued in the next line; empty columns are left out.
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
		if len(t.head) > 0 || !a.OutTerminal || a.Width == 0 {
			a.printRow(t.indent, r, widths)
			continue
		}
		last, used := len(r)-1, utf8.RuneCountInString(t.indent)
		for _, w := range widths[:last] {
			used += w + 2
		}
		for _, piece := range wrap(r[last].text, max(a.Width-used, least)) {
			r[last].text = piece
			a.printRow(t.indent, r, widths)
			clear(r[:last])
		}
	}
}

// wrap breaks text between words into lines of at most width characters; a word that is longer has a line of its own.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), word
			continue
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
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
			text = shorten(text, max(a.Width-used-gap, least))
		}
		if text == "" {
			gap += widths[i] + 2
			continue
		}
		b.WriteString(strings.Repeat(" ", gap))
		count := utf8.RuneCountInString(text)
		used += gap + count
		gap = widths[i] - count + 2
		if a.colours && c.colour != "" {
			text = c.colour + text + plain
		}
		b.WriteString(text)
	}
	a.print("%s\n", b.String())
}
