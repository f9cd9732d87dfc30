package liveview

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/view"
)

// page is what somebody knows who reads a stream.
type page struct {
	rows    map[string]view.Row
	fleet   view.Fleet
	entries []uint64
	missed  bool
	resets  int
	cursor  *Cursor
	lines   int
	told    int // rows and names
}

// read takes the lines of a Fill.
func (p *page) read(t *testing.T, b []byte) {
	t.Helper()
	for line := range bytes.Lines(b) {
		var l view.Live
		if err := json.Unmarshal(line, &l, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		p.lines++
		if l.Reset {
			p.rows = map[string]view.Row{}
			p.resets++
		}
		if l.Fleet != nil {
			p.fleet = *l.Fleet
		}
		if len(l.Rows) > rowsInLine || len(l.Gone) > rowsInLine {
			t.Fatalf("%d rows and %d names in a line", len(l.Rows), len(l.Gone))
		}
		p.told += len(l.Rows) + len(l.Gone)
		for _, r := range l.Rows {
			p.rows[r.Node] = r
		}
		for _, name := range l.Gone {
			delete(p.rows, name)
		}
		if l.Entry != nil {
			p.entries = append(p.entries, l.Entry.Seq)
		}
		p.missed = p.missed || l.Missed
		if l.Complete {
			p.cursor = &Cursor{}
			if _, err := fmt.Sscanf(l.At, "%d-%d", &p.cursor.Epoch, &p.cursor.Rev); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fill reads until nothing more is there.
func (p *page) fill(t *testing.T, v *Viewer) {
	t.Helper()
	for more := true; more; {
		var b []byte
		b, more = v.Next()
		if len(b) > Chunk+rowsInLine*200 {
			t.Fatalf("%d bytes at once", len(b))
		}
		p.read(t, b)
	}
}

func newPage() *page { return &page{rows: map[string]view.Row{}} }

func update(t *testing.T, table *Table, u Update) {
	t.Helper()
	u.Unit, u.Epoch = "u", 7
	if err := table.Update(u); err != nil {
		t.Fatal(err)
	}
}

// TestEverybodySeesTheSame: whoever reads at once, slowly, in pieces, or comes back with a cursor ends with what is.
func TestEverybodySeesTheSame(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 2))
		table, truth, rev := New(), map[string]view.Row{}, uint64(100)
		step := func(n int) {
			u := Update{Rev: rev}
			for range n {
				name := fmt.Sprintf("n%d", r.IntN(1500))
				if r.IntN(4) == 0 {
					u.Gone = append(u.Gone, name)
					u.Rows = slices.DeleteFunc(u.Rows, func(row view.Row) bool { return row.Node == name })
					delete(truth, name)
					continue
				}
				row := view.Row{Node: name, Class: view.ClassInStep, Alerts: r.IntN(3)}
				u.Gone = slices.DeleteFunc(u.Gone, func(gone string) bool { return gone == name })
				u.Rows, truth[name] = append(u.Rows, row), row
			}
			u.Rows = slices.DeleteFunc(u.Rows, func(row view.Row) bool { return truth[row.Node] != row })
			update(t, table, u)
		}
		step(2000)
		quick, slow, back := newPage(), newPage(), newPage()
		quickly, slowly := table.View(nil, false), table.View(nil, false)
		back.fill(t, table.View(nil, false))
		for range 25 {
			rev += uint64(r.IntN(2))
			step(r.IntN(300))
			quick.fill(t, quickly)
			b, _ := slowly.Next()
			slow.read(t, b)
			if r.IntN(5) == 0 {
				back.fill(t, table.View(back.cursor, false))
			}
		}
		slow.fill(t, slowly)
		back.fill(t, table.View(back.cursor, false))
		for name, p := range map[string]*page{"quick": quick, "slow": slow, "back": back} {
			if !maps.Equal(p.rows, truth) {
				t.Fatalf("seed %d, %s: %d rows, want %d", seed, name, len(p.rows), len(truth))
			}
			if p.fleet.Nodes != len(truth) || p.fleet.Counts.InStep != len(truth) {
				t.Fatalf("seed %d, %s: %+v", seed, name, p.fleet)
			}
		}
		gone := 0
		for _, n := range table.nodes {
			if n.gone {
				gone++
			}
		}
		if gone != table.gone {
			t.Fatalf("seed %d: %d are gone, and %d are counted", seed, gone, table.gone)
		}
		if len(table.log) > 2*len(table.nodes)+leastSlack || table.gone > max(leastGone, len(truth)) {
			t.Fatalf("%d changes and %d gone of %d nodes are kept", len(table.log), table.gone, len(table.nodes))
		}
	}
}

// TestOnlyWhatChanged: who comes back gets no more than that, and nothing comes when nothing has changed.
func TestOnlyWhatChanged(t *testing.T) {
	table := New()
	row := func(name string, alerts int) view.Row {
		return view.Row{Node: name, Class: view.ClassInStep, Alerts: alerts}
	}
	update(t, table, Update{Rev: 5, Rows: []view.Row{row("a", 0), row("b", 0), row("c", 0)}})
	p, v := newPage(), table.View(nil, false)
	p.fill(t, v)
	if p.lines != 3 || *p.cursor != (Cursor{7, 5}) {
		t.Fatalf("%d lines to %v", p.lines, p.cursor)
	}
	update(t, table, Update{Rev: 6, Rows: []view.Row{row("a", 0)}})
	if b, more := v.Next(); len(b) > 0 || more {
		t.Errorf("told of nothing: %s", b)
	}
	update(t, table, Update{Rev: 7, Rows: []view.Row{row("a", 1)}, Gone: []string{"b", "never"}})
	for name, v := range map[string]*Viewer{"stayed": v, "back": table.View(p.cursor, false)} {
		b, _ := v.Next()
		if !bytes.HasSuffix(b, []byte(`{"rows":[{"node":"a","class":"inStep","state":"","alerts":1}]}
{"gone":["b"]}
{"at":"7-7","complete":true}
`)) {
			t.Errorf("%s: %s", name, b)
		}
	}
	for _, old := range []Cursor{{7, 4}, {6, 5}, {8, 1}, {7, 8}} {
		p := newPage()
		if p.fill(t, table.View(&old, false)); p.resets != 1 || len(p.rows) != 2 {
			t.Errorf("with the cursor %v: %+v", old, p)
		}
	}
	update(t, table, Update{Rev: 7, Rows: []view.Row{row("a", 2)}}) // no record says so
	p = newPage()
	if p.fill(t, table.View(&Cursor{7, 7}, false)); p.rows["a"].Alerts != 2 || p.resets != 0 {
		t.Errorf("what has changed without a record: %+v", p)
	}
}

// TestEntries: a viewer gets what matters, or all; and is told if something is left out.
func TestEntries(t *testing.T) {
	table := New()
	told := func(seqs ...uint64) (all []view.Entry) {
		for _, seq := range seqs {
			e := view.Entry{Seq: seq, Level: view.LevelInfo}
			if seq%10 == 0 {
				e.Level = view.LevelError
			}
			all = append(all, e)
		}
		return all
	}
	update(t, table, Update{Rev: 10, Entries: told(10)})
	some, all := table.View(nil, false), table.View(nil, true)
	pages := []*page{newPage(), newPage()}
	update(t, table, Update{Rev: 20, All: true, Entries: told(11, 20)})
	update(t, table, Update{Rev: 21, All: true, Entries: told(21)})
	for i, v := range []*Viewer{some, all} {
		pages[i].fill(t, v)
		if want := [][]uint64{{20}, {11, 20, 21}}[i]; !slices.Equal(pages[i].entries, want) || pages[i].missed {
			t.Errorf("%v, want %v", pages[i].entries, want)
		}
	}
	for _, c := range []struct {
		after  uint64
		all    bool
		want   []uint64
		missed bool
	}{{10, false, []uint64{20}, false}, {20, false, nil, false}, {10, true, []uint64{11, 20, 21}, false},
		{20, true, []uint64{21}, false}} {
		p := newPage()
		p.fill(t, table.View(&Cursor{7, c.after}, c.all))
		if !slices.Equal(p.entries, c.want) || p.missed != c.missed {
			t.Errorf("after %d: %v %v", c.after, p.entries, p.missed)
		}
	}
	update(t, table, Update{Rev: 30, Missed: true, Entries: told(30)})
	for i, v := range []*Viewer{some, all} {
		if pages[i].fill(t, v); !pages[i].missed {
			t.Errorf("viewer %d is not told of what is left out", i)
		}
	}
	for seq := uint64(40); seq < 40+10*3*maxEntries; seq += 10 {
		update(t, table, Update{Rev: seq, Entries: told(seq)})
	}
	p := newPage()
	if p.fill(t, table.View(&Cursor{7, 30}, false)); !p.missed || len(p.entries) < maxEntries ||
		len(table.kept[0].lines) > 2*maxEntries {
		t.Errorf("%d entries, missed %v", len(p.entries), p.missed)
	}
}

// TestWhatMatters: a viewer is woken; what somebody caused is told to everybody, and a line that is too long to nobody.
func TestWhatMatters(t *testing.T) {
	table := New()
	update(t, table, Update{Rev: 1, Rows: []view.Row{{Node: "a"}, {Node: "b"}}})
	p, v := newPage(), table.View(nil, false)
	p.fill(t, v)
	changed := v.Changed()
	update(t, table, Update{Rev: 3, All: true, Gone: []string{"b"}, Entries: []view.Entry{
		{Seq: 2, Level: view.LevelInfo}, {Seq: 3, Level: view.LevelInfo, Who: "ann"}}})
	select {
	case <-changed:
	default:
		t.Error("nobody is woken")
	}
	if p.fill(t, v); !slices.Equal(p.entries, []uint64{3}) || p.missed {
		t.Errorf("%v, missed %v", p.entries, p.missed)
	}
	update(t, table, Update{Rev: 4, All: true, Entries: []view.Entry{
		{Seq: 4, Level: view.LevelError, Text: strings.Repeat("x", maxEntryLen)}}})
	if p.fill(t, v); len(p.entries) != 1 || !p.missed {
		t.Errorf("a line that is too long: %v, missed %v", p.entries, p.missed)
	}
	if others := table.Without([]string{"a"}); len(others) > 0 {
		t.Errorf("%v are in the table", others)
	}
}

// TestGoneAreForgotten: once most nodes are gone, who has not been told of that begins anew, be it with a cursor, and
// who has goes on.
func TestGoneAreForgotten(t *testing.T) {
	table, all := New(), Update{Rev: 5, Rows: []view.Row{{Node: "stays"}}}
	var gone []string
	for i := range leastGone + 1 {
		gone = append(gone, fmt.Sprint("n", i))
		all.Rows = append(all.Rows, view.Row{Node: gone[i]})
	}
	update(t, table, all)
	stayed, back := newPage(), newPage()
	v := table.View(nil, false)
	stayed.fill(t, v)
	back.fill(t, table.View(nil, false))
	update(t, table, Update{Rev: 6, Gone: gone})
	stayed.fill(t, v)
	back.fill(t, table.View(back.cursor, false))
	for name, p := range map[string]*page{"stayed": stayed, "back": back} {
		if len(p.rows) != 1 || p.resets != 1 || len(table.nodes) != 1 {
			t.Errorf("%s: %d rows after %d resets, %d are kept", name, len(p.rows), p.resets, len(table.nodes))
		}
	}
	if back.fill(t, table.View(back.cursor, false)); back.resets != 1 {
		t.Error("who was told of it begins anew")
	}
}
