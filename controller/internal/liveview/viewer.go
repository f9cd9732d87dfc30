package liveview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/view"
)

// Cursor is a place in what changes, as viewers are told it.
type Cursor struct{ Epoch, Rev uint64 }

// Viewer is a place in the table. It belongs to one goroutine.
type Viewer struct {
	t *Table
	place
}

// place is how much of the table somebody has.
type place struct {
	every int // 1: it gets all entries
	reset bool
	open  bool   // lines of a batch have left, and its end has not
	floor uint64 // number of the change with which nodes that are gone were forgotten last, as it knows
	fleet uint64 // number of the fleet's change that it has
	at    uint64 // number of the newest change that it has
	entry uint64 // number of the newest entry that it has
}

// View returns a viewer that begins with all nodes; or, with a cursor, with what has changed after it. All: it gets all
// entries, and not those only that matter.
func (t *Table) View(after *Cursor, all bool) *Viewer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v := &Viewer{t, place{floor: t.forgotten}}
	if all {
		v.every = 1
	}
	kept := &t.kept[v.every]
	v.entry = kept.last
	if after == nil {
		return v
	}
	if after.Epoch != t.epoch || after.Rev < t.base || after.Rev > t.rev {
		v.reset = true
		return v
	}
	v.at = t.before(after.Rev)
	v.entry = kept.before(after.Rev)
	return v
}

// before returns the number of the newest change that somebody has who was told of a record.
func (t *Table) before(rev uint64) uint64 {
	i, _ := slices.BinarySearchFunc(t.log, rev+1, func(c change, rev uint64) int { return cmp.Compare(c.rev, rev) })
	if i == 0 {
		return 0
	}
	return t.log[i-1].at
}

// piece is what somebody is given at a place, and the place where that leads to.
type piece struct {
	lines []byte
	to    place
	more  bool
}

// maxPieces bounds the pieces that are kept until the next update, for others who are at the same places.
const maxPieces = 64

// Next returns lines that the viewer does not have yet, about Chunk bytes at most; others may be given the same, so
// nobody changes them. More: there are more at once. Otherwise whatever has changed is told, and Changed says when
// there will be more.
func (v *Viewer) Next() (lines []byte, more bool) {
	t := v.t
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.sharing.Lock()
	p, known := t.pieces[v.place]
	t.sharing.Unlock()
	if known {
		v.place = p.to
		return p.lines, p.more
	}
	from := v.place
	lines, more = v.next()
	t.sharing.Lock()
	defer t.sharing.Unlock()
	if len(t.pieces) < maxPieces {
		t.pieces[from] = piece{lines, v.place, more}
	}
	return lines, more
}

// next is Next, made anew.
func (v *Viewer) next() (b []byte, more bool) {
	t := v.t
	if v.floor < t.forgotten {
		v.floor, v.at, v.reset = t.forgotten, 0, true
	}
	if v.reset {
		b = append(b, "{\"reset\":true}\n"...)
		v.reset, v.open = false, true
	}
	if !v.open || v.fleet == 0 {
		b = v.ofFleet(b)
	}
	if b, more = v.rows(b); more {
		return b, true
	}
	if b, more = v.entries(b); more {
		return b, true
	}
	if b = v.ofFleet(b); v.open {
		v.open = false
		b = fmt.Appendf(b, "{\"at\":\"%d-%d\",\"complete\":true}\n", t.epoch, t.rev)
	}
	v.at = t.last
	return b, false
}

// ofFleet appends the fleet if it has changed.
func (v *Viewer) ofFleet(b []byte) []byte {
	if v.fleet == v.t.fleetAt {
		return b
	}
	v.fleet, v.open = v.t.fleetAt, true
	return append(b, v.t.line...)
}

// rows appends the rows and the names that have changed, in order.
func (v *Viewer) rows(b []byte) (_ []byte, more bool) {
	t := v.t
	i, _ := slices.BinarySearchFunc(t.log, v.at+1, func(c change, at uint64) int { return cmp.Compare(c.at, at) })
	n, isGone := 0, false
	if len(t.log)-i > rowsInLine {
		b = slices.Grow(b, Chunk+Chunk/2) // rather than again and again
	}
	for ; i < len(t.log); i++ {
		c := &t.log[i]
		if !c.counted() {
			continue
		}
		node := c.of
		if n > 0 && (n == rowsInLine || node.gone != isGone) {
			b, n = append(b, "]}\n"...), 0
		}
		if n == 0 {
			if len(b) >= Chunk {
				return b, true
			}
			isGone = node.gone
			if isGone {
				b = append(b, `{"gone":[`...)
			} else {
				b = append(b, `{"rows":[`...)
			}
		} else {
			b = append(b, ',')
		}
		b = append(b, node.text...)
		n++
		v.at, v.open = c.at, true
	}
	if n > 0 {
		b = append(b, "]}\n"...)
	}
	return b, false
}

// entries appends what has happened.
func (v *Viewer) entries(b []byte) (_ []byte, more bool) {
	kept := &v.t.kept[v.every]
	lines, missed := kept.after(v.entry)
	if missed {
		b, v.open = append(b, "{\"missed\":true}\n"...), true
	}
	for i := range lines {
		if len(b) >= Chunk {
			return b, true
		}
		b, v.open = append(b, lines[i].text...), true
		v.entry = lines[i].at
	}
	v.entry = max(v.entry, kept.last)
	return b, false
}

// Changed is closed when there is more; it is asked for before Next.
func (v *Viewer) Changed() <-chan struct{} { return v.t.Changed() }

// ring has the newest lines about what happened.
type ring struct {
	lines []line
	last  uint64 // number of the newest one, left out or not
	floor uint64 // up to this record lines may be missing
}

type line struct {
	at, seq uint64
	text    []byte
}

// before returns the number of the newest line that somebody has who was told of a record. That of lines that are not
// there any more is less than what is there.
func (r *ring) before(rev uint64) uint64 {
	i, _ := slices.BinarySearchFunc(r.lines, rev+1, func(l line, seq uint64) int { return cmp.Compare(l.seq, seq) })
	switch {
	case rev < r.floor && len(r.lines) == 0:
		return r.last - 1
	case rev < r.floor:
		return r.lines[0].at - 2
	case i == len(r.lines):
		return r.last
	}
	return r.lines[i].at - 1
}

// after returns the lines after one, and whether there were more.
func (r *ring) after(at uint64) ([]line, bool) {
	i, _ := slices.BinarySearchFunc(r.lines, at+1, func(l line, at uint64) int { return cmp.Compare(l.at, at) })
	first := r.last + 1
	if i < len(r.lines) {
		first = r.lines[i].at
	}
	return r.lines[i:], first > at+1
}

// add keeps a line; nil: there was one that is not kept.
func (r *ring) add(seq uint64, text []byte) {
	r.last++
	if text == nil {
		r.floor = max(r.floor, seq)
		return
	}
	if len(r.lines) == 2*maxEntries {
		r.floor = r.lines[maxEntries-1].seq
		r.lines = slices.Clone(r.lines[maxEntries:])
	}
	r.lines = append(r.lines, line{r.last, seq, text})
}

// addEntries keeps what has happened, for those who see all of it and for those who see what matters.
func (t *Table) addEntries(u *Update) error {
	if u.Missed {
		t.kept[0].add(u.Rev, nil)
	}
	if u.Missed || !u.All {
		t.kept[1].add(u.Rev, nil)
	}
	for i := range u.Entries {
		e := &u.Entries[i]
		text, err := json.Marshal(&view.Live{Entry: e})
		if err != nil {
			return err
		}
		if text = append(text, '\n'); len(text) > maxEntryLen {
			text = nil
		}
		if Matters(e) {
			t.kept[0].add(e.Seq, text)
		}
		if u.All {
			t.kept[1].add(e.Seq, text)
		}
	}
	return nil
}

// Matters reports whether an entry is told to viewers who did not ask for all: it is no mere information, or somebody
// caused it.
func Matters(e *view.Entry) bool { return e.Level != view.LevelInfo || e.Who != "" }

// sameFleet reports whether nothing differs but the record. Who is online is among the counts.
func sameFleet(a, b *view.Fleet) bool {
	return a.Unit == b.Unit && a.Epoch == b.Epoch && a.Nodes == b.Nodes && a.Counts == b.Counts &&
		maps.Equal(a.Types, b.Types) && maps.Equal(a.Versions, b.Versions) &&
		slices.Equal(a.Look, b.Look)
}
