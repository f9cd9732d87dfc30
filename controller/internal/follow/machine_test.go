package follow_test

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/follow"
	"tandem.internal/controller/internal/steer/steertest"
	"tandem.internal/shared/wire"
)

// TestRetries: nodes that have failed at a document get it again after a while, then after twice as long; once nothing
// was due for long, and for another desired status, anew. What is refused holds up no other part.
func TestRetries(t *testing.T) {
	var m follow.Machine
	at := steertest.Now
	p := follow.Part{Source: "workloads", Of: 1, Want: "a", Have: "a", Failed: true}
	due := func(p follow.Part, after time.Duration, want follow.Act) {
		t.Helper()
		act, _, wake := m.Next(at, []follow.Part{p})
		if act != follow.Wait || !wake.Equal(at.Add(after)) {
			t.Fatalf("%v, again at %v", act, wake)
		}
		at = wake
		if act, _, _ = m.Next(at, []follow.Part{p}); act != want {
			t.Fatalf("%v is due", act)
		}
		m.Tried(at, p)
	}
	nothing := func(p follow.Part) {
		t.Helper()
		if act, _, wake := m.Next(at, []follow.Part{p}); act != follow.Wait || !wake.IsZero() {
			t.Errorf("%+v: %v %v", p, act, wake)
		}
	}
	due(p, follow.First, follow.Retry)
	busy, well := p, p
	busy.Failed, busy.Busy, well.Failed = false, true, false
	nothing(busy)
	due(p, 2*follow.First, follow.Retry)
	due(p, 4*follow.First, follow.Retry)
	nothing(well) // they are offline for a moment
	due(p, 8*follow.First, follow.Retry)
	at = at.Add(16*follow.First + follow.Most)
	nothing(well)
	due(p, follow.First, follow.Retry)
	p.Of, p.Want = 2, "b"
	if act, _, _ := m.Next(at, []follow.Part{p}); act != follow.Submit {
		t.Errorf("another desired status: %v", act)
	}
	m.Tried(at, p)
	other := follow.Part{Source: "components", Of: 2, Want: "x"}
	if act, one, _ := m.Next(at, []follow.Part{p, other}); act != follow.Submit || one.Source != "components" {
		t.Errorf("one that was refused holds up another: %v %v", act, one)
	}
}

// TestFailingNodesDelayNothing: nodes that fail again and again are no reason to wait with another document.
func TestFailingNodesDelayNothing(t *testing.T) {
	var m follow.Machine
	at := steertest.Now
	p := follow.Part{Source: "workloads", Of: 1, Want: "a", Have: "a", Failed: true}
	for n := 0; n < 24; {
		act, part, wake := m.Next(at, []follow.Part{p})
		if act == follow.Wait {
			at = wake
			continue
		}
		m.Tried(at, part)
		n++
	}
	p.Want = "b"
	if act, _, wake := m.Next(at, []follow.Part{p}); act != follow.Submit {
		t.Errorf("%v, again at %v", act, wake)
	}
	m.Tried(at, p)
	p.Have = "b" // and fails, too: nodes have time to get over it
	if act, _, wake := m.Next(at, []follow.Part{p}); act != follow.Wait || wake.Before(at.Add(follow.First)) {
		t.Errorf("%v, again at %v", act, wake)
	}
}

// TestPauses: whatever nodes tell each second for an hour, little is submitted for one desired status: also if each
// set is another one and is accepted, if two are refused in turn, and if nodes fail, and are offline, in turn.
func TestPauses(t *testing.T) {
	for name, c := range map[string]struct {
		part  func(second int) follow.Part
		tried []follow.Part // what is seen after each
	}{
		"each second another set": {part: func(i int) follow.Part {
			return follow.Part{Want: fmt.Sprint(i + 1), Have: fmt.Sprint(i)}
		}},
		"two are refused in turn": {part: func(i int) follow.Part { return follow.Part{Want: fmt.Sprint(i % 2)} }},
		"nodes come and go": {part: func(int) follow.Part { return follow.Part{Want: "a", Have: "a", Failed: true} },
			tried: []follow.Part{{Want: "a", Have: "a", Busy: true}, {Want: "a", Have: "a"}}},
	} {
		var m follow.Machine
		at, done := steertest.Now, 0
		for i := range 3600 {
			p := c.part(i)
			p.Source = wire.KindWorkloads
			if act, part, _ := m.Next(at, []follow.Part{p}); act != follow.Wait {
				m.Tried(at, part)
				done++
				for _, p := range c.tried {
					p.Source = wire.KindWorkloads
					m.Next(at, []follow.Part{p})
				}
			}
			at = at.Add(time.Second)
		}
		if done < 7 || done > 10 { // after 10, 20, 40 … seconds
			t.Errorf("%s: %d in an hour", name, done)
		}
	}
}

// TestReleasesGoSoon: however many versions are released while the desired status stays the same, each is there after
// First at most; what nodes tell after that waits again, for longer each time.
func TestReleasesGoSoon(t *testing.T) {
	var m follow.Machine
	at := steertest.Now
	p := follow.Part{Source: wire.KindWorkloads, Of: 1, Have: "0"}
	for i := range 100 {
		p.Items++
		p.Want = fmt.Sprint("release ", i)
		act, _, wake := m.Next(at, []follow.Part{p})
		if act == follow.Wait {
			if wake.Sub(at) > follow.First {
				t.Fatalf("release %d waits for %v", i, wake.Sub(at))
			}
			at = wake
			act, _, _ = m.Next(at, []follow.Part{p})
		}
		if act != follow.Submit {
			t.Fatalf("release %d: %v", i, act)
		}
		m.Tried(at, p)
		p.Have = p.Want
		if i%3 == 0 { // a node changes what it tells
			p.Want = fmt.Sprint("node ", i)
			if act, _, wake := m.Next(at, []follow.Part{p}); act != follow.Wait || wake.Sub(at) < follow.First {
				t.Fatalf("%v, %v", act, wake.Sub(at))
			}
			at = at.Add(follow.First)
			m.Tried(at, p)
			p.Have = p.Want
		}
		at = at.Add(time.Second)
	}
}
