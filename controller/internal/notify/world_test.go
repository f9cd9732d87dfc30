package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// world is a journal, a receiver's file, and what the receiver has taken, around a machine.
type world struct {
	to      Receiver
	log     []Entry // the journal; that of number n is at n-1
	gone    map[uint64]bool
	now     time.Time
	machine *Machine
	file    Progress // what the receiver's file has
	taken   []Message
	saves   int
}

func newWorld(f Filter) *world {
	w := &world{to: Receiver{Name: "r", URL: "https://r.example", Filter: f.Completed()}, now: start,
		gone: map[uint64]bool{}}
	w.open()
	return w
}

// open is a start of the controller.
func (w *world) open() {
	w.machine = New(w.to, "u1", w.file, w.mark(uint64(len(w.log))), w.file.Seq == 0 ||
		w.file.Seq <= uint64(len(w.log)) && (w.gone[w.file.Seq] || w.mark(w.file.Seq).Hash == w.file.Hash))
}

func (w *world) mark(seq uint64) Mark {
	if seq == 0 || w.gone[seq] {
		return Mark{Seq: seq}
	}
	return Mark{seq, w.log[seq-1].Hash}
}

// happen adds an entry to the journal.
func (w *world) happen(t record.Type, node, kind string, data any) uint64 {
	seq := uint64(len(w.log)) + 1
	w.log = append(w.log, Entry{Entry: view.Entry{Seq: seq, At: w.now, Type: t.String(), Node: node, Kind: kind,
		Data: jsontext.Value(record.Encode(data))}, Hash: fmt.Sprintf("%016x", seq*7919),
		Selected: strings.HasPrefix(node, "press")})
	w.machine.Step(w.now, Grown{})
	return seq
}

func (w *world) trouble(n int) {
	for range n {
		w.happen(record.Trouble, "", "", record.TroubleData{Topic: "t"})
	}
}

func (w *world) read(f Fetch) Read {
	r := Read{UpTo: w.mark(uint64(len(w.log)))}
	for i := int(f.After); i < len(w.log); i++ {
		e := w.log[i]
		t, _ := record.ParseType(e.Type)
		if w.gone[e.Seq] || !slices.Contains(w.to.Filter.Reads(), t) {
			continue
		}
		if r.Entries = append(r.Entries, e); len(r.Entries) == f.Limit {
			r.UpTo, r.More = w.mark(e.Seq), i+1 < len(w.log)
			break
		}
	}
	for seq := max(f.After, f.GoneTo) + 1; seq <= r.UpTo.Seq; seq++ {
		if w.gone[seq] {
			if r.Gone.Count++; r.Gone.First == 0 {
				r.Gone.First = seq
			}
			r.Gone.Last = seq
		}
	}
	return r
}

// turn does what is to be done next; false: it waits. answer is what the receiver answers.
func (w *world) turn(answer func(Message) Answered) bool {
	switch a := w.machine.Next(w.now).(type) {
	case Save:
		w.file = a.Progress
		w.saves++
		w.machine.Step(w.now, Saved{Progress: a.Progress})
	case Fetch:
		w.machine.Step(w.now, w.read(a))
	case Send:
		w.machine.Step(w.now, answer(a.Message))
	default:
		return false
	}
	return true
}

func (w *world) take(m Message) Answered {
	w.taken = append(w.taken, m)
	return Answered{OK: true}
}

// settle lets time pass until nothing is left to do.
func (w *world) settle(answer func(Message) Answered) {
	for range 100_000 {
		if w.turn(answer) {
			continue
		}
		next, ok := w.machine.NextDeadline()
		if !ok {
			return
		}
		w.now = next
	}
	panic("it never settles")
}

func (w *world) ids() (all []string) {
	for _, m := range w.taken {
		id, _, _ := strings.Cut(m.ID, "-")
		all = append(all, id)
	}
	return all
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
