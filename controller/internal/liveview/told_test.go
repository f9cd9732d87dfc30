package liveview

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/view"
)

func row(name string, alerts int) view.Row {
	return view.Row{Node: name, Class: view.ClassInStep, Alerts: alerts}
}

// told is what a viewer is told now, without the fleet.
func told(v *Viewer) string {
	var all strings.Builder
	for more := true; more; {
		var b []byte
		b, more = v.Next()
		for line := range bytes.Lines(b) {
			if !bytes.Contains(line, []byte(`"fleet":{`)) {
				all.Write(line)
			}
		}
	}
	return all.String()
}

// lines are lines about rows that are in step, with their alerts, and the end of a batch.
func lines(at string, more ...string) string {
	return strings.Join(append(more, fmt.Sprintf(`{"at":"%s","complete":true}`, at), ""), "\n")
}

func rowsOf(rows ...view.Row) string {
	var all []string
	for _, r := range rows {
		all = append(all, fmt.Sprintf(`{"node":"%s","class":"inStep","state":"","alerts":%d}`, r.Node, r.Alerts))
	}
	return `{"rows":[` + strings.Join(all, ",") + "]}"
}

// TestToTheByte: what somebody is told who comes back is what has changed since, each as it is now, and no more; and so
// for who has stayed. A batch ends with its place, whatever is in it.
func TestToTheByte(t *testing.T) {
	table := New()
	update(t, table, Update{Rev: 5, Rows: []view.Row{row("a", 0), row("b", 0), row("c", 0)}})
	stayed := table.View(nil, false)
	first := told(stayed)
	if want := lines("7-5", rowsOf(row("a", 0), row("b", 0), row("c", 0))); first != want {
		t.Errorf("first %s", first)
	}
	since := map[uint64]*Viewer{}
	for _, c := range []struct {
		u    Update
		want string            // of who has stayed
		back map[uint64]string // of who comes back with a record
	}{
		{Update{Rev: 6, Rows: []view.Row{row("a", 1)}}, lines("7-6", rowsOf(row("a", 1))),
			map[uint64]string{5: lines("7-6", rowsOf(row("a", 1)))}},
		{Update{Rev: 7, Rows: []view.Row{row("b", 1)}}, lines("7-7", rowsOf(row("b", 1))),
			map[uint64]string{6: lines("7-7", rowsOf(row("b", 1))),
				5: lines("7-7", rowsOf(row("a", 1), row("b", 1)))}},
		{Update{Rev: 8, Rows: []view.Row{row("a", 2)}, Gone: []string{"b"}},
			lines("7-8", rowsOf(row("a", 2)), `{"gone":["b"]}`),
			map[uint64]string{5: lines("7-8", rowsOf(row("a", 2)), `{"gone":["b"]}`),
				7: lines("7-8", rowsOf(row("a", 2)), `{"gone":["b"]}`)}},
		{Update{Rev: 9, Rows: []view.Row{row("b", 1)}, Gone: []string{"a"}},
			lines("7-9", rowsOf(row("b", 1)), `{"gone":["a"]}`),
			map[uint64]string{8: lines("7-9", rowsOf(row("b", 1)), `{"gone":["a"]}`)}},
		{Update{Rev: 10, Look: []view.Sentence{{Text: "x"}}}, lines("7-10"), map[uint64]string{9: lines("7-10")}},
		{Update{Rev: 11, Look: []view.Sentence{{Text: "x"}}}, "", map[uint64]string{10: lines("7-11")}},
	} {
		update(t, table, c.u)
		if got := told(stayed); got != c.want {
			t.Errorf("record %d: %s, want %s", c.u.Rev, got, c.want)
		}
		for rev, want := range c.back {
			since[rev] = table.View(&Cursor{7, rev}, false)
			if got := told(since[rev]); got != want {
				t.Errorf("record %d, back with %d: %s, want %s", c.u.Rev, rev, got, want)
			}
			if got := told(since[rev]); got != "" {
				t.Errorf("record %d, back with %d, once more: %s", c.u.Rev, rev, got)
			}
		}
		if f := table.Fleet(); f.Rev != c.u.Rev || len(f.Look) != len(c.u.Look) {
			t.Errorf("record %d: %+v", c.u.Rev, f)
		}
	}
	table.Fleet().Look[0].Text = "y"
	if f := table.Fleet(); f.Look[0].Text != "x" {
		t.Error("the table's own is given away")
	}
	old := table.View(&Cursor{6, 1}, false)
	if got := told(old); !strings.HasPrefix(got, "{\"reset\":true}\n") {
		t.Errorf("with a place that is none: %s", got)
	}
	if got := told(old); got != "" {
		t.Errorf("and once more: %s", got)
	}
}

// TestMoreThanAChunk: all rows come, each once, in pieces; and what changes meanwhile comes with the same batch, the
// fleet as it is at its end.
func TestMoreThanAChunk(t *testing.T) {
	table, all := New(), Update{Rev: 5}
	for i := range 5000 {
		all.Rows = append(all.Rows, row(fmt.Sprint("node-", i), 0))
	}
	update(t, table, all)
	p, v := newPage(), table.View(nil, false)
	if p.fill(t, v); p.told != 5000 || len(p.rows) != 5000 || p.cursor == nil {
		t.Errorf("%d rows of %d nodes, up to %v", p.told, len(p.rows), p.cursor)
	}
	p, v = newPage(), table.View(nil, false)
	b, more := v.Next()
	if !more || len(b) < Chunk-1000 || len(b) > Chunk+rowsInLine*100 {
		t.Fatalf("%d bytes, more %v", len(b), more)
	}
	p.read(t, b)
	update(t, table, Update{Rev: 6, Rows: []view.Row{row("node-0", 1)}, Gone: []string{"node-1"}, All: true,
		Entries: []view.Entry{{Seq: 6, Level: view.LevelError}}})
	if p.cursor != nil {
		t.Errorf("the batch ends at %v", p.cursor)
	}
	if p.fill(t, v); p.told != 5002 || len(p.rows) != 4999 || p.fleet.Nodes != 4999 || *p.cursor != (Cursor{7, 6}) ||
		len(p.entries) != 1 {
		t.Errorf("%d rows of %d nodes, %+v, up to %v, entries %v", p.told, len(p.rows), p.fleet, p.cursor, p.entries)
	}
	update(t, table, Update{Rev: 7, Gone: []string{"node-2"}})
	if got := told(v); got != lines("7-7", `{"gone":["node-2"]}`) {
		t.Errorf("%s", got)
	}
	much := Update{Rev: 8 + maxEntries, All: true}
	for i := range uint64(maxEntries) {
		much.Entries = append(much.Entries,
			view.Entry{Seq: 8 + i, Level: view.LevelError, Text: strings.Repeat("x", 100)})
	}
	update(t, table, much)
	if b, more = v.Next(); !more || len(b) < Chunk {
		t.Errorf("of entries %d bytes, more %v", len(b), more)
	}
}

// TestFewGoneStay: while there are more others, or not so many at all, those that are gone are remembered; then no more
// is told of them, and nobody who comes later begins anew.
func TestFewGoneStay(t *testing.T) {
	for name, c := range map[string]struct{ nodes, gone, remembered int }{
		"few":              {leastGone, leastGone, leastGone},
		"fewer than there": {3 * leastGone, leastGone + 1, leastGone + 1},
		"most":             {2*leastGone + 1, leastGone + 1, 0},
	} {
		table, all := New(), Update{Rev: 5}
		for i := range c.nodes {
			all.Rows = append(all.Rows, row(fmt.Sprint("n", i), 0))
		}
		update(t, table, all)
		stays := newPage()
		v := table.View(nil, false)
		stays.fill(t, v)
		leave := Update{Rev: 5} // no record says so
		for i := range c.gone {
			leave.Gone = append(leave.Gone, fmt.Sprint("n", i))
		}
		update(t, table, leave)
		resets := 0
		if c.remembered == 0 {
			resets = 1
		}
		back, anew := newPage(), newPage()
		back.fill(t, table.View(&Cursor{7, 5}, false))
		stays.fill(t, v)
		if table.gone != c.remembered || back.resets != resets || stays.resets != resets ||
			len(stays.rows) != c.nodes-c.gone {
			t.Errorf("%s: %d are remembered, %d and %d resets", name, table.gone, back.resets, stays.resets)
		}
		if anew.fill(t, table.View(nil, false)); anew.told != c.nodes-c.gone+c.remembered {
			t.Errorf("%s: who comes is told of %d", name, anew.told)
		}
		update(t, table, Update{Rev: 6, Rows: []view.Row{row("new", 0)}})
		if stays.fill(t, v); stays.resets != resets || stays.rows["new"].Node == "" {
			t.Errorf("%s: begins anew with each update", name)
		}
	}
}

// TestMissedOnce: whoever may have missed something is told so once, be there entries or none; who comes later is not.
func TestMissedOnce(t *testing.T) {
	entry := func(seq uint64) view.Entry { return view.Entry{Seq: seq, Level: view.LevelError} }
	for name, c := range map[string]struct {
		u    Update // the second one
		want [2]string
	}{
		"all are there": {Update{All: true, Entries: []view.Entry{entry(11)}}, [2]string{"11", "11"}},
		"none":          {Update{All: true}, [2]string{"", ""}},
		"some":          {Update{Entries: []view.Entry{entry(11)}}, [2]string{"11", "missed"}},
		"too many": {Update{All: true, Missed: true, Entries: []view.Entry{entry(11)}},
			[2]string{"missed 11", "missed 11"}},
		"too many, and none is left": {Update{All: true, Missed: true}, [2]string{"missed", "missed"}},
	} {
		table := New()
		update(t, table, Update{Rev: 10, All: true})
		viewers := []*Viewer{table.View(nil, false), table.View(nil, true)}
		told(viewers[0])
		told(viewers[1])
		c.u.Rev = 11
		update(t, table, c.u)
		for i, v := range viewers {
			for who, v := range map[string]*Viewer{"stayed": v, "back": table.View(&Cursor{7, 10}, i == 1)} {
				p := newPage()
				p.fill(t, v)
				if got := p.happened(); got != c.want[i] {
					t.Errorf("%s, viewer %d, %s: %q, want %q", name, i, who, got, c.want[i])
				}
				if p.cursor == nil && (c.want[i] != "" || who == "back") {
					t.Errorf("%s, viewer %d, %s: the batch has no end", name, i, who)
				}
			}
		}
		update(t, table, Update{Rev: 12, All: true, Entries: []view.Entry{entry(12)}})
		for i, v := range append(viewers, table.View(&Cursor{7, 11}, false), table.View(&Cursor{7, 11}, true)) {
			p := newPage()
			if p.fill(t, v); p.happened() != "12" {
				t.Errorf("%s, viewer %d: then %q", name, i, p.happened())
			}
		}
	}
}

// happened is what has happened, as a page was told.
func (p *page) happened() string {
	var all []string
	if p.missed {
		all = append(all, "missed")
	}
	for _, seq := range p.entries {
		all = append(all, fmt.Sprint(seq))
	}
	return strings.Join(all, " ")
}

// TestFleetIsToldWhenItChanges: and with it nothing else.
func TestFleetIsToldWhenItChanges(t *testing.T) {
	base := Update{Unit: "u", Epoch: 7, Rev: 5, Rows: []view.Row{{Node: "a", Class: view.ClassInStep, Type: "x",
		Version: "1.0.0"}}}
	for name, c := range map[string]struct {
		change func(*Update)
		told   bool
	}{
		"nothing":      {func(*Update) {}, false},
		"the unit":     {func(u *Update) { u.Unit = "v" }, true},
		"the epoch":    {func(u *Update) { u.Epoch++ }, true},
		"a node":       {func(u *Update) { u.Rows = append(u.Rows, view.Row{Node: "b"}) }, true},
		"who is there": {func(u *Update) { u.Rows[0].Class = view.ClassOffline }, true},
		"a class":      {func(u *Update) { u.Rows[0].Class = view.ClassFailed }, true},
		"a type":       {func(u *Update) { u.Rows[0].Type = "y" }, true},
		"a version":    {func(u *Update) { u.Rows[0].Version = "2.0.0" }, true},
		"an alert":     {func(u *Update) { u.Rows[0].Alerts = 1 }, false},
		"a sentence":   {func(u *Update) { u.Look = []view.Sentence{{Text: "x"}} }, true},
	} {
		table, u := New(), base
		if err := table.Update(u); err != nil {
			t.Fatal(err)
		}
		v := table.View(nil, false)
		told(v)
		u.Rows = slices.Clone(u.Rows)
		u.Rev++
		c.change(&u)
		if err := table.Update(u); err != nil {
			t.Fatal(err)
		}
		b, _ := v.Next()
		if got := bytes.Contains(b, []byte(`"fleet":{`)); got != c.told {
			t.Errorf("%s: %s", name, b)
		}
	}
}

// TestSamePlaceSameBytes: who is where somebody was since the newest update is given the same bytes, and comes to the
// same place; who wants other entries, is elsewhere or comes after an update is not. Few pieces are kept.
func TestSamePlaceSameBytes(t *testing.T) {
	same := func(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
	table, all := New(), Update{Rev: 5}
	for i := range 5000 {
		all.Rows = append(all.Rows, row(fmt.Sprint("node-", i), 0))
	}
	update(t, table, all)
	first, second, other := table.View(nil, false), table.View(nil, false), table.View(nil, true)
	pieces := 0
	for more := true; more; pieces++ {
		var a, b, c []byte
		a, more = first.Next()
		b, moreToo := second.Next()
		if !same(a, b) || more != moreToo || first.place != second.place {
			t.Fatalf("piece %d: more %v, %v, to %+v, %+v", pieces, more, moreToo, first.place, second.place)
		}
		if c, _ = other.Next(); same(a, c) || !bytes.Equal(a, c) {
			t.Fatalf("piece %d of who gets all entries is another", pieces)
		}
	}
	if pieces < 5 || len(table.pieces) != 2*pieces {
		t.Errorf("%d of %d pieces are kept", len(table.pieces), 2*pieces)
	}
	late := table.View(nil, false)
	begin, _ := late.Next()
	update(t, table, Update{Rev: 6, Rows: []view.Row{row("node-0", 1)}, Gone: []string{"node-1"}})
	if len(table.pieces) != 0 {
		t.Errorf("%d pieces of before are kept", len(table.pieces))
	}
	if told(first) != told(second) {
		t.Error("who were at the same place are told different things")
	}
	if again, _ := table.View(nil, false).Next(); same(begin, again) || bytes.Equal(begin, again) {
		t.Error("after an update, a piece of before is told")
	}
	if got := told(late); !strings.HasSuffix(got, lines("7-6", rowsOf(row("node-0", 1)), `{"gone":["node-1"]}`)) {
		t.Errorf("who was in the middle is told %s", got[max(0, len(got)-300):])
	}
	for rev := range uint64(3 * maxPieces) {
		update(t, table, Update{Rev: 7 + rev, Rows: []view.Row{row("node-0", int(rev))}})
	}
	for rev := range uint64(3 * maxPieces) {
		told(table.View(&Cursor{7, 6 + rev}, false))
	}
	if len(table.pieces) != maxPieces {
		t.Errorf("%d pieces are kept", len(table.pieces))
	}
}

// TestPiecesGrowOnce: for who begins, a piece of many rows is not copied again and again while it grows.
func TestPiecesGrowOnce(t *testing.T) {
	table, all := New(), Update{Rev: 5}
	for i := range 5000 {
		all.Rows = append(all.Rows, row(fmt.Sprint("node-", i), 0))
	}
	update(t, table, all)
	pieces := 0
	allocated := testing.AllocsPerRun(5, func() {
		clear(table.pieces)
		v := table.View(nil, false)
		pieces = 0
		for more := true; more; pieces++ {
			_, more = v.Next()
		}
	})
	if pieces < 5 || allocated > float64(6*pieces) {
		t.Errorf("%v allocations for %d pieces", allocated, pieces)
	}
}
