package inbox

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// world is a shell and a node for the properties: saves may fail before or after they have
// reached the disk, the agent may crash at any moment, what is asked for may take its time.
type world struct {
	t       *rapid.T
	now     clock.Now
	state   State
	disk    Durable
	look    time.Duration
	asked   []Effect // not answered yet
	inPlace Doc      // what the node's files and software have
	altered bool     // somebody has altered that since
	issued  map[wire.Stamp]Doc
	newest  Doc // the newest that was ever delivered
	running wire.Stamp
	depth   int
}

func sound(d Doc) bool { return d.Stamp.Rev%4 != 0 } // what check says
func works(d Doc) bool { return d.Stamp.Rev%5 != 0 } // what apply says

func (w *world) step(ev Event, disk string) {
	if w.depth++; w.depth > 50 {
		w.t.Fatal("effects without end")
	}
	defer func() { w.depth-- }()
	next, effects := w.state.Step(w.now, 0.5, ev)
	if len(effects) > 0 {
		if save, ok := effects[0].(Save); ok {
			if disk != "fails" {
				w.disk = next.Durable
			}
			if disk != "works" && save.Must {
				next, effects = w.state.Failed(w.now, 0.5, ev, wire.New(wire.CodeStorage, "", "disk full"))
			}
		}
	}
	w.state = next
	w.invariants()
	for _, e := range effects {
		switch e := e.(type) {
		case Check, Apply, Restore, Verify:
			w.asked = append(w.asked, e)
			if len(w.asked) > 1 {
				w.t.Fatalf("asked for %T while %T is out", e, w.asked[0])
			}
		case Again:
			for _, ev := range e.Events {
				w.step(ev, disk)
			}
		case Report:
			w.reported(e)
		}
	}
}

// invariants must hold after every step.
func (w *world) invariants() {
	s := w.state
	if s.Running.Stamp.Compare(w.running) < 0 {
		w.t.Fatalf("running went back from %v to %v", w.running, s.Running.Stamp)
	}
	w.running = s.Running.Stamp
	if s.High.Compare(s.Running.Stamp) < 0 {
		w.t.Fatalf("high-water mark %v below running %v", s.High, s.Running.Stamp)
	}
	if !s.Touched && s.Flight.Phase != Idle && (s.Flight.Phase == Applying || s.Flight.Phase == Trying) {
		w.t.Fatalf("phase %s without touching", s.Flight.Phase)
	}
}

func (w *world) reported(r Report) {
	if r.Last == nil || r.Last.State != wire.StateInstalled {
		return
	}
	if r.Last.Error != nil {
		if r.Running != nil {
			w.t.Fatalf("running %v reported, and altered", r.Running)
		}
		return
	}
	if r.Running == nil || r.Running.Stamp() != r.Last.Stamp() || w.inPlace.Stamp != r.Last.Stamp() {
		w.t.Fatalf("installed %v reported, running %v, in place %v", r.Last.Stamp(), r.Running, w.inPlace.Stamp)
	}
	if w.disk.Running.Stamp != r.Last.Stamp() {
		w.t.Fatalf("installed %v reported, %v on the disk", r.Last.Stamp(), w.disk.Running.Stamp)
	}
}

// answer does one thing that was asked for. flaky lets it fail without a fault of the document's.
func (w *world) answer(disk string, flaky bool) {
	if len(w.asked) == 0 {
		return
	}
	e := w.asked[0]
	w.asked = nil
	trouble := wire.New(wire.CodeStorage, "", "no space left")
	switch e := e.(type) {
	case Check:
		ev := Checked{Stamp: e.Doc.Stamp}
		if !sound(e.Doc) {
			ev.Errs = []*wire.Error{wire.New(wire.CodeBadValue, "", "bad")}
		}
		w.step(ev, disk)
	case Apply:
		w.inPlace, w.altered = e.Doc, false
		ev := Applied{Stamp: e.Doc.Stamp, Ran: true}
		if flaky {
			ev.Err, ev.Transient = trouble, true
		} else if !works(e.Doc) {
			ev.Err = wire.New(wire.CodeApplyFailed, "", "exit status 1")
		}
		w.step(ev, disk)
	case Restore:
		if e.Good.Stamp != w.state.Running.Stamp {
			w.t.Fatalf("restore of %v, last good is %v", e.Good.Stamp, w.state.Running.Stamp)
		}
		if flaky {
			w.step(Restored{Stamp: e.From.Stamp, Err: trouble}, disk)
			return
		}
		w.inPlace, w.altered = e.Good, false
		w.step(Restored{Stamp: e.From.Stamp}, disk)
	case Verify:
		drifted := w.altered || w.inPlace.Stamp != e.Want.Stamp
		if flaky {
			w.step(Verified{Err: trouble, Drifted: drifted, What: "altered"}, disk)
			return
		}
		w.inPlace, w.altered = e.Want, false
		w.step(Verified{Drifted: drifted, What: "altered", Repaired: drifted}, disk)
	}
}

func (w *world) deliver(d Doc, disk string) {
	if d.Stamp.Compare(w.newest.Stamp) > 0 {
		w.newest = d
	}
	w.step(Desired{Doc: d, At: w.now.Wall}, disk)
}

func (w *world) crash() {
	w.asked = nil
	w.state = New(w.disk, w.look)
	if w.disk.Running.Stamp.Compare(w.running) < 0 {
		w.t.Fatalf("after a crash running went back from %v to %v", w.running, w.disk.Running.Stamp)
	}
	w.now.Mono = 0
	w.step(Started{}, "works")
}

func (w *world) pass(d time.Duration) {
	w.now.Mono += d
	w.now.Wall = w.now.Wall.Add(d)
}

func (w *world) doc(rev uint64) Doc {
	st := wire.Stamp{Epoch: 1 + rev/20, Rev: rev}
	if d, ok := w.issued[st]; ok {
		return d
	}
	d := Doc{Stamp: st, Version: fmt.Sprint(rev), Hash: fmt.Sprint("h", rev), Mode: wire.ModeApply, Body: []byte("b")}
	if rev%3 == 0 {
		d.Mode, d.ConfirmWithin = wire.ModeTry, duration.Duration(time.Minute)
	}
	w.issued[st] = d
	return d
}

// TestProperties runs random schedules of deliveries (duplicated, out of order), failing saves,
// failing work, crashes, clock jumps and confirmations, and then lets things calm down: the
// newest document that came is installed if it is acceptable, and otherwise the node runs what it
// says it runs. What must never happen on the way is in invariants, reported and answer.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		look := time.Duration(rapid.IntRange(0, 1).Draw(t, "look")) * 30 * time.Second
		w := &world{t: t, now: clock.Now{Wall: epoch}, look: look, state: New(Durable{}, look),
			issued: map[wire.Stamp]Doc{}}
		w.step(Started{}, "works")
		disk := func() string {
			return rapid.SampledFrom([]string{"works", "works", "works", "fails", "unknown"}).Draw(t, "disk")
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"desired", "desired", "answer", "answer", "answer", "tick", "confirm",
				"crash", "clock", "stop", "alter"}).Draw(t, "event") {
			case "desired":
				w.deliver(w.doc(rapid.Uint64Range(1, 40).Draw(t, "rev")), disk())
			case "answer":
				w.answer(disk(), rapid.IntRange(0, 4).Draw(t, "flaky") == 0)
			case "tick":
				w.pass(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
				w.step(Tick{}, disk())
			case "confirm":
				w.step(Confirm{ID: "q", Stamp: w.doc(rapid.Uint64Range(1, 40).Draw(t, "rev")).Stamp}, disk())
			case "crash":
				w.crash()
			case "clock":
				w.now.Wall = w.now.Wall.Add(time.Duration(rapid.IntRange(-1000, 1000).Draw(t, "hours")) * time.Hour)
			case "alter":
				w.altered = look > 0
			case "stop":
				w.step(Stopping{}, disk())
				w.crash()
			}
		}
		// Calm. The controller still has the newest document retained. Somebody alters what is in place once more.
		again := false
		for i := 0; ; i++ {
			for len(w.asked) > 0 {
				w.answer("works", false)
			}
			at, ok := w.state.NextDeadline()
			if looksOnly := w.state.looks() && w.state.Flight.Phase == Idle && at == w.state.lookAt; !ok ||
				looksOnly && !w.altered && w.state.drift == nil {
				if w.newest.Exists() && w.state.High != w.newest.Stamp {
					w.deliver(w.newest, "works")
					continue
				}
				if look > 0 && !again {
					w.altered, again = true, true
					continue
				}
				break
			}
			if i > 100 {
				t.Fatalf("never calm: %+v", w.state)
			}
			w.pass(max(0, at-w.now.Mono))
			w.step(Tick{}, "works")
		}
		s := w.state
		if s.Flight.Phase != Idle || s.Touched || w.inPlace.Stamp != s.Running.Stamp ||
			w.altered && s.Running.Exists() {
			t.Fatalf("at the end: phase %s, touched %v, in place %v, running %v", s.Flight.Phase, s.Touched,
				w.inPlace.Stamp, s.Running.Stamp)
		}
		if n := w.newest; n.Exists() && sound(n) && works(n) && n.Mode == wire.ModeApply && s.Running.Stamp != n.Stamp {
			t.Fatalf("at the end %v runs, the newest acceptable document is %v; last %+v", s.Running.Stamp, n.Stamp,
				s.Last)
		}
		if s.Last != nil && !s.Last.State.Settled() {
			t.Fatalf("at the end the newest attempt is %s", s.Last.State)
		}
	})
}

// TestTrialNeverGrows restarts and crashes during a trial, with a clock that jumps, and adds up the
// time in which the document was in place.
func TestTrialNeverGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		within := time.Duration(rapid.IntRange(1, 100_000).Draw(t, "within")) * time.Second
		w := &world{t: t, now: clock.Now{Wall: epoch}, state: New(Durable{}, 0), issued: map[wire.Stamp]Doc{}}
		w.step(Started{}, "works")
		w.deliver(Doc{Stamp: wire.Stamp{Epoch: 1, Rev: 1}, Mode: wire.ModeTry, ConfirmWithin: duration.Duration(within),
			Body: []byte("b")}, "works")
		w.answer("works", false)
		w.answer("works", false)
		run := time.Duration(0)
		for range 1000 {
			if w.state.Flight.Phase != Trying {
				if run > within+time.Millisecond {
					t.Fatalf("tried for %v, allowed %v", run, within)
				}
				return
			}
			at, ok := w.state.NextDeadline()
			if !ok || len(w.asked) > 0 {
				w.answer("works", false)
				continue
			}
			d := max(0, at-w.now.Mono)
			crash := rapid.IntRange(0, 9).Draw(t, "crash") == 0
			if crash {
				d = time.Duration(rapid.Int64Range(0, int64(d)).Draw(t, "early"))
			}
			run += d
			w.pass(d)
			if crash {
				w.now.Wall = w.now.Wall.Add(time.Duration(rapid.IntRange(-1000, 1000).Draw(t, "hours")) * time.Hour)
				w.crash()
			} else {
				w.step(Tick{}, "works")
			}
		}
		if run > within {
			t.Fatalf("still trying after %v of %v", run, within)
		}
	})
}
