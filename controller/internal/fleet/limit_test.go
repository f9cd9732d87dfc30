package fleet

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandem.internal/shared/wire"
)

var limitStart = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func reportOf(node string, kind wire.Kind, boot string, seq uint64, size int) *Heard {
	return &Heard{Node: node, Raw: make([]byte, size),
		Reported: &wire.Reported{Node: node, Kind: kind, Boot: boot, Seq: seq}}
}

func liveOf(boot string, session uint64, up bool) *Heard {
	return &Heard{Node: "n1", Raw: make([]byte, 200),
		Live: &wire.Live{Node: "n1", Boot: boot, Session: session, Up: up}}
}

func TestCost(t *testing.T) {
	for size, want := range map[int]int{0: 1, 1: 1, 1024: 1, 1025: 2, 2048: 2, 2049: 3, 256 << 10: 256} {
		if got := cost(size); got != want {
			t.Errorf("cost(%d) = %v, want %v", size, got, want)
		}
	}
}

func TestLimitHoldsTheNewest(t *testing.T) {
	l, now := newLimiter(Limits{StateRate: 1, StateBurst: 2}), limitStart
	admit := func(h *Heard, wantOK, wantBegan bool) {
		t.Helper()
		if ok, began := l.admit(now, h); ok != wantOK || began != wantBegan {
			t.Fatalf("admit: %v %v, want %v %v", ok, began, wantOK, wantBegan)
		}
	}
	admit(reportOf("n1", wire.KindConfig, "b1", 1, 10), true, false)
	admit(reportOf("n1", wire.KindConfig, "b1", 2, 10), true, false)
	admit(reportOf("n1", wire.KindConfig, "b1", 3, 10), false, true)
	admit(reportOf("n1", wire.KindConfig, "b1", 5, 10), false, false)
	admit(reportOf("n1", wire.KindConfig, "b1", 4, 10), false, false) // late: 5 stays
	admit(reportOf("n1", wire.KindInfo, "b1", 1, 10), false, false)
	admit(liveOf("b1", 7, true), false, false)
	admit(reportOf("n2", wire.KindConfig, "b1", 1, 10), true, false) // one node's flood is nobody else's
	if !l.holds("n1") || l.holds("n2") || l.holds("n3") {
		t.Error("holds")
	}
	due, ok := l.deadline()
	if !ok || !due.Equal(limitStart.Add(time.Second)) {
		t.Fatalf("deadline %v %v", due, ok)
	}
	if held, ask := l.release(due.Add(-time.Nanosecond)); held != nil || ask != nil {
		t.Fatalf("released early: %v %v", held, ask)
	}
	now = due
	held, ask := l.release(now)
	if len(held) != 3 || len(ask) != 0 || held[0].Live == nil || held[1].Reported.Seq != 5 ||
		held[2].Reported.Kind != wire.KindInfo {
		t.Fatalf("released %v, ask %v", held, ask)
	}
	admit(held[0], true, false)
	admit(held[1], false, false)
	now = now.Add(10 * time.Second)
	admit(held[2], false, false) // tokens are there, but nobody overtakes
	held, _ = l.release(now)
	for _, h := range held {
		admit(h, true, false)
	}
	if _, ok := l.deadline(); ok || l.holds("n1") {
		t.Error("something is still held")
	}
	now = now.Add(time.Hour)
	admit(reportOf("n1", wire.KindConfig, "b1", 6, 3000), true, false)
	admit(reportOf("n1", wire.KindConfig, "b1", 7, 10), false, true) // a new episode is told again
}

func TestSupersedes(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new *Heard
		want     bool
	}{
		{"next report", reportOf("n1", "config", "b", 1, 1), reportOf("n1", "config", "b", 2, 1), true},
		{"late report", reportOf("n1", "config", "b", 2, 1), reportOf("n1", "config", "b", 1, 1), false},
		{"report of another boot", reportOf("n1", "config", "b", 9, 1), reportOf("n1", "config", "c", 1, 1), true},
		{"down of the same session", liveOf("b", 1, true), liveOf("b", 1, false), true},
		{"will of an older session", liveOf("b", 2, true), liveOf("b", 1, false), false},
		{"next session", liveOf("b", 1, false), liveOf("b", 2, true), true},
		{"next boot", liveOf("b", 9, true), liveOf("c", 1, true), true},
		{"will of another boot", liveOf("c", 1, true), liveOf("b", 9, false), false},
	} {
		if got := supersedes(c.new, c.old); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestLimitEvents(t *testing.T) {
	l, now := newLimiter(Limits{EventRate: 2, EventBurst: 10}), limitStart
	ev := &Heard{Node: "n1", Raw: make([]byte, 100), Event: &wire.Event{Node: "n1"}}
	for range 10 {
		if ok, began := l.hears(now, "n1"); !ok || began {
			t.Fatal("within the burst")
		}
		l.charge(now, ev)
	}
	if ok, began := l.hears(now, "n1"); ok || !began || !l.isQuiet("n1") {
		t.Fatalf("beyond the burst: %v %v", ok, began)
	}
	if ok, began := l.hears(now.Add(time.Minute), "n1"); ok || began {
		t.Error("it is quiet until it was released")
	}
	if due, ok := l.deadline(); !ok || !due.Equal(limitStart.Add(3*time.Second)) { // 2.5 s, in whole seconds
		t.Fatalf("deadline %v %v", due, ok)
	}
	now = limitStart.Add(3 * time.Second)
	if held, ask := l.release(now); len(held) != 0 || len(ask) != 1 || ask[0] != "n1" || l.isQuiet("n1") {
		t.Fatalf("release: %v %v", held, ask)
	}
	if ok, _ := l.hears(now, "n1"); !ok {
		t.Error("half of the burst is there")
	}
	if ok, _ := l.hears(limitStart.Add(-time.Hour), "n1"); !ok {
		t.Error("a clock that was set back takes nothing")
	}
}

// What is due is so by the clock that does not jump, if there is one, in whole seconds.
func TestLimitIsDueByTheMonotonicClock(t *testing.T) {
	now := time.Now()
	l := newLimiter(Limits{StateRate: 0.3, StateBurst: 1})
	for seq := range uint64(3) {
		l.admit(now, reportOf("n1", wire.KindInfo, "b", seq+1, 1))
	}
	at, ok := l.deadline()
	if !ok {
		t.Fatal("nothing is due")
	}
	whole := roundUp(now)
	for _, due := range []time.Time{at, l.of("n1").stateDue, whole, l.arrange(whole, whole)} {
		if due.Before(now) || due.Sub(now) > 5*time.Second || !due.Truncate(time.Second).Equal(due) {
			t.Errorf("now %v, due %v", now, due)
		}
		if due == due.Round(0) {
			t.Errorf("%v has no monotonic reading", due)
		}
	}
	if due := l.arrange(whole, whole); due.Sub(whole) != time.Second {
		t.Errorf("due %v, not after %v", due, whole)
	}
}

// TestLimitProperty: however a node floods, what is admitted in any run stays within burst and rate,
// and in the end the newest of everything it said is there.
func TestLimitProperty(t *testing.T) {
	kinds := []wire.Kind{wire.KindConfig, wire.KindInfo, wire.KindHealth}
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{StateRate: rapid.Float64Range(0.1, 10).Draw(t, "rate"),
			StateBurst: float64(rapid.IntRange(1, 20).Draw(t, "burst"))}
		l, now := newLimiter(limits), limitStart
		spent, largest, told := 0.0, 0.0, 0
		have, said := map[string]uint64{}, map[string]uint64{}
		hear := func(h *Heard) {
			key := h.Node + string(h.Reported.Kind)
			if h.Reported.Seq <= have[key] {
				return // as heardReport does
			}
			ok, began := l.admit(now, h)
			if began {
				told++
			}
			if ok {
				have[key] = h.Reported.Seq
				if h.Node == "n1" {
					spent += float64(cost(len(h.Raw)))
				}
			}
		}
		tick := func() {
			held, _ := l.release(now)
			for _, h := range held {
				hear(h)
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "messages") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond / 2)
			tick()
			node := rapid.SampledFrom([]string{"n1", "n1", "n1", "n2"}).Draw(t, "node")
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			key := node + string(kind)
			seq := said[key] + 1
			if rapid.IntRange(0, 5).Draw(t, "late") == 0 && seq > 2 {
				seq -= 2
			}
			said[key] = max(said[key], seq)
			h := reportOf(node, kind, "b", seq, rapid.IntRange(1, 4000).Draw(t, "size"))
			largest = max(largest, float64(cost(len(h.Raw))))
			hear(h)
			if limit := limits.StateBurst + limits.StateRate*now.Sub(limitStart).Seconds() + largest; spent > limit {
				t.Fatalf("%v tokens spent, at most %v were there", spent, limit)
			}
		}
		for i := 0; ; i++ {
			due, ok := l.deadline()
			if !ok {
				break
			}
			if i > 100 || due.Before(now) {
				t.Fatalf("release %d at %v, now %v: it does not end", i, due, now)
			}
			now = due
			tick()
		}
		if fmt.Sprint(have) != fmt.Sprint(said) {
			t.Fatalf("journaled %v, said %v", have, said)
		}
		if told == 0 && l.holds("n1") {
			t.Fatal("held without a word")
		}
	})
}
