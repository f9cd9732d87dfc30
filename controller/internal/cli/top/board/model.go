package board

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tandem.internal/controller/internal/filter"
	"tandem.internal/controller/internal/view"
)

// Board is what is known of the unit, and what of it is looked at. It belongs to one goroutine.
type Board struct {
	Now  time.Time      // by which ages are counted
	Zone *time.Location // of the times shown
	Away string         // why nothing new comes; "": it does

	columns, lines int
	fleet          view.Fleet
	rows           map[string]view.Row
	whole          bool        // all rows are there
	entry          *view.Entry // the newest

	order    int      // of orders
	reversed bool     // the last one first
	shown    []string // names of the rows, in order
	chosen   string   // name of a row
	first    int      // row at the top

	typing bool
	typed  string          // so far
	wrong  string          // why what was typed is no filter
	filter string          // "": every node is shown
	match  map[string]bool // nodes that the filter selects, as the controller says

	node   string // that is shown alone
	facts  *Facts // of it; nil: they are not there yet
	scroll int
	help   bool
}

// Facts are what the controller knows of one node.
type Facts struct {
	Node  view.Node
	Why   view.Why
	Error string // why they cannot be had
}

// orders are the orders in which rows are shown.
var orders = []struct {
	name    string
	compare func(x, y *view.Row) int
}{
	{"urgency", func(x, y *view.Row) int { return cmp.Compare(urgency(x.Class), urgency(y.Class)) }},
	{"name", func(_, _ *view.Row) int { return 0 }},
	{"type", func(x, y *view.Row) int { return cmp.Compare(x.Type, y.Type) }},
	{"version", func(x, y *view.Row) int { return cmp.Compare(x.Version, y.Version) }},
	{"age", func(x, y *view.Row) int { return y.Since.Compare(x.Since) }},
}

// classes are those of nodes, the most urgent first, as they are shown.
var classes = []struct {
	class view.Class
	text  string
	style Style
}{
	{view.ClassFailed, "failed", Red}, {view.ClassUnwell, "unwell", Red}, {view.ClassOffline, "offline", Yellow},
	{view.ClassOnTheWay, "on the way", Yellow}, {view.ClassInStep, "in step", Green},
	{view.ClassRevoked, "revoked", Plain},
}

func urgency(c view.Class) int {
	for i := range classes {
		if classes[i].class == c {
			return i
		}
	}
	return len(classes)
}

// New returns a board without nodes.
func New(fleet view.Fleet, zone *time.Location) *Board {
	return &Board{Zone: zone, fleet: fleet, rows: map[string]view.Row{}, columns: 80, lines: 24}
}

// Size sets the size of the screen.
func (b *Board) Size(columns, lines int) { b.columns, b.lines = max(columns, 1), max(lines, 1) }

// Node is the node that is shown alone; "": all are.
func (b *Board) Node() string { return b.node }

// Filter is what selects the nodes that are shown.
func (b *Board) Filter() string { return b.filter }

// Apply takes a line of the live stream. It reports whether a node's row has changed.
func (b *Board) Apply(l *view.Live) (rows bool) {
	if l.Reset {
		clear(b.rows)
		b.whole = false
	}
	if l.Fleet != nil {
		b.fleet = *l.Fleet
	}
	for i := range l.Rows {
		b.rows[l.Rows[i].Node] = l.Rows[i]
	}
	for _, name := range l.Gone {
		delete(b.rows, name)
	}
	if l.Entry != nil {
		b.entry = l.Entry
	}
	b.whole = b.whole || l.Complete
	if rows = l.Reset || len(l.Rows)+len(l.Gone) > 0; rows {
		b.arrange()
	}
	return rows
}

// Match sets which nodes a filter selects; one that is not asked for any more does not count.
func (b *Board) Match(filter string, names []string, wrong string) {
	if filter != b.filter || filter == "" {
		return
	}
	b.wrong = wrong
	b.match = make(map[string]bool, len(names))
	for _, name := range names {
		b.match[name] = true
	}
	b.arrange()
}

// Show sets what is known of the node that is shown alone.
func (b *Board) Show(node string, f *Facts) {
	if node == b.node {
		b.facts = f
	}
}

// arrange puts the rows in order again.
func (b *Board) arrange() {
	b.shown = b.shown[:0]
	for name := range maps.Keys(b.rows) {
		if b.filter == "" || b.match[name] {
			b.shown = append(b.shown, name)
		}
	}
	compare := orders[b.order].compare
	slices.SortFunc(b.shown, func(x, y string) int {
		r, q := b.rows[x], b.rows[y]
		c := cmp.Or(compare(&r, &q), cmp.Compare(x, y))
		if b.reversed {
			return -c
		}
		return c
	})
}

// place is the index of the chosen row; 0 if it is not there any more.
func (b *Board) place() int { return max(slices.Index(b.shown, b.chosen), 0) }

// settle keeps the chosen row on a screen that has room for so many.
func (b *Board) settle(room int) int {
	at := b.place()
	if len(b.shown) > 0 {
		b.chosen = b.shown[at]
	}
	b.first = min(b.first, at, max(len(b.shown)-room, 0))
	b.first = max(b.first, at-room+1, 0)
	return at
}

// Key does what a key asks for. It reports whether that is the end.
func (b *Board) Key(key string) (quit bool) {
	switch {
	case key == Break:
		return true
	case b.typing:
		b.input(key)
	case key == "q":
		return true
	case b.help:
		b.help = false
	case key == "?":
		b.help = true
	case b.node != "":
		b.nodeKey(key)
	default:
		b.fleetKey(key)
	}
	return false
}

func (b *Board) fleetKey(key string) {
	switch key {
	case "s":
		b.order = (b.order + 1) % len(orders)
		b.arrange()
	case "r":
		b.reversed = !b.reversed
		b.arrange()
	case "/":
		b.typing, b.typed, b.wrong = true, b.filter, ""
	case Esc:
		b.choose("")
	case Enter:
		if len(b.shown) > 0 {
			b.node, b.facts, b.scroll = b.shown[b.place()], nil, 0
		}
	default:
		at := b.place()
		if to := at + step(key, b.room(), len(b.shown)); to != at && len(b.shown) > 0 {
			b.chosen = b.shown[min(max(to, 0), len(b.shown)-1)]
		}
	}
}

func (b *Board) nodeKey(key string) {
	if key == Esc || key == Rub {
		b.node, b.facts = "", nil
		return
	}
	b.scroll = max(b.scroll+step(key, b.lines-2, 1<<20), 0)
}

// step is how far a key moves, if a page has so many lines and all is so much.
func step(key string, page, all int) int {
	switch key {
	case Up, "k":
		return -1
	case Down, "j":
		return 1
	case PageUp, "b":
		return -max(page-1, 1)
	case PageDown, " ":
		return max(page-1, 1)
	case Home, "g":
		return -all
	case End, "G":
		return all
	}
	return 0
}

// longestFilter is how many bytes of a filter can be typed.
const longestFilter = 200

// input takes a key of a filter that is being typed.
func (b *Board) input(key string) {
	switch key {
	case Esc:
		b.typing, b.wrong = false, ""
	case Enter:
		if _, err := filter.Parse(b.typed); err != nil {
			b.wrong = err.Message
			return
		}
		b.typing = false
		b.choose(strings.TrimSpace(b.typed))
	case Rub:
		_, n := utf8.DecodeLastRuneInString(b.typed)
		b.typed, b.wrong = b.typed[:len(b.typed)-n], ""
	default:
		if utf8.RuneCountInString(key) == 1 && len(b.typed) < longestFilter {
			b.typed, b.wrong = b.typed+key, ""
		}
	}
}

// choose makes another filter count. Until the controller has said what it selects, no node is shown.
func (b *Board) choose(text string) {
	b.filter, b.match, b.wrong = text, nil, ""
	b.arrange()
}
