package distribute

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/liveview"
	"tandem.internal/controller/internal/record"
)

// newsOf is what viewers are told of now: whether it is all, whether some is missing, and the numbers.
func newsOf(t *testing.T, n *news) string {
	t.Helper()
	var u liveview.Update
	n.words(&u, &Core{cfg: Config{Kinds: kinds.All()}})
	var all []string
	if u.All {
		all = append(all, "all")
	}
	if u.Missed {
		all = append(all, "missed")
	}
	for _, e := range u.Entries {
		all = append(all, fmt.Sprint(e.Seq))
		if e.Data != nil || e.Text == "" || !u.All && !liveview.Matters(&e) {
			t.Errorf("told of %+v", e)
		}
	}
	return strings.Join(all, " ")
}

// TestNews: of what has become durable viewers are told what matters, or all while somebody wants that, and whether it
// is all; too much is not kept, and nothing while nobody looks.
func TestNews(t *testing.T) {
	var n news
	seq := uint64(0)
	take := func(typ record.Type, who string, data string) {
		seq++
		n.take([]record.Record{{Seq: seq, Type: typ, Node: "n", Who: who, Kind: "config", Data: []byte(data)}})
	}
	is := func(when, want string) {
		t.Helper()
		if got := newsOf(t, &n); got != want {
			t.Errorf("%s: told %q, want %q", when, got, want)
		}
	}
	trouble := func() { take(record.Trouble, "", `{"topic":"t"}`) }
	trouble()
	is("nobody looks", "")
	n.start()
	trouble()                                // 2
	take(record.Live, "", `{"up":true}`)     // it came, which is said of thousands
	take(record.Live, "", `{"up":false}`)    // 4
	take(record.Note, "", `{"text":"x"}`)    // mere information
	take(record.Note, "ann", `{"text":"x"}`) // 6
	is("somebody looks", "2 4 6")
	is("and once more", "")
	trouble() // 7
	n.all.Add(1)
	take(record.Live, "", `{"up":true}`)
	is("not all since it was asked", "7")
	take(record.Live, "", `{"up":true}`) // 9
	trouble()
	is("all", "all 9 10")
	is("all of nothing", "all")
	take(record.Live, "", `{"up":true}`) // 11
	n.all.Add(-1)
	trouble()
	is("who wanted all has left", "12")
	n.all.Add(1)
	trouble() // 13
	is("who comes when nothing waits", "all 13")
	n.all.Add(-1)
	is("and leaves again", "all")
	is("nobody wants all", "")
	var want []string
	for i := range maxNews + 1 {
		if trouble(); i < maxNews {
			want = append(want, fmt.Sprint(seq))
		}
	}
	is("too much", "missed "+strings.Join(want, " "))
	trouble()
	is("after that", fmt.Sprint(seq))
	for range maxNews + 1 {
		take(record.Live, "", `{"up":true}`)
	}
	trouble()
	is("what comes by the thousand takes no room", fmt.Sprint(seq))
	for range maxNews + 1 {
		trouble()
	}
	n.stop()
	trouble()
	is("nobody looks any more", "")
}

// TestMayMatter: what is decoded at all.
func TestMayMatter(t *testing.T) {
	for _, c := range []struct {
		typ       record.Type
		who, data string
		want      bool
	}{
		{record.Issued, "", `{}`, false}, {record.Issued, "ann", `{}`, true}, {record.Note, "", `{}`, true},
		{record.Live, "", `{"up":true}`, false}, {record.Live, "", `{"up":false}`, true},
		{record.Report, "", `{"state":"installed"}`, false}, {record.Report, "", `{"state":"failed"}`, true},
		{record.Report, "", `{"state":"rejected"}`, true}, {record.Report, "", `{"state":"rolledback"}`, true},
		{record.Report, "", `{"error":{}}`, true}, {record.Report, "ann", `{"state":"received"}`, false},
	} {
		if got := mayMatter(&record.Record{Type: c.typ, Who: c.who, Data: []byte(c.data)}); got != c.want {
			t.Errorf("%s %q %s: %v", c.typ, c.who, c.data, got)
		}
	}
}

// TestEntryOfARecord: it has the record's data, its own, and none that is no JSON.
func TestEntryOfARecord(t *testing.T) {
	c := &Core{cfg: Config{Kinds: kinds.All()}}
	r := record.Record{Seq: 1, Type: record.Report, Node: "n", Data: []byte("\xff{")}
	if e := c.entry(&r); e.Data != nil {
		t.Errorf("%+v", e)
	}
	r.Data = []byte(`{"a":1}`)
	e := c.entry(&r)
	if copy(r.Data, "_______"); !slices.Equal(e.Data, []byte(`{"a":1}`)) {
		t.Errorf("%s", e.Data)
	}
}
