package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
)

var begin = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

// node is a node with a machine, whose shell does at once what it is asked for.
type node struct {
	t      *testing.T
	state  State
	mono   time.Duration
	wall   time.Time
	chance func() float64

	fetching string // version
	staged   []string
	log      []string
}

func newNode(t *testing.T, running string) *node {
	n := &node{t: t, state: New(Durable{}), wall: begin, chance: func() float64 { return 0 }}
	n.step(Updated{Update{Running: running, Slots: true}})
	return n
}

func (n *node) now() Now {
	return Now{Now: clock.Now{Mono: n.mono, Wall: n.wall}, Chance: n.chance()}
}

func (n *node) step(ev Event) {
	state, effects := n.state.Step(n.now(), ev)
	n.state = state
	for _, e := range effects {
		switch e := e.(type) {
		case Fetch:
			if n.fetching = ""; e.Release != nil {
				n.fetching = e.Release.Version
			}
		case Stage:
			n.staged = append(n.staged, e.Release.Version)
		case Log:
			text := e.Detail.Name + " " + string(e.Detail.State)
			if e.Detail.DecidedBy != "" {
				text += " behind " + e.Detail.DecidedBy
			}
			if e.Detail.Suppressed > 0 {
				text += fmt.Sprint(" after ", e.Detail.Suppressed)
			}
			n.log = append(n.log, text)
		}
	}
}

// wait lets time pass, tick by tick.
func (n *node) wait(d time.Duration) {
	for end := n.mono + d; ; {
		t, ok := n.state.NextDeadline(clock.Now{Mono: n.mono, Wall: n.wall})
		if !ok || t > end {
			n.mono, n.wall = end, n.wall.Add(end-n.mono)
			return
		}
		t = max(t, n.mono+1)
		n.mono, n.wall = t, n.wall.Add(t-n.mono)
		n.step(Tick{})
	}
}

// off is a restart of the node after a time without power.
func (n *node) off(d time.Duration, update Update) {
	doc := n.state.doc
	n.state, n.mono, n.wall, n.fetching = New(n.state.Durable), 0, n.wall.Add(d), ""
	n.step(Document{doc})
	n.step(Updated{update})
}

func (n *node) is(want string) {
	n.t.Helper()
	var got []string
	for _, st := range n.state.Status() {
		text := st.Name + " " + string(st.State)
		if st.Version != "" {
			text += " " + st.Version
		}
		if st.Error != nil {
			text += " (" + string(st.Error.Code) + ")"
		}
		got = append(got, text)
	}
	if text := strings.Join(got, ", "); text != want {
		n.t.Errorf("%s, want %s", text, want)
	}
}

func release(version string) wire.AgentRelease {
	return wire.AgentRelease{Version: version, Hash: "sha256:" + version, Size: 1,
		URLs: []string{"https://c/" + version}}
}

func offers(versions ...string) (all []wire.AgentRelease) {
	for _, v := range versions {
		all = append(all, release(v))
	}
	return all
}

func doc(agents []wire.AgentRelease, policies ...wire.NodePolicy) Document {
	return Document{&wire.Policies{FormatVersion: wire.PoliciesFormat, Policies: policies, Agents: agents}}
}

func upTo(version string) wire.NodePolicy {
	return wire.NodePolicy{Name: "p", Rev: 1, Agent: &wire.AgentUpgrade{Version: version, Start: begin}}
}

// TestUpgrade goes the whole way, with a restart of the agent in the middle.
func TestUpgrade(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.step(doc(offers("1.0.0", "1.1.0", "1.2.0"), upTo("current")))
	n.is("p download-started 1.2.0")
	if n.fetching != "1.2.0" {
		t.Errorf("fetches %q", n.fetching)
	}
	n.step(Fetched{Hash: "sha256:1.2.0", Err: wire.New(wire.CodeUnavailable, "", "away")})
	n.is("p download-failed 1.2.0 (unavailable)")
	n.step(Fetched{Hash: "sha256:1.2.0"})
	n.step(Fetched{Hash: "sha256:1.2.0", Done: true})
	n.is("p downloaded 1.2.0")
	n.step(Staged{Hash: "sha256:1.2.0", Err: wire.New(wire.CodeWrongState, "", "a trial is under way")})
	n.is("p downloaded 1.2.0 (wrong-state)")
	n.wait(stagePause)
	if got := fmt.Sprint(n.staged); got != "[1.2.0 1.2.0]" {
		t.Error(got)
	}
	n.step(Staged{Hash: "sha256:1.2.0", Number: 7})
	n.is("p initiated 1.2.0")
	if n.fetching != "" {
		t.Error("what is staged is still being fetched")
	}
	n.off(time.Minute, Update{Running: "1.2.0", Slots: true, Number: 7})
	n.is("p initiated 1.2.0")
	n.step(Updated{Update{Running: "1.2.0", Slots: true, Number: 7, Ended: []Outcome{{Number: 7, Kept: true}}}})
	n.is("p successful 1.2.0")
	want := "p download-started,p download-failed,p downloaded after 1,p initiated,p successful"
	if got := strings.Join(n.log, ","); got != want {
		t.Error(got)
	}
	n.wait(time.Hour)
	n.step(doc(offers("1.0.0", "1.2.0", "1.3.0"), upTo("current")))
	n.is("p successful 1.2.0") // without autoUpgrade it was meant once
}

// TestThereAlready: nothing is downloaded that is not needed, and no policy means no question.
func TestThereAlready(t *testing.T) {
	n := newNode(t, "1.2.0")
	n.step(Document{})
	n.wait(time.Hour)
	n.step(doc(offers("1.0.0", "1.2.0")))
	n.is("")
	n.step(doc(offers("1.0.0", "1.2.0"), upTo("1.1.0")))
	n.is("p no-action-required")
	late := upTo("1.2.0")
	late.Rev, late.Agent = 2, &wire.AgentUpgrade{Version: "1.2.0", Start: begin.Add(5 * time.Hour)}
	n.step(doc(offers("1.0.0", "1.2.0"), late))
	n.is("p waiting")
	n.wait(5 * time.Hour)
	n.is("p no-action-required")
	if n.fetching != "" || len(n.staged) > 0 {
		t.Errorf("fetches %q, staged %v", n.fetching, n.staged)
	}
}

// TestKnownBad: a version that was rolled back is not gone to again, also under another policy; a newer one is. The
// reason of the failure stays apart from what is in the way of the rollback.
func TestKnownBad(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.step(doc(offers("1.0.0", "1.1.0"), upTo("current")))
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
	n.step(Staged{Hash: "sha256:1.1.0", Number: 3})
	n.step(Updated{Update{Running: "1.0.0", Slots: true, Number: 3, GivenUp: true}})
	n.is("p rollback-started 1.1.0")
	n.step(Updated{Update{Running: "1.0.0", Slots: true, Number: 3, GivenUp: true, Note: "disk full"}})
	n.is("p rollback-failed 1.1.0")
	n.step(Updated{Update{Running: "1.0.0", Slots: true, Number: 3, GivenUp: true, // it is about to end
		Ended: []Outcome{{Number: 3, Tried: true, Version: "1.1.0", Why: "three starts"}}}})
	n.is("p rollback-started 1.1.0")
	n.step(Updated{Update{Running: "1.0.0", Slots: true, Number: 3, GivenUp: true, Note: "disk full"}})
	bad := Update{Running: "1.0.0", Slots: true, Number: 3,
		Ended:      []Outcome{{Number: 3, Tried: true, Version: "1.1.0", Why: "three starts"}},
		Quarantine: []wire.HealthFailed{{Version: "1.1.0", Hash: "sha256:1.1.0", Text: "three starts"}}}
	n.step(Updated{bad})
	n.is("p rollback-successful 1.1.0 (apply-failed)")
	st := n.state.Status()[0]
	if st.Error.Message != "three starts" || st.Rollback == nil || st.Rollback.Message != "disk full" {
		t.Errorf("%+v", st)
	}
	n.wait(24 * time.Hour)
	n.off(time.Hour, bad)
	n.step(doc(offers("1.0.0", "1.1.0"), upTo("current")))
	n.is("p rollback-successful 1.1.0 (apply-failed)")
	other := upTo("1.1.0")
	other.Name, other.Rev = "q", 9
	n.step(doc(offers("1.0.0", "1.1.0"), other))
	n.wait(time.Hour)
	n.is("q failed 1.1.0 (quarantined)")
	if len(n.staged) != 1 || n.fetching != "" {
		t.Errorf("staged %v, fetches %q", n.staged, n.fetching)
	}
	n.step(doc(offers("1.0.0", "1.1.0", "1.1.1"), upTo("current")))
	n.wait(time.Hour)
	n.is("p download-started 1.1.1")
}

// TestBelowFloor: what is below the node's floor is not even fetched, also where the policy allows a downgrade; what is
// not below it is gone to.
func TestBelowFloor(t *testing.T) {
	n := newNode(t, "2.0.0")
	n.step(Updated{Update{Running: "2.0.0", Slots: true, Floor: "1.5.0"}})
	old := upTo("1.4.0")
	old.Agent.Downgrade = true
	n.step(doc(offers("1.4.0", "1.5.0"), old))
	n.wait(time.Hour)
	n.is("p failed 1.4.0 (below-floor)")
	if n.fetching != "" || len(n.staged) > 0 {
		t.Errorf("staged %v, fetches %q", n.staged, n.fetching)
	}
	old.Agent.Version, old.Rev = "1.5.0", old.Rev+1
	n.step(doc(offers("1.4.0", "1.5.0"), old))
	n.wait(time.Hour)
	n.is("p download-started 1.5.0")
}

// TestEdits: what is edited is planned anew until the trial is ordered; what is ordered ends first.
func TestEdits(t *testing.T) {
	n := newNode(t, "1.0.0")
	p := upTo("1.1.0")
	p.Agent.Start = begin.Add(time.Hour)
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	n.is("p waiting")
	p = upTo("1.1.0")
	p.Rev = 2
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	n.is("p download-started 1.1.0")
	p = upTo("1.2.0")
	p.Rev = 3
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	n.is("p download-started 1.2.0")
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true}) // too late
	n.is("p download-started 1.2.0")
	n.step(doc(offers("1.1.0", "1.2.0")))
	n.is("")
	if n.fetching != "" {
		t.Error("nobody wants it any more")
	}
	n.step(doc(offers("1.1.0", "1.2.0"), p))
	n.step(Fetched{Hash: "sha256:1.2.0", Done: true})
	n.step(Staged{Hash: "sha256:1.2.0", Number: 1})
	q := upTo("1.1.0")
	q.Name, q.Rev = "q", 4
	q.Agent.Downgrade = true
	n.step(doc(offers("1.1.0", "1.2.0"), q))
	n.is("q waiting")
	n.step(Updated{Update{Running: "1.2.0", Slots: true, Number: 1, Ended: []Outcome{{Number: 1, Kept: true}}}})
	n.is("q download-started 1.1.0")
	if got := strings.Join(n.log[len(n.log)-2:], ","); got != "p successful,q download-started" {
		t.Errorf("the end of the one and the beginning of the other: %s", got)
	}
}

// TestConflict: the loser acts on nothing and is told of once (seed 003, NMP Constraint Collisions).
func TestConflict(t *testing.T) {
	n := newNode(t, "1.0.0")
	loser := upTo("1.2.0")
	loser.Name, loser.DecidedBy, loser.Conflict, loser.Rev = "q", "p", true, 5
	n.step(doc(offers("1.1.0", "1.2.0"), upTo("1.1.0"), loser))
	n.step(doc(offers("1.1.0", "1.2.0"), upTo("1.1.0"), loser))
	n.is("p download-started 1.1.0, q conflict")
	if got := strings.Join(n.log, ","); got != "q conflict behind p,p download-started" {
		t.Error(got)
	}
	loser.DecidedBy, loser.Conflict = "", false // p was disabled
	n.step(doc(offers("1.1.0", "1.2.0"), loser))
	n.is("q download-started 1.2.0")
	same := upTo("1.2.0") // wants the same as the one that decides
	same.Name, same.Rev, same.DecidedBy = "r", 7, "q"
	n.step(doc(offers("1.1.0", "1.2.0"), loser, same))
	n.is("q download-started 1.2.0, r download-started 1.2.0")
	n.step(doc(offers("1.1.0", "1.2.0"), wire.NodePolicy{Name: "other", Rev: 6}, loser))
	n.is("other no-action-required, q download-started 1.2.0")
}

// TestAuto: with autoUpgrade what comes on offer is gone to within a heartbeat, again and again.
func TestAuto(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.chance = func() float64 { return 0.5 }
	p := upTo("current")
	p.Agent.Auto, p.Agent.Start, p.Agent.Duration = true, begin.Add(time.Hour), 3600
	n.step(doc(offers("1.0.0"), p))
	n.wait(time.Minute)
	n.is("p no-action-required")
	for i, v := range []string{"1.1.0", "1.2.0"} {
		n.step(doc(offers("1.0.0", v), p))
		n.is("p waiting")
		n.wait(time.Minute)
		n.is("p download-started " + v)
		n.step(Fetched{Hash: "sha256:" + v, Done: true})
		n.step(Staged{Hash: "sha256:" + v, Number: uint64(i + 1)})
		n.step(Updated{Update{Running: v, Slots: true, Number: uint64(i + 1),
			Ended: []Outcome{{Number: uint64(i + 1), Kept: true}}}})
		n.is("p successful " + v)
	}
}

// TestCannot: what the node lacks is told, and begun as soon as it is there.
func TestCannot(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.step(Updated{Update{Running: "1.0.0"}})
	n.step(doc(nil, upTo("1.1.0")))
	n.is("p waiting (not-found)")
	n.step(doc(offers("1.1.0"), upTo("1.1.0")))
	n.is("p precheck-failed 1.1.0 (not-supported)")
	n.wait(time.Hour)
	n.step(Updated{Update{Running: "1.0.0", Slots: true}})
	n.is("p download-started 1.1.0")
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
	n.step(Staged{Hash: "sha256:1.1.0", Final: true, Err: wire.New(wire.CodeHashMismatch, "", "no")})
	n.is("p failed 1.1.0 (hash-mismatch)")
	n.wait(time.Hour)
	if len(n.staged) != 1 {
		t.Errorf("staged %v", n.staged)
	}
}

// TestTakenOver: an update that somebody else has replaced is over, and not for ever under way.
func TestTakenOver(t *testing.T) {
	for version, want := range map[string]string{"1.1.0": "p successful 1.1.0",
		"1.0.0": "p failed 1.1.0 (interrupted)"} {
		n := newNode(t, "1.0.0")
		n.step(doc(offers("1.1.0"), upTo("1.1.0")))
		n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
		n.step(Staged{Hash: "sha256:1.1.0", Number: 1})
		n.step(Updated{Update{Running: version, Slots: true, Number: 2}})
		n.is(want)
	}
}

// TestUpdateBeforeDocument: at a start nothing is decided before it is known what the node goes by: the end of a trial
// is not lost.
func TestUpdateBeforeDocument(t *testing.T) {
	n := newNode(t, "1.0.0")
	all := doc(offers("1.1.0"), upTo("1.1.0"))
	n.step(all)
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
	n.step(Staged{Hash: "sha256:1.1.0", Number: 1})
	n.state = New(n.state.Durable)
	n.step(Updated{Update{Running: "1.0.0", Slots: true, Number: 1,
		Ended:      []Outcome{{Number: 1, Tried: true, Version: "1.1.0", Why: "three starts"}},
		Quarantine: []wire.HealthFailed{{Version: "1.1.0", Hash: "sha256:1.1.0"}}}})
	n.step(all)
	n.is("p rollback-successful 1.1.0 (apply-failed)")
}

// TestDropped: what could not be saved is begun again.
func TestDropped(t *testing.T) {
	n := newNode(t, "1.0.0")
	n.step(doc(offers("1.1.0"), upTo("1.1.0")))
	n.step(Fetched{Hash: "sha256:1.1.0", Done: true})
	n.step(Dropped{})
	n.wait(stagePause)
	if len(n.staged) != 2 {
		t.Errorf("staged %v", n.staged)
	}
}

// TestWholeWindow: of a window that has begun only the rest is left, but in a rollout all of it, for those who get the
// policy now; one that has not begun is as it is.
func TestWholeWindow(t *testing.T) {
	for want, c := range map[time.Duration]struct {
		start time.Duration
		whole bool
	}{30 * time.Minute: {-30 * time.Minute, false}, time.Hour: {-30 * time.Minute, true},
		90 * time.Minute: {30 * time.Minute, true}} {
		n := newNode(t, "1.0.0")
		n.chance = func() float64 { return 0.999999 }
		p := upTo("1.1.0")
		p.Agent.Start, p.Agent.Duration, p.Agent.Whole = begin.Add(c.start), 3600, c.whole
		n.step(doc(offers("1.1.0"), p))
		if at := n.state.Plan.At.Sub(begin).Round(time.Second); at != want {
			t.Errorf("%+v: begins after %v, want %v", c, at, want)
		}
	}
}
