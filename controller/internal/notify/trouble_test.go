package notify

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/view"
)

// acts does what is to be done until it waits, with another answer for some acts, and counts what was done.
func (w *world) acts(instead func(Act) Event) (fetched, sent, saved int) {
	for {
		a := w.machine.Next(w.now)
		ev := instead(a)
		switch a.(type) {
		case Wait:
			return fetched, sent, saved
		case Fetch:
			fetched++
		case Send:
			sent++
		case Save:
			saved++
		}
		if ev == nil {
			w.turn(w.take)
			continue
		}
		w.machine.Step(w.now, ev)
	}
}

// TestFailuresAreNotHurried: the journal is not read, and the file not written, again at once after it failed; what was
// read is as it was; and what failed is shown as long as it does.
func TestFailuresAreNotHurried(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(1)
	broken := func(a Act) Event {
		switch a.(type) {
		case Fetch:
			return Read{Err: "broken"}
		case Save:
			return Saved{Err: "full"}
		}
		return nil
	}
	shown := func(when, state, text string) {
		t.Helper()
		if s := w.machine.Shown(); s.State != state || s.Error != text || (s.Error == "") != s.ErrorAt.IsZero() {
			t.Errorf("%s: %+v", when, s)
		}
	}
	for i := range 3 {
		if fetched, sent, _ := w.acts(broken); fetched != 1 || sent != 0 {
			t.Errorf("look %d: it is read %d times, %d sent", i, fetched, sent)
		}
		shown("it cannot be read", "failing", "broken")
		w.now = w.now.Add(readAgain - time.Millisecond)
		if fetched, _, _ := w.acts(broken); fetched != 0 {
			t.Error("it is read again too soon")
		}
		w.now = w.now.Add(time.Millisecond)
	}
	full := func(a Act) Event {
		if _, is := a.(Fetch); is {
			return nil
		}
		return broken(a)
	}
	if fetched, sent, saved := w.acts(full); fetched != 1 || sent != 1 || saved != 1 {
		t.Errorf("read %d times, %d sent, written %d times", fetched, sent, saved)
	}
	shown("it cannot be written", "ok", "full")
	w.now = w.now.Add(saveAgain - time.Millisecond)
	if _, _, saved := w.acts(full); saved != 0 {
		t.Error("it is written again too soon")
	}
	if p, unsaved := w.machine.Unsaved(); !unsaved || p.Seq != 1 || w.file.Seq != 0 {
		t.Errorf("what was not written counts as written: %+v %v", p, w.file)
	}
	w.now = w.now.Add(time.Millisecond)
	if _, _, saved := w.acts(func(Act) Event { return nil }); saved != 1 || w.file.Seq != 1 {
		t.Errorf("written %d times, up to %d", saved, w.file.Seq)
	}
	shown("all is well", "ok", "")
}

// TestJournalIsReadSeldom: however often it grows.
func TestJournalIsReadSeldom(t *testing.T) {
	w := newWorld(Filter{})
	looks := 0
	for range 50 { // in a second
		w.trouble(1)
		fetched, _, _ := w.acts(func(Act) Event { return nil })
		looks += fetched
		w.now = w.now.Add(20 * time.Millisecond)
	}
	if looks != int(time.Second/readEvery) {
		t.Errorf("%d looks in a second", looks)
	}
	w.settle(w.take)
	if len(w.taken) != 50 {
		t.Errorf("%d are told", len(w.taken))
	}
}

// TestTriesBeginAnew: a receiver is left alone for as long as it asks; once it has answered well nothing is left of
// what was before, although the clock is set back.
func TestTriesBeginAnew(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(2)
	down := func(a Act) Event {
		if _, is := a.(Send); is {
			return Answered{Err: "down", After: 10 * time.Minute}
		}
		return nil
	}
	if _, sent, _ := w.acts(down); sent != 1 {
		t.Errorf("sent %d times", sent)
	}
	w.now = w.now.Add(10*time.Minute - time.Millisecond)
	if _, sent, _ := w.acts(down); sent != 0 {
		t.Error("it is tried before it wants to be")
	}
	if s := w.machine.Shown(); s.State != "failing" || s.Tries != 1 || s.Error != "down" {
		t.Errorf("%+v", s)
	}
	w.now = w.now.Add(time.Millisecond)
	first := true
	once := func(a Act) Event { // the first is taken, and then the clock is set back
		if _, is := a.(Send); is && first {
			first = false
			w.machine.Step(w.now, w.take(a.(Send).Message))
			w.now = w.now.Add(-30 * time.Minute)
			return Grown{}
		}
		return nil
	}
	if w.acts(once); len(w.taken) != 2 {
		t.Errorf("told %v", w.ids())
	}
	if s := w.machine.Shown(); s.State != "ok" || s.Tries != 0 || s.Error != "" || !s.ErrorAt.IsZero() {
		t.Errorf("%+v", s)
	}
}

// TestGoneIsToldOnce: also if it stops between that and what comes after it.
func TestGoneIsToldOnce(t *testing.T) {
	w := newWorld(Filter{})
	w.trouble(20)
	for seq := uint64(5); seq <= 10; seq++ {
		w.gone[seq] = true
	}
	for len(w.taken) == 0 {
		w.turn(w.take)
	}
	p, _ := w.machine.Unsaved()
	if w.file = p; p.Seq != 0 || p.GoneTo != 10 {
		t.Errorf("%+v", p)
	}
	w.open()
	w.settle(w.take)
	ids := strings.Join(w.ids(), " ")
	if !strings.HasPrefix(ids, "gone 1 2 3 4 11 ") || strings.Count(ids, "gone") != 1 {
		t.Errorf("told %s", ids)
	}
}

// TestWhatIsSaidOfAQuietTime: it is of the maintenance as it was announced first, and until when it was at last.
func TestWhatIsSaidOfAQuietTime(t *testing.T) {
	w := newWorld(Filter{})
	began := w.now
	announce(w, time.Hour)
	w.now = w.now.Add(time.Minute)
	w.trouble(1)
	announce(w, 3*time.Hour)
	over(w)
	w.settle(w.take)
	var e struct {
		Data view.NoticeQuiet `json:"data"`
	}
	if err := json.Unmarshal(w.taken[0].Body, &e); err != nil || !e.Data.Since.Equal(began) ||
		!e.Data.Until.Equal(began.Add(3*time.Hour+time.Minute)) || w.taken[0].ID != "quiet-1-2" {
		t.Errorf("%s %s %v", w.taken[0].ID, w.taken[0].Body, err)
	}
}

// TestNothingIsKnown: whoever's place is lost is told that, and not of a record 0.
func TestNothingIsKnown(t *testing.T) {
	for seq, want := range map[uint64]string{0: "it is not known any more how far", 7: "up to record 7, as after"} {
		m := New(Receiver{Filter: Filter{}.Completed()}, "u1", Progress{Seq: seq}, Mark{Seq: 9, Hash: "ab"}, false)
		s, is := m.Next(start).(Send)
		if !is || !strings.Contains(string(s.Body), want) || !strings.Contains(string(s.Body), "after record 9") {
			t.Errorf("%d: %s", seq, s.Body)
		}
	}
}
