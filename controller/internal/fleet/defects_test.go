package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// These tests tell what went wrong once, and hold the fleet to the mend.

// Events that overtook others made the controller forget those: every event is journaled, once and
// in order, when the node replays what is missing.
func TestEventsOutOfOrderAreKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		before uint64   // that came in order
		mixed  []uint64 // that did not
		replay []uint64 // by the node
	}{
		{"two gaps", 4, []uint64{6, 8, 5, 7}, []uint64{5, 6, 7, 8}},
		{"where the node is told to forget", 100, []uint64{103, 101, 102}, []uint64{101, 102, 103}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newRig(t)
			h.live("n", "b", 1, true, 0, nil)
			h.event("n", upTo(c.before)...)
			h.event("n", c.mixed...)
			h.event("n", c.replay...)
			if got, want := fmt.Sprint(h.events()), fmt.Sprint(upTo(c.before+uint64(len(c.mixed)))); got != want {
				t.Errorf("journaled %s, want %s", got, want)
			}
		})
	}
}

// A node whose disk was wiped counts its events from 1 again; they were taken for old ones.
func TestEventsOfAWipedNodeAreKept(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.event("n", upTo(50)...)
	h.now = h.now.Add(time.Hour)
	h.live("n", "c", 1, true, 2, nil)
	h.event("n", 1, 2, 3)
	if got, want := fmt.Sprint(h.events()), fmt.Sprint(append(upTo(50), 1, 2, 3)); got != want {
		t.Errorf("journaled %s, want %s", got, want)
	}
}

// A node that was away when the trial was confirmed rolls back by itself; it was then left on the
// old version for ever.
func TestMissedConfirmationIsIssuedAgain(t *testing.T) {
	h := newRig(t)
	h.join("n")
	h.submit("1.0.0", wire.ModeApply, 0)
	v1 := h.want("n")
	h.report("n", "b", 1, wire.StateInstalled, v1, v1)
	h.submit("2.0.0", wire.ModeTry, 2*time.Minute)
	v2 := h.want("n")
	h.report("n", "b", 2, wire.StateTrying, v2, v1)
	h.live("n", "b", 1, false, 0, nil) // its last will
	h.now = h.now.Add(time.Minute)
	h.step(Confirm{Ticket: 2, Source: wire.KindConfig})
	h.now = h.now.Add(3 * time.Minute) // the node rolls back and then reconnects
	seqs := map[wire.Kind]uint64{wire.KindInfo: 1, wire.KindConfig: 3}
	h.live("n", "b", 2, true, 0, seqs)
	h.info("n", "b", 1)
	h.report("n", "b", 3, wire.StateRolledBack, v2, v1)
	for range 200 {
		h.wait(time.Minute)
		h.live("n", "b", 2, true, 0, seqs)
	}
	if d := h.want("n"); d == v2 || d.Version != "2.0.0" || d.Mode != wire.ModeApply {
		t.Errorf("the unit has %s, the node runs 1.0.0 and should have %+v", h.f.State(wire.KindConfig).Version, d)
	}
}

// A node that comes back from a boot gets a document again that it had refused, also when its live message comes before
// its report. One that went wrong while it was applied it does not get unasked.
func TestRefusedDocumentIsIssuedAgainAfterABoot(t *testing.T) {
	for state, again := range map[wire.State]bool{wire.StateRejected: true, wire.StateFailed: false,
		wire.StateRolledBack: false} {
		h := newRig(t)
		h.submit("1.0.0", wire.ModeApply, 0)
		h.join("n")
		v1 := h.want("n")
		h.report("n", "b", 1, state, v1, nil)
		h.live("n", "b", 1, false, 0, nil)
		h.live("n", "c", 1, true, 0, nil)
		h.info("n", "c", 1)
		h.report("n", "c", 1, state, v1, nil)
		if (h.want("n") != v1) != again {
			t.Errorf("%s: issued again after a boot: %v", state, !again)
		}
	}
}

// A confirmation that came before the tick, but after the deadline, was taken.
func TestTrialIsNotConfirmedAfterItsDeadline(t *testing.T) {
	h := newRig(t)
	h.join("n")
	h.submit("2.0.0", wire.ModeTry, 2*time.Minute)
	h.now = h.now.Add(5 * time.Hour)
	e := show(h.step(Confirm{Ticket: 2, Source: wire.KindConfig}))
	if strings.Contains(e, "accepted") || !strings.Contains(e, "Answer") {
		t.Error("hours after the deadline: ", e)
	}
}

// A journal restored from a copy issued revs that the nodes know already, and which they refuse as
// stale: whether or not the restoring raised the epoch, the node's document becomes newer than what
// it has, whoever else is heard first.
func TestRestoredJournalOvertakesItsNodes(t *testing.T) {
	for _, epoch := range []uint64{1001, 1000} {
		t.Run(fmt.Sprint("epoch ", epoch), func(t *testing.T) {
			h := newRig(t)
			h.join("n")
			h.submit("1.0.0", wire.ModeApply, 0)
			backup := h.f.Checkpoint()
			installed := h.submission("1.0.0", view.Submission{}).Content
			h.submit("2.0.0", wire.ModeApply, 0)
			v2 := h.want("n")
			f, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: epoch,
				Keys: []wire.Key{testKey(1)}}, backup)
			if err != nil {
				t.Fatal(err)
			}
			f.SetContent(wire.KindConfig, installed, nil)
			h.f = f
			h.step(Opened{})
			for i := range 10 {
				h.live(fmt.Sprint("x", i), "b", 1, true, 0, nil)
			}
			h.live("n", "c", 1, true, 0, nil)
			h.info("n", "c", 1)
			h.shows("n", v2, h.report("n", "c", 1, wire.StateInstalled, v2, v2))
			for range 20 {
				h.shows("n", v2, h.wait(time.Minute))
				h.shows("n", v2, h.report("n", "c", 1, wire.StateInstalled, v2, v2))
			}
			if got := h.want("n").Stamp(); got.Compare(v2.Stamp()) <= 0 {
				t.Errorf("issued %v; the node has %v and refuses it for ever", got, v2.Stamp())
			}
		})
	}
}

// A session whose beginning was never heard of ends all the same.
func TestWillOfALaterSessionCounts(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 2, true, 0, nil)
	h.live("n", "b", 3, false, 0, nil)
	if h.f.nodes["n"].Up {
		t.Error("online for ever")
	}
}

// Kinds that nobody knows, in a node's beats, filled the memory; what they left was not replayed.
func TestUnknownKindsAreNotKept(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	for i := range 1000 {
		seqs := map[wire.Kind]uint64{}
		for j := range 64 {
			seqs[wire.Kind(fmt.Sprintf("k%d-%d", i, j))] = 1
		}
		h.live("n", "b", 1, true, 0, seqs)
	}
	if n := len(h.f.nodes["n"].Kinds); n > 100 {
		t.Errorf("%d kinds, %d records", n, len(h.recs))
	}
	h.replays()
}

// The first word of a node is an event from the middle.
func TestReplayAfterAnEventOfAnUnknownNode(t *testing.T) {
	h := newRig(t)
	h.event("n", 5)
	h.now = h.now.Add(time.Second)
	h.live("n", "b", 1, true, 5, nil)
	h.replays()
}

// Times are read back in UTC.
func TestReplayInAnotherTimeZone(t *testing.T) {
	h := newRig(t)
	h.now = h.now.In(time.FixedZone("x", 7200))
	h.live("n", "b", 1, true, 5, nil)
	h.replays()
}

// Two checks in one tick of a coarse clock had one ID, so nodes gave the first one's verdict twice.
func TestRequestsOfOneInstantDiffer(t *testing.T) {
	h := newRig(t)
	h.join("n")
	check := func(version string) string {
		for _, e := range h.step(h.submission(version, view.Submission{DryRun: true})) {
			if a, ok := e.(Ask); ok {
				h.step(Heard{Node: "n",
					Reply: &wire.Reply{V: wire.Version, Node: "n", ID: a.ID + "n", Result: []byte(`{"ok":true}`)}})
				return a.ID
			}
		}
		t.Fatal("the node is not asked")
		return ""
	}
	if a, b := check("1.0.0"), check("2.0.0"); a == b {
		t.Error("both are ", a)
	}
}

// A node that said that it is at work is left alone for longer than one that said nothing.
func TestBusyNodeIsNotAskedAtOnce(t *testing.T) {
	h := newRig(t)
	h.join("n")
	h.submit("1.0.0", wire.ModeApply, 0)
	h.now = h.now.Add(100 * time.Millisecond)
	h.report("n", "b", 1, wire.StateApplying, h.want("n"), nil)
	if e := h.wait(10 * time.Second); len(e) > 0 { // longer than the grace of any name
		t.Error("asked after 10 s though it said applying: ", show(e))
	}
}

// A lower version that came in while the unit was failed was accepted after the unit was restored.
func TestVersionRuleHoldsWhenASubmissionIsAccepted(t *testing.T) {
	h := newRig(t)
	h.join("n")
	h.submit("3.0.0", wire.ModeApply, 0)
	h.step(Copy{Hash: "sha256:x"})
	if h.f.State(wire.KindConfig).State != kind.Failed {
		t.Fatalf("an altered copy leaves the unit %s", h.f.State(wire.KindConfig).State)
	}
	h.step(h.submission("1.0.0", view.Submission{})) // the node is asked and does not answer
	h.step(Restore{Ticket: 2})
	h.wait(6 * time.Second)
	if h.f.State(wire.KindConfig).Version == "1.0.0" {
		t.Error("went down from 3.0.0 to 1.0.0 although it was installed at the time of acceptance")
	}
}

// A node whose information was lost on its way never got a document.
func TestNodeWithoutInfoIsAsked(t *testing.T) {
	h := newRig(t)
	h.submit("1.0.0", wire.ModeApply, 0)
	h.live("n", "b", 1, true, 0, nil)
	asked := false
	for range 100 {
		asked = asked || len(h.wait(time.Minute)) > 0
	}
	if !asked {
		t.Error("never asked for its information")
	}
}

// What a node reported in its last boot is not asked for in this one.
func TestReportsOfAnEarlierBootAreNotAskedFor(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, map[wire.Kind]uint64{wire.KindInfo: 1, wire.KindHealth: 3})
	h.info("n", "b", 1)
	r := &wire.Reported{V: wire.Version, Node: "n", Kind: wire.KindHealth, Boot: "b", Seq: 3}
	h.step(Heard{Node: "n", Raw: wire.Encode(r), Reported: r})
	h.live("n", "c", 1, true, 0, map[wire.Kind]uint64{wire.KindInfo: 1})
	h.info("n", "c", 1)
	asks := 0
	for range 600 {
		asks += len(h.wait(time.Minute))
	}
	if asks > 0 {
		t.Errorf("asked %d times for a kind that the new boot does not report", asks)
	}
}

// A beat that is handled after the goodbye of its session does not bring the node back.
func TestGoodbyeOvertakesABeat(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.live("n", "b", 1, false, 0, nil)
	h.live("n", "b", 1, true, 0, nil)
	if h.f.nodes["n"].Up {
		t.Error("online for ever after its goodbye")
	}
}
