// Package liveview keeps one table of all nodes for everybody who watches them. Rows are written in JSON once, when
// they change; a viewer is a place in the order of changes, and nothing else is kept of it. Viewers who are at the same
// place are given the same bytes.
package liveview

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/roster"
	"tandem.internal/controller/internal/view"
)

const (
	// Chunk is how many bytes a viewer is given at once, and about as many as it makes others hold.
	Chunk = 64 << 10

	rowsInLine  = 200     // at most, so that a page is not kept busy by one line
	maxEntries  = 1000    // newest entries that are kept of each sort
	leastGone   = 1000    // nodes that are gone and are remembered, if there are fewer others
	leastSlack  = 1024    // changes that are of no use any more and may be kept
	maxEntryLen = 2 << 10 // bytes of an entry's line; a longer one is left out
)

// Table is the table. It is safe for concurrent use; one goroutine at a time calls Update.
type Table struct {
	mu    sync.RWMutex
	epoch uint64
	base  uint64 // a cursor of before this record is of no use
	rev   uint64 // newest record that is taken into account
	again bool   // there was more than one update at rev
	nodes map[string]*node
	log   []change // in order; the newest one of a node counts
	last  uint64   // number of the newest change
	gone  int
	// number of the newest change when nodes that are gone were forgotten
	forgotten uint64
	counts    roster.Counts
	fleet     view.Fleet // as it was written last
	fleetAt   uint64     // number of its change
	line      []byte     // fleet, as a line
	kept      [2]ring    // entries that matter, and all of them
	changed   chan struct{}

	sharing sync.Mutex      // taken while mu is held
	pieces  map[place]piece // that were made since the newest update
}

// node is a node as it was when it changed last.
type node struct {
	row  view.Row
	text []byte // of the row; of one that is gone, its name; JSON
	gone bool
	at   uint64 // number of its change; 0: it was forgotten
}

type change struct {
	at, rev uint64
	of      *node
}

// Update is what has become of some nodes.
type Update struct {
	Epoch, Rev uint64
	Unit       string
	Rows       []view.Row
	Gone       []string
	Look       []view.Sentence
	Entries    []view.Entry // with words; without data
	All        bool         // Entries are all that there were, and not those only that matter
	Missed     bool         // there were more entries
}

// New returns a table without nodes.
func New() *Table {
	first := ring{last: 2} // so that there are numbers before that of each line
	return &Table{nodes: map[string]*node{}, changed: make(chan struct{}), kept: [2]ring{first, first},
		pieces: map[place]piece{}}
}

// Changed is closed at the next update.
func (t *Table) Changed() <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changed
}

// Without returns the names of the nodes in the table that are not among some.
func (t *Table) Without(some []string) (others []string) {
	among := make(map[string]bool, len(some))
	for _, name := range some {
		among[name] = true
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name, n := range t.nodes {
		if !n.gone && !among[name] {
			others = append(others, name)
		}
	}
	return others
}

// Fleet returns what is known of all nodes.
func (t *Table) Fleet() view.Fleet {
	t.mu.RLock()
	defer t.mu.RUnlock()
	f := t.counts.Fleet()
	f.Unit, f.Epoch, f.Rev, f.Look = t.fleet.Unit, t.epoch, t.rev, slices.Clone(t.fleet.Look)
	return f
}

// Update takes what has changed into the table, and wakes the viewers. Rows that are as they were count as not changed.
func (t *Table) Update(u Update) error {
	texts := make([][]byte, len(u.Rows))
	for i := range u.Rows {
		if t.same(&u.Rows[i]) {
			continue
		}
		text, err := json.Marshal(&u.Rows[i])
		if err != nil {
			return fmt.Errorf("row of %s: %w", u.Rows[i].Node, err)
		}
		texts[i] = text
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.pieces)
	if t.epoch != u.Epoch {
		t.begin(u.Epoch, u.Rev)
	}
	t.again, t.rev = t.rev == u.Rev, u.Rev
	for i := range u.Rows {
		if texts[i] != nil {
			t.set(&u.Rows[i], texts[i])
		}
	}
	for _, name := range u.Gone {
		if err := t.drop(name); err != nil {
			return err
		}
	}
	if err := t.setFleet(&u); err != nil {
		return err
	}
	if err := t.addEntries(&u); err != nil {
		return err
	}
	t.tidy()
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}

// same reports whether the table has the row as it is. That of a node that is gone is like no other.
func (t *Table) same(r *view.Row) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.nodes[r.Node]
	return n != nil && n.row == *r
}

// begin makes the table that of another epoch, or of another life: cursors of before are of no use.
func (t *Table) begin(epoch, rev uint64) {
	t.epoch, t.base = epoch, rev
}

func (t *Table) set(r *view.Row, text []byte) {
	n := t.nodes[r.Node]
	switch {
	case n == nil:
		n = &node{}
		t.nodes[r.Node] = n
	case n.gone:
		t.gone--
		n.gone = false
	default:
		t.counts.Remove(&n.row)
	}
	n.row, n.text = *r, text
	t.counts.Add(r)
	t.note(n)
}

func (t *Table) drop(name string) error {
	n := t.nodes[name]
	if n == nil || n.gone {
		return nil
	}
	text, err := json.Marshal(name)
	if err != nil {
		return err
	}
	t.counts.Remove(&n.row)
	t.gone++
	n.row, n.text, n.gone = view.Row{}, text, true
	t.note(n)
	return nil
}

func (t *Table) note(n *node) {
	t.last++
	n.at = t.last
	t.log = append(t.log, change{t.last, t.with(), n})
}

// with is the record that somebody has to be told of to have what changes now.
func (t *Table) with() uint64 {
	if t.again {
		return t.rev + 1
	}
	return t.rev
}

// setFleet writes the fleet's line if something of it has changed.
func (t *Table) setFleet(u *Update) error {
	f := t.counts.Fleet()
	f.Unit, f.Epoch, f.Look = u.Unit, u.Epoch, u.Look
	if t.line != nil && sameFleet(&f, &t.fleet) {
		return nil
	}
	f.Rev = u.Rev
	line, err := json.Marshal(&view.Live{Fleet: &f}, json.Deterministic(true))
	if err != nil {
		return err
	}
	t.last++
	t.fleet, t.fleetAt, t.line = f, t.last, append(line, '\n')
	return nil
}

// tidy forgets changes that later ones have replaced, and nodes that are long gone.
func (t *Table) tidy() {
	if t.gone > max(leastGone, len(t.nodes)-t.gone) {
		for name, n := range t.nodes {
			if n.gone {
				n.at = 0
				delete(t.nodes, name)
			}
		}
		t.gone, t.base, t.forgotten = 0, t.with(), t.last // who does not know of them begins anew
	}
	if len(t.log) > 2*len(t.nodes)+leastSlack {
		t.log = slices.DeleteFunc(t.log, func(c change) bool { return !c.counted() })
	}
}

// counted reports whether a change is the newest one of its node.
func (c *change) counted() bool { return c.of.at == c.at }
