package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
)

// The smallest screen that something is shown on.
const (
	leastColumns = 20
	leastLines   = 4
)

// Frame writes the board into the cells of its screen.
func (b *Board) Frame() *Frame {
	f := blank(b.columns, b.lines)
	if b.columns < leastColumns || b.lines < leastLines {
		f.put(0, 0, fmt.Sprintf("needs %d x %d", leastColumns, leastLines), Plain)
		return f
	}
	switch {
	case b.help:
		b.showHelp(f)
	case b.node != "":
		b.showNode(f)
	default:
		b.showFleet(f)
	}
	b.showFoot(f)
	return f
}

// looks is how many sentences of what to look at there is room for.
func (b *Board) looks() int {
	switch {
	case b.lines >= 20:
		return min(3, len(b.fleet.Look))
	case b.lines >= 12:
		return min(1, len(b.fleet.Look))
	}
	return 0
}

// news is how many lines the newest entry has.
func (b *Board) news() int {
	if b.entry == nil || b.lines < 12 {
		return 0
	}
	return 1
}

// room is how many rows there is room for: without counts, sentences, names of columns, newest entry and foot.
func (b *Board) room() int { return max(b.lines-3-b.looks()-b.news(), 1) }

func (b *Board) showFleet(f *Frame) {
	b.showCounts(f)
	y := 1
	for _, s := range b.fleet.Look[:b.looks()] {
		mark, style := marked(s.Level)
		f.put(0, y, mark+" "+phrase.Shorten(phrase.Clean(s.Text), b.columns-2), style)
		y++
	}
	at := b.settle(b.room())
	visible := b.shown[b.first:min(b.first+b.room(), len(b.shown))]
	columns := b.layout(visible)
	b.put(f, y, columns, func(c *column) (string, Style) { return c.head, Bold })
	y++
	for i, name := range visible {
		row := b.rows[name]
		b.put(f, y, columns, func(c *column) (string, Style) { return c.text(b, &row) })
		if b.first+i == at {
			f.put(0, y, ">", Plain)
			f.choose(y)
		}
		y++
	}
	if len(visible) == 0 {
		f.put(2, y, b.nothing(), Plain)
	}
	if b.news() > 0 {
		_, style := marked(b.entry.Level)
		text := b.entry.At.In(b.Zone).Format("15:04:05  ")
		if b.entry.Node != "" {
			text += b.entry.Node + ": "
		}
		f.put(0, b.lines-2, phrase.Shorten(phrase.Clean(text+b.entry.Text), b.columns), style)
	}
}

// nothing says why there is no row.
func (b *Board) nothing() string {
	switch {
	case b.filter != "" && b.match == nil && b.wrong == "":
		return "asking…"
	case b.filter != "":
		return "no such node"
	case !b.whole:
		return "loading…"
	}
	return "no node has connected yet"
}

func (b *Board) showCounts(f *Frame) {
	x := f.put(0, 0, phrase.Shorten(phrase.Clean(b.fleet.Unit), b.columns/3)+"  ", Bold)
	x = f.put(x, 0, fmt.Sprintf("%s, %d online", phrase.Plural(b.fleet.Nodes, "node"), b.fleet.Online), Plain)
	for _, c := range classes {
		n := *b.fleet.Counts.Of(c.class)
		text := fmt.Sprintf("  %s %d", c.text, n)
		if n > 0 && x+len(text) <= b.columns {
			x = f.put(x, 0, text, c.style)
		}
	}
}

// marked is how a sentence of a level begins, and its style.
func marked(l view.Level) (string, Style) {
	switch l {
	case view.LevelError:
		return "!", Red
	case view.LevelWarning:
		return "~", Yellow
	}
	return "-", Plain
}

// column is one of the table.
type column struct {
	head  string
	most  int // characters
	text  func(*Board, *view.Row) (string, Style)
	width int
}

func plain(text func(*Board, *view.Row) string) func(*Board, *view.Row) (string, Style) {
	return func(b *Board, r *view.Row) (string, Style) { return text(b, r), Plain }
}

var (
	ofNode = column{head: "NODE", most: 24, text: plain(func(_ *Board, r *view.Row) string { return r.Node })}
	ofType = column{head: "TYPE", most: 12, text: plain(func(_ *Board, r *view.Row) string {
		return cmp.Or(r.Type, "-")
	})}
	ofClass = column{head: "STATE", most: 10, text: func(_ *Board, r *view.Row) (string, Style) {
		if i := urgency(r.Class); i < len(classes) {
			return classes[i].text, classes[i].style
		}
		return string(r.Class), Plain
	}}
	ofAge     = column{head: "AGE", most: 4, text: plain((*Board).age)}
	ofVersion = column{head: "VERSION", most: 17, text: plain(func(_ *Board, r *view.Row) string {
		if r.Desired == "" || r.Desired == r.Version {
			return cmp.Or(r.Version, "-")
		}
		return cmp.Or(r.Version, "none") + " > " + r.Desired
	})}
	ofWhy = column{head: "WHY", most: 1 << 20, text: plain(func(_ *Board, r *view.Row) string { return r.Why })}
)

func (b *Board) age(r *view.Row) string {
	if r.Since.IsZero() {
		return "-"
	}
	return phrase.Span(b.Now.Sub(r.Since))
}

// leastWhy is how many characters of WHY are worth more than another column.
const leastWhy = 20

// layout returns the columns that there is room for, as wide as the visible rows need.
func (b *Board) layout(visible []string) []column {
	all := []column{ofNode, ofType, ofClass, ofAge, ofVersion, ofWhy}
	all[0].most = min(all[0].most, max(b.columns/4, 10))
	used := 2
	for i := range all {
		c := &all[i]
		c.width = len(c.head)
		for _, name := range visible {
			row := b.rows[name]
			text, _ := c.text(b, &row)
			c.width = max(c.width, min(utf8.RuneCountInString(text), c.most))
		}
		used += c.width + 2
	}
	used -= all[len(all)-1].width + 2
	for _, name := range []string{ofType.head, ofVersion.head, ofAge.head} {
		if b.columns-used < min(leastWhy, all[len(all)-1].width) {
			i := slices.IndexFunc(all, func(c column) bool { return c.head == name })
			used -= all[i].width + 2
			all = slices.Delete(all, i, i+1)
		}
	}
	return all
}

// put writes a line of the table.
func (b *Board) put(f *Frame, y int, columns []column, text func(*column) (string, Style)) {
	x := 2
	for i := range columns {
		c := &columns[i]
		if x >= b.columns-1 {
			return
		}
		content, style := text(c)
		f.put(x, y, phrase.Shorten(phrase.Clean(content), min(c.width, b.columns-x)), style)
		x += c.width + 2
	}
}

// showFoot writes the last line: what is typed, or what is shown and which keys there are.
func (b *Board) showFoot(f *Frame) {
	y := b.lines - 1
	if b.typing {
		typed := []rune(b.typed)
		room := b.columns - 3
		if b.wrong != "" {
			f.put(0, y-1, strings.Repeat(" ", b.columns), Plain)
			f.put(0, y-1, phrase.Shorten(phrase.Clean(b.wrong), b.columns), Red)
		}
		f.put(0, y, "/"+string(typed[max(0, len(typed)-room):])+"_", Bold)
		return
	}
	left, style := "live", Green
	switch {
	case b.Away != "":
		left, style = "away: "+b.Away, Red
	case b.wrong != "":
		left, style = b.wrong, Red
	case !b.whole:
		left, style = "loading", Yellow
	}
	keys := "? help  q quit"
	if b.node != "" && !b.help {
		keys = "Esc back  " + keys
	}
	if len(keys)+8 > b.columns {
		keys = "q quit"
	}
	room := b.columns - len(keys) - 2
	x := f.put(0, y, phrase.Shorten(phrase.Clean(left), room), style)
	f.put(b.columns-len(keys), y, keys, Plain)
	if b.node != "" || b.help {
		return
	}
	about := fmt.Sprintf("  %d of %d  by %s", len(b.shown), len(b.rows), orders[b.order].name)
	if b.reversed {
		about += ", reversed"
	}
	if b.filter != "" {
		about += "  /" + b.filter
	}
	if room-x >= 10 {
		f.put(x, y, phrase.Shorten(phrase.Clean(about), room-x), Plain)
	}
}

func (b *Board) showHelp(f *Frame) {
	f.put(0, 0, "tandem top", Bold)
	for i, line := range [][2]string{
		{"arrows, j, k", "the row before, the next one"}, {"PgUp, PgDn, g, G", "a page, the first, the last"},
		{"Enter", "how a node is, and why"}, {"Esc", "back; without a filter"},
		{"/", "a filter, as of tandem nodes"}, {"s, r", "another order; reversed"}, {"q", "quit"},
	} {
		if 1+i < b.lines-1 {
			f.put(2, 1+i, line[0], Plain)
			f.put(20, 1+i, line[1], Plain)
		}
	}
}
