package fleet

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/kinds"
	"tandem.internal/shared/wire"
)

var start = time.Unix(1_800_000_000, 0).UTC()

// said is a live message of a boot, proved with the beacon of some minute.
func (h *rig) said(boot string, up bool, minute int) {
	l := &wire.Live{V: wire.Version, Node: "n1", Boot: boot, Session: 1, Up: up}
	since := wire.Heard{}
	raw := wire.Encode(l)
	if up {
		since = wire.Heard{Epoch: 1000, Time: start.Add(time.Duration(minute) * time.Minute)}
		raw = wire.Prove(make([]byte, wire.ReportKeySize), "t", raw, since)
	}
	h.step(Heard{Node: "n1", Raw: raw, Live: l, Since: since})
}

// TestPlayedAgain: a proved message that somebody repeats does not count, of an earlier minute or of the same, before
// or after a restart of the controller; what a wrong clock has left in the journal does not keep a node out.
func TestPlayedAgain(t *testing.T) {
	for _, replayed := range []bool{false, true} {
		h := newRig(t)
		h.now = start.Add(10 * time.Minute)
		h.said("b1", true, 1)
		h.said("b2", true, 2)
		h.said("b3", true, 2)
		if replayed {
			h.replays()
			f, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1000}, h.f.Checkpoint())
			if err != nil {
				t.Fatal(err)
			}
			h.f = f
		}
		for _, old := range []struct {
			boot   string
			minute int
		}{{"b1", 1}, {"b2", 2}, {"b9", 1}} {
			h.said(old.boot, true, old.minute)
			if n := h.f.nodes["n1"]; n.Boot != "b3" {
				t.Fatalf("replayed %v: boot %s of minute %d counts again", replayed, old.boot, old.minute)
			}
		}
		report := &wire.Reported{V: wire.Version, Node: "n1", Kind: wire.KindConfig, Boot: "b2", Seq: 9}
		h.step(Heard{Node: "n1", Raw: wire.Encode(report), Reported: report,
			Since: wire.Heard{Epoch: 1000, Time: start}})
		if k := h.f.nodes["n1"].Kinds[wire.KindConfig]; k != nil && k.Boot == "b2" {
			t.Error("a report of an earlier boot counts again")
		}
		h.said("b3", false, 0)
		if h.f.nodes["n1"].Up {
			t.Error("a last will needs no proof")
		}
		h.said("b4", true, 3)
		if n := h.f.nodes["n1"]; !n.Up || n.Boot != "b4" {
			t.Errorf("%+v", n)
		}

		h.said("b5", true, 60*24*40) // which has not come: it lies, or the clock was ahead
		h.now = start.Add(13 * time.Minute)
		h.said("b6", true, 12)
		if n := h.f.nodes["n1"]; n.Boot != "b6" {
			t.Errorf("a node is kept out by a time that has not come: %s", n.Boot)
		}
	}
}

// TestWillOfSomebodyElse: a last will that the broker plays while the session goes on takes the node away only until it
// proves that it has heard a later beacon; a beat from before, which the will has overtaken, does not bring it back.
func TestWillOfSomebodyElse(t *testing.T) {
	h := newRig(t)
	h.now = start.Add(10 * time.Minute)
	h.said("b1", true, 9)
	for range 2 { // a broker may do so again
		h.said("b1", false, 0)
		h.said("b1", true, 9)
		if h.f.nodes["n1"].Up {
			t.Fatal("a beat from before the will brings the node back")
		}
		h.now = h.now.Add(2 * time.Minute)
		h.said("b1", true, int(h.now.Sub(start)/time.Minute)-1)
		if !h.f.nodes["n1"].Up {
			t.Fatal("a node that goes on is away")
		}
		before := len(h.recs)
		h.said("b1", true, int(h.now.Sub(start)/time.Minute))
		if len(h.recs) != before {
			t.Error("a beat is journaled")
		}
		h.replays()
	}
}

// TestUnheard: a node whose newest report does not arrive, however often it is asked for, is not in step.
func TestUnheard(t *testing.T) {
	h := newRig(t)
	h.join("n1")
	h.submit("1.0.0", wire.ModeApply, 0)
	d := h.f.nodes["n1"].Kinds[wire.KindConfig].Desired
	h.report("n1", "b", 1, wire.StateInstalled, d, d)
	shown := func() (bool, *wire.Error, int) {
		v, _ := h.f.Show("n1")
		return v.InSync, v.Documents[wire.KindConfig].Error, h.f.Status(wire.KindConfig).Progress.Installed
	}
	if ok, err, n := shown(); !ok || err != nil || n != 1 {
		t.Fatalf("in step %v, %v, %d", ok, err, n)
	}
	h.live("n1", "b", 1, true, 0, map[wire.Kind]uint64{wire.KindConfig: 2, wire.KindInfo: 1})
	if ok, _, _ := shown(); !ok {
		t.Error("it has had no time to arrive")
	}
	for range 8 {
		h.wait(time.Minute)
	}
	if ok, err, n := shown(); ok || err == nil || err.Code != wire.CodeNoAnswer || n != 0 {
		t.Errorf("in step %v, %v, %d", ok, err, n)
	}
	p := h.f.Status(wire.KindConfig).Progress
	if len(p.Missing) != 1 || p.Missing[0].Error == nil || p.Missing[0].Error.Code != wire.CodeNoAnswer {
		t.Errorf("%+v", p)
	}
	h.report("n1", "b", 2, wire.StateInstalled, d, d)
	if ok, err, n := shown(); !ok || err != nil || n != 1 {
		t.Errorf("in step %v, %v, %d", ok, err, n)
	}
}

// TestNewest: a node that asks is told which documents are its newest, at most every few seconds.
func TestNewest(t *testing.T) {
	h := newRig(t)
	h.join("n1")
	h.submit("1.0.0", wire.ModeApply, 0)
	asks := func() (told []string) {
		l := &wire.Live{V: wire.Version, Node: "n1", Boot: "b", Session: 1, Up: true, Asks: "m1"}
		for _, e := range h.step(Heard{Node: "n1", Raw: wire.Encode(l), Live: l}) {
			if a, ok := e.(Ask); ok && a.Method == wire.MethodNewest {
				told = append(told, string(a.Params("n1")))
			}
		}
		return told
	}
	want := fmt.Sprintf(`{"mark":"m1","stamps":{"config":{"epoch":1000,"rev":%d}}}`, h.f.Newest().Rev)
	if told := asks(); len(told) != 1 || told[0] != want {
		t.Errorf("%q, want %s", told, want)
	}
	if told := asks(); len(told) != 0 {
		t.Errorf("again at once: %q", told)
	}
	h.now = h.now.Add(tellEvery)
	if told := asks(); len(told) != 1 {
		t.Errorf("later: %q", told)
	}
	before := h.f.Newest()
	h.submit("2.0.0", wire.ModeApply, 0)
	if h.f.Newest().Compare(before) <= 0 {
		t.Error("what is issued does not change the mark")
	}
	f, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1000}, h.f.Checkpoint())
	if err != nil || f.Newest() != h.f.Newest() {
		t.Errorf("after a restart %v, want %v (%v)", f.Newest(), h.f.Newest(), err)
	}
}

// TestEventsPlayedAgainAfterAWipe: events from before a node lost its state do not count when they are repeated.
func TestEventsPlayedAgainAfterAWipe(t *testing.T) {
	w, step := members(t)
	minute := 0
	key := make([]byte, wire.ReportKeySize)
	since := func() wire.Heard { return wire.Heard{Epoch: 5, Time: origin.Add(time.Duration(minute))} }
	live := func(boot string, events uint64) {
		h := w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: boot, Session: 1, Up: true,
			Events: events})
		h.Since = since()
		h.Raw = wire.Prove(key, "t", h.Raw, h.Since)
		step(h)
	}
	event := func(boot string, seq uint64) {
		e := &wire.Event{V: wire.Version, Node: "n2", Boot: boot, Seq: seq, At: origin, Type: "alert"}
		step(Heard{Node: "n2", Raw: wire.Encode(e), Event: e, Since: since()})
	}
	live("b2", 2)
	event("b2", 1)
	event("b2", 2)
	minute = 5
	live("b3", 0) // the disk was wiped
	minute = 0
	event("b2", 1) // played again
	if n := w.live.Lookup("n2"); n.EventSeq != 0 {
		t.Errorf("an event from before the wipe counts again: %d", n.EventSeq)
	}
}

// TestProofOfTheIdentityBefore: a proof by the key from before a join says nothing about who has joined.
func TestProofOfTheIdentityBefore(t *testing.T) {
	w, step := members(t)
	step(Enrolment{Event: member("enrol", "n2", "again")})
	step(Enrolment{Event: member("join", "n2", "again")})
	// Verified with the key from before, and queued behind the join.
	step(Enrolment{Event: enrol.Prove{Subject: "node/n2", Serial: "1-t-n2"}})
	if sub := w.live.enrolled.Lookup("node/n2"); !sub.Proves.IsZero() {
		t.Error("the new identity has proved nothing")
	}
	step(Enrolment{Event: enrol.Prove{Subject: "node/n2", Serial: "1-again"}})
	if sub := w.live.enrolled.Lookup("node/n2"); sub.Proves.IsZero() {
		t.Error("its own proof does not count")
	}
}

// TestCheckpointBeforeEpochs: boots that are over, and forgotten nodes, are known from a checkpoint that names them
// without an epoch.
func TestCheckpointBeforeEpochs(t *testing.T) {
	f, err := Restored(Options{Kinds: kinds.All(), Unit: "u1", Epoch: 1000}, []byte(`{"seq":9,"docs":[],
		"forgotten":{"n2":"2027-01-15T08:00:00Z"},"nodes":[{"name":"n1","up":true,"boot":"b3","session":1,
		"firstSeen":"2027-01-15T08:00:00Z","since":"2027-01-15T08:00:00Z","pastBoots":["b1","b2"],
		"heard":{"epoch":1000,"time":"2027-01-15T08:02:00Z"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	h := newRig(t)
	h.f, h.now = f, start.Add(10*time.Minute)
	h.said("b2", true, 2)
	if n := f.nodes["n1"]; n.Boot != "b3" {
		t.Errorf("boot %s is back", n.Boot)
	}
	if at := f.forgotten["n2"]; at != (wire.Heard{Epoch: 1000, Time: start}) {
		t.Errorf("%+v", at)
	}
	again, err := Restored(f.opt, f.Checkpoint())
	if err != nil || string(again.Checkpoint()) != string(f.Checkpoint()) {
		t.Errorf("%v\n%s\n%s", err, again.Checkpoint(), f.Checkpoint())
	}
	h.said("b2", true, 3) // which it can have said only since then
	if n := f.nodes["n1"]; n.Boot != "b2" {
		t.Errorf("boot %s speaks", n.Boot)
	}
}
