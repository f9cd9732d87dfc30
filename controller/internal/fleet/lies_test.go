package fleet

import (
	"math"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// lies is a unit in which n2 has proved, in its second session, what it has sent.
func lies(t *testing.T) (w *world, says func(wire.Live) (*Node, []Effect)) {
	w, step := members(t)
	says = func(l wire.Live) (*Node, []Effect) {
		l.V, l.Node, l.Boot = wire.Version, "n2", "b2"
		h := w.heard("n2", &l)
		if l.Up {
			h.Since = wire.Heard{Epoch: 5, Time: origin}
			h.Raw = wire.Prove(make([]byte, wire.ReportKeySize), "t", h.Raw, h.Since)
		}
		_, effects := step(h)
		return w.live.Lookup("n2"), effects
	}
	says(wire.Live{Session: 2, Up: true, Events: 3, Seqs: map[wire.Kind]uint64{wire.KindInfo: 4}})
	return w, says
}

// A last will has no proof. One that somebody made up does no more than end the session: neither does it number
// sessions or reports, nor ask for anything.
func TestMadeUpWill(t *testing.T) {
	w, says := lies(t)
	for range 2 {
		n, effects := says(wire.Live{Session: math.MaxUint64, Events: 1 << 60, Asks: "mark to come",
			Seqs: map[wire.Kind]uint64{wire.KindConfig: 1 << 60}})
		for _, e := range effects {
			if a, ok := e.(Ask); ok && a.Method == wire.MethodNewest {
				t.Error("it was told which documents are the newest, under a mark that does not exist")
			}
		}
		if n.Up || n.liveEvents != 3 || n.Kinds[wire.KindConfig] != nil && n.Kinds[wire.KindConfig].liveSeq != 0 {
			t.Errorf("%+v", n)
		}
	}
	if n, _ := says(wire.Live{Session: 3, Up: true, Events: 3}); !n.Up || n.Session != 3 {
		t.Errorf("the node is kept out: %+v", n)
	}
	for _, l := range []wire.Live{{Session: math.MaxUint64}, {Session: 1, Up: true}} {
		l.V, l.Node, l.Boot = wire.Version, "n3", "b1"
		w.step(origin.Add(time.Minute), w.heard("n3", &l))
	}
	if n := w.live.Lookup("n3"); !n.Up {
		t.Errorf("a node of which the will was heard first is kept out: %+v", n)
	}
	w.check()
}

// Whoever repeats a beat does not hide what was sent after it.
func TestBeatPlayedAgain(t *testing.T) {
	w, says := lies(t)
	beat := wire.Live{Session: 2, Up: true, Events: 3, Seqs: map[wire.Kind]uint64{wire.KindInfo: 4}}
	says(wire.Live{Session: 2, Up: true, Events: 5, Seqs: map[wire.Kind]uint64{wire.KindInfo: 7}})
	if n, _ := says(beat); n.Kinds[wire.KindInfo].liveSeq != 7 || n.liveEvents != 5 {
		t.Errorf("it is said to have sent report %d and event %d", n.Kinds[wire.KindInfo].liveSeq, n.liveEvents)
	}
	w.check()
}

// A node that joins anew may have no report key for a while, or an agent that knows none: it is heard all the same.
func TestJoinedAnewIsHeard(t *testing.T) {
	w, step := members(t)
	h := w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: "b2", Session: 1, Up: true})
	h.Since = wire.Heard{Epoch: 5, Time: origin}
	h.Raw = wire.Prove(make([]byte, wire.ReportKeySize), "t", h.Raw, h.Since)
	step(h)
	unproved := w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: "b3", Session: 1, Up: true})
	step(unproved)
	if n := w.live.Lookup("n2"); n.Boot != "b2" {
		t.Fatalf("it was heard without a proof: %+v", n)
	}
	step(Enrolment{Event: member("enrol", "n2", "again")})
	step(Enrolment{Event: member("join", "n2", "again")})
	step(unproved)
	if n := w.live.Lookup("n2"); n.Boot != "b3" || !n.Up {
		t.Errorf("it has joined anew, and is not heard: %+v", n)
	}
	w.check()
}

// The will of a node that was forgotten by force, which its broker tells only now, makes it no node again.
func TestWillOfTheForgotten(t *testing.T) {
	w, step := members(t)
	step(Forget{Nodes: []string{"n2"}, Force: true})
	_, effects := step(w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: "b1", Session: 1}))
	if n := w.live.Lookup("n2"); n != nil {
		t.Errorf("it is back: %+v", n)
	}
	if len(effects) != 1 || len(effects[0].(Clear).Topics) != 1 {
		t.Errorf("what the broker retains of it stays: %v", effects)
	}
	step(w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: "b9", Session: 1, Up: true}))
	if n := w.live.Lookup("n2"); n == nil || !n.Up {
		t.Errorf("it is online, and the node is %+v", n)
	}
	w.check()
}

// While the controller's clock is behind, a last will, which has no proof, does not take away what replays are known
// by.
func TestWillWhileTheClockIsBehind(t *testing.T) {
	w, step := members(t)
	says := func(at time.Time, boot string, up bool, minute int) *Node {
		h := w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: boot, Session: 1, Up: up})
		if up {
			h.Since = wire.Heard{Epoch: 5, Time: origin.Add(time.Duration(minute) * time.Minute)}
			h.Raw = wire.Prove(make([]byte, wire.ReportKeySize), "t", h.Raw, h.Since)
		}
		w.step(at, h)
		return w.live.Lookup("n2")
	}
	step(Tick{})
	later := origin.Add(time.Hour)
	says(later, "b2", true, 5)
	says(later, "b3", true, 50)
	says(origin.Add(time.Minute), "b3", false, 0)
	if n := says(later, "b2", true, 5); n.Boot != "b3" {
		t.Errorf("what boot b2 said long ago counts again: %+v", n)
	}
	w.check()
}
