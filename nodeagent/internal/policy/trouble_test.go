package policy

import (
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

// TestWaitsForAnOffer: a policy that waits for a version on offer wants no Tick, and the same news twice is saved and
// reported once.
func TestWaitsForAnOffer(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.step(doc(nil, upTo("1.1.0")))
	n.is("p waiting (not-found)")
	if at, due := n.state.NextDeadline(clock.Now{Mono: n.mono, Wall: n.wall}); due {
		t.Errorf("it wants a Tick at %v", at)
	}
	for _, ev := range []Event{Tick{}, Updated{Update{Running: "1.0.0", Slots: true}}, Tick{}} {
		next, effects := n.state.Step(n.now(), ev)
		if !next.Durable.Equal(n.state.Durable) || len(effects) > 0 {
			t.Errorf("%T: %+v, %v", ev, next.Durable, effects)
		}
	}
	n.wait(time.Hour)
	n.step(doc(offers("1.1.0"), upTo("1.1.0")))
	n.is("p download-started 1.1.0")
}

// TestSameTrouble: what goes wrong again and again in the same way is saved and reported once.
func TestSameTrouble(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.step(doc(offers("1.1.0"), upTo("1.1.0")))
	same := func(ev func() Event) {
		t.Helper()
		n.step(ev())
		next, effects := n.state.Step(n.now(), ev())
		if !next.Durable.Equal(n.state.Durable) || len(effects) > 0 {
			t.Errorf("%T: %+v, %v", ev(), next.Durable, effects)
		}
	}
	same(func() Event { return Fetched{Hash: "sha256:1.1.0", Err: wire.New(wire.CodeUnavailable, "", "away")} })
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
	same(func() Event { return Staged{Hash: "sha256:1.1.0", Err: wire.New(wire.CodeWrongState, "", "busy")} })
	n.step(Staged{Hash: "sha256:1.1.0", Number: 1})
	same(func() Event {
		return Updated{Update{Running: "1.0.0", Slots: true, Number: 1, GivenUp: true, Note: "disk full"}}
	})
	m := newNode(t, "1.0.0")
	m.step(Updated{Update{Running: "1.0.0"}})
	m.step(doc(offers("1.1.0"), upTo("1.1.0")))
	m.is("p precheck-failed 1.1.0 (not-supported)")
	if next, effects := m.state.Step(m.now(), Tick{}); !next.Durable.Equal(m.state.Durable) || len(effects) > 0 {
		t.Errorf("%+v, %v", next.Durable, effects)
	}
}

// TestFlapping: a state that comes back is told of once for each plan; what is left out is counted, and hides no end.
func TestFlapping(t *testing.T) {
	n := newNode(t, "1.0.0")
	flap := func(version string, times int) {
		for range times {
			n.step(Fetched{Hash: "sha256:" + version, Err: wire.New(wire.CodeUnavailable, "", "away")})
			n.step(Fetched{Hash: "sha256:" + version})
		}
	}
	told := func(want string) {
		t.Helper()
		if got := strings.Join(n.log, ", "); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		n.log = nil
	}
	p := upTo("1.1.0")
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	flap("1.1.0", 100)
	told("p download-started, p download-failed")
	p.Rev++ // planned anew, it is told anew
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	flap("1.1.0", 2)
	told("p download-started after 199, p download-failed")
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
	n.step(Staged{Hash: "sha256:1.1.0", Number: 1})
	for _, note := range []string{"", "disk full", "", "disk full", ""} {
		n.step(Updated{Update{Running: "1.0.0", Slots: true, Number: 1, GivenUp: true, Note: note}})
	}
	n.step(Updated{Update{Running: "1.0.0", Slots: true, Number: 1,
		Ended: []Outcome{{Number: 1, Tried: true, Version: "1.1.0", Why: "three starts"}}}})
	told("p downloaded after 3, p initiated, p rollback-started, p rollback-failed, p rollback-successful after 3")
	auto := upTo("current")
	auto.Rev, auto.Agent.Auto = 9, true
	n.step(doc(offers("1.1.0", "1.2.0"), auto))
	n.step(Fetched{Hash: "sha256:1.2.0", Done: true})
	n.step(Staged{Hash: "sha256:1.2.0", Number: 2})
	kept := Update{Running: "1.2.0", Slots: true, Number: 2, Ended: []Outcome{{Number: 2, Kept: true}}}
	n.step(Updated{kept})
	told("p download-started, p downloaded, p initiated, p successful")
	n.chance = func() float64 { return 0.5 }
	back := Updated{Update{Running: "1.0.0", Slots: true, Number: 2}} // by somebody at the node, whose disk is full
	next, _ := n.state.Step(n.now(), back)
	n.state, _ = next.Step(n.now(), Dropped{})
	n.wait(time.Hour)
	told("p download-started") // the same version once more is another plan
}

// TestEditWhileFetching: whatever was fetched for the policy as it was, what it wants now is asked for, also if that
// was fetched already.
func TestEditWhileFetching(t *testing.T) {
	n := newNode(t, "1.0.0")
	p := upTo("1.1.0")
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	p = upTo("1.2.0")
	p.Rev = 2
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	if n.fetching != "1.2.0" {
		t.Errorf("%q is fetched", n.fetching)
	}
	n.step(Fetched{Hash: "sha256:1.2.0", Done: true})
	n.is("p downloaded 1.2.0")
	p = upTo("1.2.0")
	p.Rev = 3
	n.fetching = ""
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	n.is("p download-started 1.2.0")
	if n.fetching != "1.2.0" {
		t.Errorf("%q is fetched", n.fetching)
	}
	moved := offers("1.2.0")
	moved[0].URLs = []string{"https://d/"}
	n.fetching = ""
	n.step(doc(moved, p))
	if n.fetching != "1.2.0" {
		t.Error("it is to be had elsewhere, and nobody asks there")
	}
}

// TestKnownBadAfterACrash: the answer to the order was lost in a crash; the trial failed. Nothing is fetched or staged
// again.
func TestKnownBadAfterACrash(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.step(doc(offers("1.1.0"), upTo("1.1.0")))
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
	n.staged = nil
	n.off(time.Minute, Update{Running: "1.0.0", Slots: true, Number: 1,
		Ended:      []Outcome{{Number: 1, Tried: true, Version: "1.1.0", Why: "three starts"}},
		Quarantine: []wire.HealthFailed{{Version: "1.1.0", Hash: "sha256:1.1.0", Text: "three starts"}}})
	n.is("p failed 1.1.0 (quarantined)")
	if n.fetching != "" || len(n.staged) > 0 {
		t.Errorf("%q is fetched, %v staged", n.fetching, n.staged)
	}
}

// TestDroppedIsMadeUpFor: what a step that could not be saved would have asked for, told and reported follows once the
// disk takes something again; and what had happened before it does not happen twice.
func TestDroppedIsMadeUpFor(t *testing.T) {
	loser := upTo("1.2.0")
	loser.Name, loser.DecidedBy, loser.Conflict, loser.Rev = "q", "p", true, 5
	n := newNode(t, "1.0.0")
	dropped := func(ev Event) {
		next, _ := n.state.Step(n.now(), ev)
		n.state, _ = next.Step(n.now(), Dropped{})
	}
	dropped(doc(offers("1.1.0", "1.2.0"), upTo("1.1.0"), loser))
	dropped(Tick{})
	if n.fetching != "" || n.log != nil {
		t.Fatalf("%q is fetched, %v", n.fetching, n.log)
	}
	_, effects := n.state.Step(n.now(), Tick{})
	if len(effects) != 4 { // the conflict, the download, a report, the beginning
		t.Errorf("%#v", effects)
	}
	n.step(Tick{})
	if got := strings.Join(n.log, ","); got != "q conflict behind p,p download-started" || n.fetching != "1.1.0" {
		t.Errorf("%s, %q is fetched", got, n.fetching)
	}
	n.log = nil
	dropped(doc(nil)) // no policy any more
	n.step(Tick{})
	if n.fetching != "" {
		t.Errorf("%q is fetched without a policy", n.fetching)
	}
	n.step(doc(offers("1.1.0", "1.2.0"), upTo("1.1.0"), loser))
	n.log = nil
	n.off(time.Minute, Update{Running: "1.0.0", Slots: true})
	if got := strings.Join(n.log, ","); got != "" {
		t.Errorf("after a restart: %s", got)
	}
	winner := upTo("1.1.0")
	winner.Name = "r"
	loser.DecidedBy = "r"
	n.step(doc(offers("1.1.0", "1.2.0"), winner, loser))
	if got := strings.Join(n.log, ","); !strings.Contains(got, "q conflict behind r") {
		t.Errorf("another one decides: %s", got)
	}
}

// TestWindowJustOver: a window that was over just before the node knew of it is as long from now on, not over again.
func TestWindowJustOver(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.chance = func() float64 { return 0.5 }
	p := upTo("1.1.0")
	p.Agent.Start, p.Agent.Duration = begin.Add(-20*time.Second), 10
	n.step(doc(offers("1.1.0"), p))
	if want := begin.Add(5 * time.Second); !n.state.Plan.At.Equal(want) {
		t.Errorf("it begins at %v, want %v", n.state.Plan.At, want)
	}
}
