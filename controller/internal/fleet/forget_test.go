package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// members is a unit of n1 and n2, which have joined and are online.
func members(t *testing.T) (w *world, step func(Event) ([]record.Record, []Effect)) {
	w, now := newWorld(t), origin
	step = func(ev Event) ([]record.Record, []Effect) {
		now = now.Add(time.Second)
		return w.step(now, ev)
	}
	for _, node := range []string{"n1", "n2"} {
		step(Enrolment{Event: member("enrol", node, "t-"+node)})
		step(Enrolment{Event: member("join", node, "t-"+node)})
		step(w.heard(node, &wire.Live{V: wire.Version, Node: node, Boot: "b1", Session: 1, Up: true}))
		step(w.info(node, "b1", 1, "mainType"))
	}
	return w, step
}

// A node that was forgotten is not awaited, and no key waits for it, although its certificate counts; with a new token
// it is awaited.
func TestForgottenIsNotAwaited(t *testing.T) {
	w, step := members(t)
	key := record.SigningKey{Key: wire.Key{ID: "k"}, Announced: origin.Add(time.Hour)}
	expect := func(when string, awaited, unaware []string) {
		t.Helper()
		var got []string
		for _, n := range w.live.Awaited(origin) {
			got = append(got, n.Node)
		}
		if names := w.live.unaware(key); !slices.Equal(got, awaited) || !slices.Equal(names, unaware) {
			t.Errorf("%s: awaited are %q, unaware of the key %q", when, got, names)
		}
	}
	expect("before", nil, []string{"n1", "n2"})
	step(Forget{Nodes: []string{"n2"}, Force: true})
	expect("forgotten", nil, []string{"n1"})
	step(Enrolment{Event: member("enrol", "n2", "again")})
	expect("enrolled", []string{"n2"}, []string{"n1", "n2"})
	w.check()
}

// What a node has proved before it was forgotten makes it no node again, whoever repeats it.
func TestForgottenIsNotPlayedAgain(t *testing.T) {
	w, step := members(t)
	says := func(at time.Time) *Node {
		h := w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: "b1", Session: 1, Up: true})
		h.Since = wire.Heard{Epoch: 5, Time: at}
		h.Raw = wire.Prove(make([]byte, wire.ReportKeySize), "t", h.Raw, h.Since)
		step(h)
		return w.live.Lookup("n2")
	}
	step(Forget{Nodes: []string{"n2"}, Force: true})
	at := w.live.forgotten["n2"].Time
	if n := says(at.Add(-time.Second)); n != nil {
		t.Errorf("it was said before, and the node is %+v", n)
	}
	if n := says(at); n == nil || !n.Up {
		t.Errorf("it is back, and the node is %+v", n)
	}
	w.check()
}

// Nothing is asked of a node that was revoked, and what a program before has issued to one is withdrawn.
func TestRevokedIsLeftAlone(t *testing.T) {
	w, step := members(t)
	sub := w.submit("s1", "1.0.0")
	sub.Sub.Offline = true
	step(sub)
	step(w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: "b1", Session: 2, Up: true, // a report is missing
		Seqs: map[wire.Kind]uint64{wire.KindInfo: 9}}))
	step(Enrolment{Event: member("revoke", "n2", "")})
	for range 20 {
		_, effects := step(Tick{})
		for _, e := range effects {
			if a, ok := e.(Ask); ok && slices.Contains(a.Nodes, "n2") {
				t.Errorf("it is asked to %s", a.Method)
			}
		}
	}

	doc := w.live.Lookup("n1").Kinds[wire.KindConfig].Desired
	old := record.Record{Seq: w.live.Seq() + 1, At: origin.Add(time.Hour), Type: record.Issued, Kind: "config",
		Data: record.Encode(record.IssuedData{Epoch: doc.Epoch, Version: doc.Version, Mode: doc.Mode,
			Docs: []record.IssuedDoc{{Hash: doc.Hash, Nodes: []string{"n1", "n2"}}}})}
	if err := w.live.Replay(&old); err != nil {
		t.Fatal(err)
	}
	w.journal = append(w.journal, old)
	_, effects := step(Opened{Version: "2.0.0"})
	if got, want := say(effects), "publish config <nil> "; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("at the start: %s", got)
	}
	if d := w.live.Lookup("n2").Kinds[wire.KindConfig].Desired; d != nil {
		t.Errorf("it is to have %+v", d)
	}
	if d := w.live.Lookup("n1").Kinds[wire.KindConfig].Desired; d == nil || d.Rev != old.Seq {
		t.Errorf("n1 is to have %+v", d)
	}
	w.check()
}

// What is remembered of names that were forgotten is bounded; the newest are.
func TestForgottenIsBounded(t *testing.T) {
	f := New(newWorld(t).opt)
	for i := range maxForgotten + 5 {
		f.applyForgotten(fmt.Sprintf("n%05d", i), origin.Add(time.Duration(i)))
	}
	if _, first := f.forgotten["n00004"]; first || len(f.forgotten) != maxForgotten {
		t.Errorf("%d are remembered, the oldest among them: %v", len(f.forgotten), first)
	}
}

// TestNamesThatNobodyHas: once a node has joined, only so many names that have not become nodes; what is refused costs
// no more than one remark, who is enrolled gets in, and forgetting makes room.
func TestNamesThatNobodyHas(t *testing.T) {
	h := newRig(t)
	h.join("plain") // before anybody has joined
	h.join("n1")
	for _, what := range []string{"enrol", "join"} {
		h.step(Enrolment{Event: member(what, "n1", "t")})
	}
	said := 0
	for i := range maxStrangers + 50 {
		before := len(h.recs)
		h.live(fmt.Sprintf("ghost-%d", i), "b", 1, true, 0, nil)
		for _, r := range h.recs[before:] {
			if r.Type == record.Trouble {
				said++
			}
		}
	}
	if len(h.f.nodes) != 1+maxStrangers || said != 1 {
		t.Errorf("%d nodes, and it was said %d times", len(h.f.nodes), said)
	}
	if n := len(h.f.limiter.nodes); n > 2+maxStrangers {
		t.Errorf("%d names are remembered", n)
	}
	h.live("plain", "b", 2, true, 0, nil) // those that are known go on
	h.step(Enrolment{Event: member("enrol", "n2", "t2")})
	h.join("n2")
	if n := h.f.nodes; n["plain"].Session != 2 || n["n2"] == nil {
		t.Error("who is known, or enrolled, does not get in")
	}
	h.live("one-more", "b", 1, true, 0, nil)
	h.step(Forget{Nodes: []string{"ghost-7", "ghost-8", "n2"}, Force: true})
	for _, name := range []string{"late-1", "late-2", "late-3"} {
		h.join(name)
	}
	if n := h.f.nodes; n["late-1"] == nil || n["late-3"] != nil {
		t.Errorf("%d nodes after some were forgotten", len(n))
	}
}

// TestTypeIsBound: a node that was enrolled as of a type is not believed to be of another one, also if it said so
// before, and gets nothing as one. Enrolled anew without a type, it may be of any.
func TestTypeIsBound(t *testing.T) {
	h := newRig(t)
	enroll := func(node, token, typ string) {
		h.step(Enrolment{Event: enrol.Enrol{Subject: nodePrefix + node, Hash: token, Type: typ}})
		h.step(Enrolment{Event: member("join", node, token)})
	}
	issued := func(node string) bool {
		n := h.f.nodes[node]
		return n != nil && n.Kinds[wire.KindConfig] != nil && n.Kinds[wire.KindConfig].Desired != nil
	}
	troubles := func() (n int) {
		for _, r := range h.recs {
			if r.Type == record.Trouble {
				n++
			}
		}
		return n
	}
	h.join("before") // says that it is of the type m, and gets a document as such
	h.submit("0.1.0", wire.ModeApply, 0)
	enroll("before", "t1", "other")
	enroll("liar", "t2", "other")
	enroll("honest", "t3", "m")
	enroll("any", "t4", "")
	for _, node := range []string{"liar", "honest", "any"} {
		h.join(node)
	}
	h.submit("1.0.0", wire.ModeApply, 0)
	for node, want := range map[string]bool{"before": false, "liar": false, "honest": true, "any": true} {
		if got := issued(node); got != want {
			t.Errorf("%s gets a document: %v", node, got)
		}
	}
	if all, _ := h.f.InError(); len(all) != 1 || all[0].Node != "liar" || all[0].Errors[0].Path != "/detail/type" {
		t.Errorf("in error are %v", all)
	}
	if h.f.nodes["liar"].Info != nil || troubles() != 1 {
		t.Errorf("what the liar says is believed: %+v; it was told %d times", h.f.nodes["liar"].Info, troubles())
	}
	h.replays()
	enroll("liar", "t5", "")
	h.info("liar", "b", 2)
	if all, _ := h.f.InError(); len(all) != 0 || !issued("liar") {
		t.Error(all, "enrolled anew for any type, it gets nothing")
	}
}
