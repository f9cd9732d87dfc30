package notify

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// In order, each once, and what nobody wants is passed.
func TestInOrder(t *testing.T) {
	w := newWorld(Filter{})
	for range 100 {
		w.happen(record.Report, "n1", "config", struct{}{})
		w.happen(record.Trouble, "", "", record.TroubleData{Topic: "t"})
	}
	w.settle(w.take)
	var want []string
	for seq := 2; seq <= 200; seq += 2 {
		want = append(want, fmt.Sprint(seq))
	}
	same(t, "told", w.ids(), want)
	if p, unsaved := w.machine.Unsaved(); unsaved || p.Seq != 200 || w.file.Seq != 200 {
		t.Errorf("progress %+v, file %+v", p, w.file)
	}
	if s := w.machine.Shown(); s.State != "ok" || s.Cursor != 200 || s.Delivered != 100 {
		t.Errorf("%+v", s)
	}
}

// The pauses double up to a quarter of an hour, are drawn, and a receiver may ask for more, up to an hour.
func TestPausesOfTries(t *testing.T) {
	for _, c := range []struct {
		tries  int
		chance float64
		asked  time.Duration
		want   time.Duration
	}{
		{0, 0, 0, 500 * time.Millisecond}, {0, 0.5, 0, 750 * time.Millisecond}, {3, 0, 0, 4 * time.Second},
		{9, 0.999999, 0, 512 * time.Second}, {10, 0, 0, 450 * time.Second}, {1 << 40, 0, 0, 450 * time.Second},
		{0, 0, time.Minute, time.Minute}, {0, 0, 1e18, time.Hour}, {9, 0, time.Second, 256 * time.Second},
		{34, 0, 0, 450 * time.Second}, {40, 0, 0, 450 * time.Second}, {63, 0, 0, 450 * time.Second},
	} {
		if got := pause(c.tries, c.chance, c.asked).Round(time.Millisecond); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	w := newWorld(Filter{})
	w.trouble(2)
	var at []time.Duration
	begun := w.now
	down := func(m Message) Answered {
		at = append(at, w.now.Sub(begun))
		if len(at) <= 3 {
			return Answered{Err: "down", Chance: 0.5}
		}
		return w.take(m)
	}
	w.settle(down)
	same(t, "tries", at, []time.Duration{0, 750 * time.Millisecond, 2250 * time.Millisecond, 5250 * time.Millisecond,
		5250 * time.Millisecond})
	same(t, "told", w.ids(), []string{"1", "2"})
}

// A receiver that does not answer has no more in memory than is bounded; what waits stays in the journal.
func TestBounded(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(10_000)
	for range 1000 {
		if !w.turn(func(Message) Answered { return Answered{Err: "down"} }) {
			break
		}
	}
	s := w.machine.Shown()
	if s.Waiting > MaxQueue || s.Waiting < MaxQueue/2 || s.State != "failing" || s.Error != "down" || s.Cursor != 0 {
		t.Errorf("%+v", s)
	}
	if a, ok := w.machine.Next(w.now).(Wait); !ok {
		t.Errorf("%T %v", a, a)
	}
	w.machine.Step(w.now, Retry{})
	if _, ok := w.machine.Next(w.now).(Send); !ok {
		t.Error("it is not tried although somebody has found the receiver well")
	}
	w.settle(w.take)
	if len(w.taken) != 10_000 {
		t.Errorf("%d were told", len(w.taken))
	}
	// 10,000 answers that took no time are at most a few writes.
	if w.saves > 5 {
		t.Errorf("the file was written %d times", w.saves)
	}
}

// The file is written at most once a second while notices are delivered, and what is only passed is written rarely.
func TestFileIsWrittenRarely(t *testing.T) {
	w := newWorld(Filter{})
	for range 3000 { // ten minutes, five a second
		w.trouble(1)
		for w.turn(w.take) {
			continue
		}
		w.now = w.now.Add(200 * time.Millisecond)
	}
	if w.saves < 500 || w.saves > 601 {
		t.Errorf("written %d times in ten minutes", w.saves)
	}
	w.settle(w.take)
	w.saves = 0
	for range 3600 { // an hour in which nobody wants what happens
		w.happen(record.Report, "n1", "config", struct{}{})
		for w.turn(w.take) {
			continue
		}
		w.now = w.now.Add(time.Second)
	}
	if w.saves < 5 || w.saves > 7 {
		t.Errorf("written %d times in an hour", w.saves)
	}
}

// A clock that was set back stops nothing.
func TestClockSetBack(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(1)
	for w.turn(func(Message) Answered { return Answered{Err: "down"} }) {
		continue
	}
	w.now = w.now.AddDate(-1, 0, 0)
	w.trouble(1)
	for w.turn(w.take) {
		continue
	}
	if len(w.taken) != 2 || w.file.Seq != 1 { // the second one is written in a second
		t.Errorf("told %v, file %+v", w.ids(), w.file)
	}
}

// Records that are gone before they were told are told as gone, once, also after a crash.
func TestGone(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(100)
	for seq := uint64(11); seq <= 90; seq++ {
		w.gone[seq] = seq != 50
	}
	w.settle(w.take)
	ids := w.ids()
	if len(ids) != 22 || ids[0] != "gone" || ids[1] != "1" || ids[11] != "50" || ids[12] != "gone" && ids[12] != "91" {
		t.Errorf("told %v", ids)
	}
	var e struct {
		Type string          `json:"type"`
		Data view.NoticeGone `json:"data"`
	}
	if err := json.Unmarshal(w.taken[0].Body, &e); err != nil || e.Type != TypeGone || e.Data.First != 11 ||
		e.Data.Last != 90 || e.Data.Count != 79 {
		t.Errorf("%+v %v", e, err)
	}
	w.open()
	w.settle(w.take)
	if len(w.taken) != 22 {
		t.Errorf("told again: %v", w.ids()[22:])
	}
}

// A journal that is another one is told, and what it has from then on.
func TestRestored(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(10)
	w.settle(w.take)
	w.log = w.log[:5] // a backup of before
	w.taken = nil
	w.open()
	w.trouble(2)
	w.settle(w.take)
	same(t, "told", w.ids(), []string{"restored", "6", "7"})
	if w.file.Seq != 7 {
		t.Errorf("%+v", w.file)
	}
	for i := range w.log { // another journal altogether, and longer
		w.log[i].Hash = "ffffffffffffffff"
	}
	w.trouble(20)
	w.taken = nil
	w.open()
	w.settle(w.take)
	same(t, "told", w.ids(), []string{"restored"})
}

// A receiver with a filter of nodes is told about those that are selected, and not about the unit; a maintenance is one
// for it all the same.
func TestWhere(t *testing.T) {
	w := newWorld(Filter{Where: "type:press"})
	w.happen(record.Live, "press-1", "", struct{}{})
	w.happen(record.Live, "mill-1", "", struct{}{})
	w.trouble(1)
	announce(w, time.Hour)
	w.happen(record.Live, "press-2", "", struct{}{})
	over(w)
	w.happen(record.Live, "press-3", "", struct{}{})
	w.settle(w.take)
	same(t, "told", w.ids(), []string{"1", "quiet", "7"})
}

// announce begins a maintenance, and over ends it.
func announce(w *world, d time.Duration) {
	w.happen(record.Maintenance, "", "", record.MaintenanceData{Until: w.now.Add(d), Reason: "belt"})
}

func over(w *world) { w.happen(record.Maintenance, "", "", record.MaintenanceData{Reason: "done"}) }

// An announced maintenance: what is no error is left out and counted, and told in one notice when it is over.
func TestQuiet(t *testing.T) {
	failed := func(w *world) {
		w.happen(record.RolledBack, "", "config", record.TrialOver{Version: "1.0.0"})
	}
	for _, c := range []struct {
		name   string
		filter Filter
		always bool
		play   func(w *world)
		want   string
	}{
		{"left out, and counted", Filter{}, false, func(w *world) {
			w.trouble(1)
			announce(w, time.Hour)
			w.trouble(3)
			over(w)
			w.trouble(1)
		}, "1 quiet 7"},
		{"errors pass, in order", Filter{}, false, func(w *world) {
			announce(w, time.Hour)
			w.trouble(1)
			failed(w)
			w.trouble(1)
			over(w)
		}, "3 quiet"},
		{"nothing left out, nothing said", Filter{Level: "error"}, false, func(w *world) {
			announce(w, time.Hour)
			w.trouble(3)
			over(w)
		}, ""},
		{"its time is over before anybody says so", Filter{}, false, func(w *world) {
			announce(w, time.Hour)
			w.trouble(1)
			w.now = w.now.Add(2 * time.Hour)
			w.trouble(1)
			over(w)
		}, "quiet 3"},
		{"announced for longer", Filter{}, false, func(w *world) {
			announce(w, time.Hour)
			w.trouble(1)
			announce(w, 3*time.Hour)
			w.now = w.now.Add(2 * time.Hour)
			w.trouble(1)
			over(w)
		}, "quiet"},
		{"a receiver that is told always", Filter{}, true, func(w *world) {
			announce(w, time.Hour)
			w.trouble(2)
			over(w)
		}, "2 3"},
		{"maintenance itself is told", Filter{Types: []string{"unit-maintenance", "trouble"}}, false, func(w *world) {
			announce(w, time.Hour)
			w.trouble(1)
			over(w)
		}, "1 quiet 3"},
	} {
		w := newWorld(c.filter)
		w.to.Always = c.always
		w.open()
		c.play(w)
		w.settle(w.take)
		if got := strings.Join(w.ids(), " "); got != c.want {
			t.Errorf("%s: told %q, want %q", c.name, got, c.want)
		}
	}
}

// What is told at the end of a maintenance.
func TestQuietIsCounted(t *testing.T) {
	w := newWorld(Filter{})
	announce(w, time.Hour)
	w.trouble(2)
	w.happen(record.Live, "n1", "", struct{}{})
	over(w)
	w.settle(w.take)
	var e struct {
		Data view.NoticeQuiet `json:"data"`
	}
	if err := json.Unmarshal(w.taken[0].Body, &e); err != nil || e.Data.Left != 3 || e.Data.Warnings != 3 ||
		e.Data.First != 2 || e.Data.Last != 4 || e.Data.Level != "warning" {
		t.Errorf("%s %v", w.taken[0].Body, err)
	}
}

// TestCrashes draws what happens, answers and crashes at any step. Nothing that is wanted is lost or overtaken; what
// comes twice is the same to the byte, and only of what was delivered since the file was written; without a crash or a
// lost answer nothing comes twice.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		crashes, losses := rapid.Bool().Draw(t, "crashes"), rapid.Bool().Draw(t, "losses")
		w := newWorld(Filter{})
		var wanted []string
		quiet := false
		answer := func(m Message) Answered {
			switch n := chance.IntN(6); {
			case n == 0:
				return Answered{Err: "down", Chance: chance.Float64()}
			case n == 1 && losses:
				w.take(m)
				return Answered{Err: "no answer", Chance: chance.Float64()}
			}
			return w.take(m)
		}
		for range 200 {
			switch n := chance.IntN(12); {
			case n < 3:
				seq := w.happen(record.Trouble, "", "", record.TroubleData{Topic: "t"})
				if !quiet {
					wanted = append(wanted, fmt.Sprint(seq))
				}
			case n == 3:
				seq := w.happen(record.RolledBack, "", "config", record.TrialOver{Version: "1.0.0"})
				wanted = append(wanted, fmt.Sprint(seq))
			case n == 4:
				w.happen(record.Report, "n1", "config", struct{}{})
			case n == 5 && chance.IntN(4) == 0:
				d := record.MaintenanceData{Reason: "r"}
				if quiet = !quiet; quiet {
					d.Until = w.now.AddDate(1, 0, 0)
				}
				w.happen(record.Maintenance, "", "", d)
			case n == 6 && crashes && chance.IntN(3) == 0:
				w.open()
			case n == 7:
				w.now = w.now.Add(time.Duration(chance.IntN(2000)) * time.Millisecond)
			default:
				w.turn(answer)
			}
		}
		w.settle(answer)
		w.check(t, wanted, crashes || losses)
	})
}

// check compares what was taken with what was wanted.
func (w *world) check(t *rapid.T, wanted []string, twice bool) {
	bodies, highest := map[string]string{}, uint64(0)
	var first []string
	for _, m := range w.taken {
		before, again := bodies[m.ID]
		switch {
		case again && before != string(m.Body):
			t.Fatalf("%s came again with another content:\n%s\n%s", m.ID, before, m.Body)
		case again && !twice:
			t.Fatalf("%s came twice, without a crash or a lost answer", m.ID)
		case !again && m.Seq > 0 && m.Seq < highest:
			t.Fatalf("%s came after %d", m.ID, highest)
		}
		bodies[m.ID] = string(m.Body)
		highest = max(highest, m.Seq)
		if id, _, _ := strings.Cut(m.ID, "-"); !again && id != "quiet" {
			first = append(first, id)
		}
		if len(m.Body) > MaxBody {
			t.Fatalf("%s has %d bytes", m.ID, len(m.Body))
		}
	}
	if fmt.Sprint(first) != fmt.Sprint(wanted) {
		t.Fatalf("told\n%v, wanted\n%v", first, wanted)
	}
}
