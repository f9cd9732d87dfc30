package fleet

import (
	"testing"
	"time"

	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

func (h *rig) count(t record.Type, node string) (n, bytes int) {
	for i := range h.recs {
		if h.recs[i].Type == t && h.recs[i].Node == node {
			n++
			bytes += len(h.recs[i].Data)
		}
	}
	return n, bytes
}

// pass lets time pass up to the given moment, with a tick whenever the fleet wants one.
func (h *rig) pass(until time.Time, tell func([]Effect)) {
	for range 100_000 {
		next, ok := h.f.NextDeadline()
		if !ok || next.After(until) {
			h.now = until
			return
		}
		if next.After(h.now) {
			h.now = next
		}
		effects := h.step(Tick{})
		if tell != nil {
			tell(effects)
		}
	}
	h.t.Fatal("the fleet wants a tick again and again without time passing")
}

// A node that reports without end adds no more to the journal than its limits allow, everybody
// sees its newest report in the end, and nobody else waits.
func TestFloodOfReports(t *testing.T) {
	h := newRig(t)
	h.live("n1", "b", 1, true, 0, nil)
	h.info("n1", "b", 1)
	h.submit("1.0.0", wire.ModeApply, 0)
	h.live("n2", "b", 1, true, 0, nil)
	h.info("n2", "b", 1)
	d := h.f.Lookup("n1").Kinds[wire.KindConfig].Desired
	begin, seq := h.now, uint64(0)
	for h.now.Sub(begin) < 10*time.Minute {
		seq++
		h.report("n1", "b", seq, wire.StateApplying, d, nil)
		h.pass(h.now.Add(20*time.Millisecond), nil)
	}
	seq++
	h.report("n1", "b", seq, wire.StateInstalled, d, d)
	n, bytes := h.count(record.Report, "n1")
	if n > 200+2*600+10 || n < 1000 {
		t.Errorf("%d of %d reports were journaled", n, seq)
	}
	if bytes > 1500*1024 {
		t.Errorf("%d bytes were journaled", bytes)
	}
	h.report("n2", "b", 1, wire.StateInstalled, d, d)
	if k := h.f.Lookup("n2").Kinds[wire.KindConfig]; k.Seq != 1 {
		t.Error("another node had to wait")
	}
	h.pass(h.now.Add(2*time.Second), nil)
	if k := h.f.Lookup("n1").Kinds[wire.KindConfig]; k.Seq != seq || !k.InStep() {
		t.Errorf("the newest report is %d, it was %d", k.Seq, seq)
	}
	if n, _ := h.count(record.Trouble, "n1"); n != 1 {
		t.Errorf("%d records of trouble, want one", n)
	}
}

// A node that connects and is cut off without end: what counts is how it is in the end.
func TestFloodOfPresence(t *testing.T) {
	h := newRig(t)
	session := uint64(0)
	for range 5000 {
		session++
		h.live("n1", "b", session, true, 0, nil)
		h.live("n1", "b", session, false, 0, nil)
		h.pass(h.now.Add(10*time.Millisecond), nil)
	}
	session++
	h.live("n1", "b", session, true, 0, nil)
	h.live("n1", "b", session-1, false, 0, nil) // a last will that was late
	h.pass(h.now.Add(2*time.Second), nil)
	if n := h.f.Lookup("n1"); !n.Up || n.Session != session {
		t.Errorf("up %v in session %d, want session %d", n.Up, n.Session, session)
	}
	if n, _ := h.count(record.Live, "n1"); n > 200+2*50+10 {
		t.Errorf("%d records of presence", n)
	}
}

// talker is a node's event queue, as the agent keeps it.
type talker struct {
	h      *rig
	newest uint64
	kept   []uint64
	asks   int
}

const talkerKeeps = 1000

func (a *talker) hear(effects []Effect) {
	for _, e := range effects {
		ask, ok := e.(Ask)
		if !ok || ask.Method != wire.MethodEvents {
			continue
		}
		a.asks++
		p, err := wire.Decode[wire.EventsParams](ask.Params("n1"))
		if err != nil {
			a.h.t.Fatal(err)
		}
		for len(a.kept) > 0 && a.kept[0] <= p.After {
			a.kept = a.kept[1:]
		}
		known := p.After
		for _, seq := range append([]uint64(nil), a.kept...) {
			a.send(seq, seq-known-1)
			known = seq
		}
	}
}

func (a *talker) send(seq, lost uint64) {
	e := &wire.Event{V: 1, Node: "n1", Boot: "b", Seq: seq, At: a.h.now, Type: "noise", Lost: lost}
	a.hear(a.h.step(Heard{Node: "n1", Raw: wire.Encode(e), Event: e}))
}

func (a *talker) say() {
	a.newest++
	a.kept = append(a.kept, a.newest)
	a.kept = a.kept[max(0, len(a.kept)-talkerKeeps):]
	a.send(a.newest, 0)
}

// A node that sends events without end keeps them; the controller takes as many as it may, in
// order, and in the end has all that the node has kept.
func TestFloodOfEvents(t *testing.T) {
	h := newRig(t)
	h.live("n1", "b", 1, true, 0, nil)
	h.info("n1", "b", 1)
	a := &talker{h: h}
	begin := h.now
	for h.now.Sub(begin) < 30*time.Minute {
		a.say()
		h.pass(h.now.Add(100*time.Millisecond), a.hear)
	}
	n, _ := h.count(record.Event, "n1")
	if limit := 1000 + 30*60 + 100; n > limit || n < 1000 {
		t.Errorf("%d of %d events were journaled, limit %d", n, a.newest, limit)
	}
	if a.asks > 200 {
		t.Errorf("the node was asked %d times", a.asks)
	}
	if n, _ := h.count(record.Trouble, "n1"); n == 0 || n > 10 {
		t.Errorf("%d records of trouble", n)
	}
	h.pass(h.now.Add(time.Hour), a.hear)
	if got := h.f.Lookup("n1").EventSeq; got != a.newest {
		t.Errorf("the newest event here is %d, the node's is %d", got, a.newest)
	}
	seen, lost := uint64(0), uint64(0)
	for i := range h.recs {
		if h.recs[i].Type != record.Event {
			continue
		}
		e, err := wire.Decode[wire.Event](h.recs[i].Data)
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != seen+1+e.Lost {
			t.Fatalf("event %d after %d, with %d lost", e.Seq, seen, e.Lost)
		}
		seen, lost = e.Seq, lost+e.Lost
	}
	if total, _ := h.count(record.Event, "n1"); uint64(total)+lost != a.newest {
		t.Errorf("%d journaled and %d lost of %d", total, lost, a.newest)
	}
	if _, ok := h.f.NextDeadline(); ok {
		t.Error("something is still due")
	}
}

// What is held when the controller stops is no part of the state: the broker keeps it, and a new
// start hears it again.
func TestHeldIsNotState(t *testing.T) {
	h := newRig(t)
	h.live("n1", "b", 1, true, 0, nil)
	for seq := range uint64(500) {
		h.info("n1", "b", seq+1)
	}
	before := h.f.Lookup("n1").Kinds[wire.KindInfo].Seq
	if before == 500 {
		t.Fatal("nothing is held")
	}
	f, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1000}, h.f.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	h.f = f
	h.info("n1", "b", 500)
	if got := h.f.Lookup("n1").Kinds[wire.KindInfo].Seq; got != 500 {
		t.Errorf("after a restart it is %d", got)
	}
}
