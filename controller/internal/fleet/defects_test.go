// What went wrong once: each test tells its story and holds the fleet to the mend.

package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

type rig struct {
	t    *testing.T
	f    *Fleet
	now  time.Time
	out  Out
	recs []record.Record
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, f: New(Options{Unit: "u1", Epoch: 1000}), now: time.Unix(1_800_000_000, 0)}
}
func (h *rig) step(ev Event) []Effect {
	h.out.Reset()
	h.f.Step(h.now, ev, &h.out)
	for _, r := range h.out.Records {
		r.Data = append([]byte(nil), r.Data...)
		h.recs = append(h.recs, r)
	}
	return append([]Effect(nil), h.out.Effects...)
}
func doc(v string) []byte {
	return []byte(fmt.Sprintf(`{"formatVersion":"7","version":%q,"nodes":[{"nodeGroupSubject":{"codename":"m"},"priority":2}]}`, v))
}
func (h *rig) submit(v string, mode wire.Mode, within time.Duration) []Effect {
	d := doc(v)
	uc, p := unitconfig.Parse(d)
	if p != nil {
		h.t.Fatal(p)
	}
	return h.step(Submit{Ticket: 1, Sub: view.Submission{Document: d, Mode: mode, ConfirmWithin: within, Offline: true}, Hash: wire.Hash(d), Parsed: uc, Resolver: unitconfig.NewResolver(uc)})
}
func (h *rig) live(n, boot string, session uint64, up bool, events uint64, seqs map[wire.Kind]uint64) []Effect {
	l := &wire.Live{V: 1, Node: n, Boot: boot, Session: session, Up: up, Events: events, Seqs: seqs}
	return h.step(Heard{Node: n, Raw: wire.Encode(l), Live: l})
}
func (h *rig) info(n, boot string, seq uint64) []Effect {
	in := &wire.NodeInfo{Type: "m", OS: "linux", Arch: "x", AgentVersion: "1"}
	r := &wire.Reported{V: 1, Node: n, Kind: wire.KindInfo, Boot: boot, Seq: seq, Detail: wire.Encode(in)}
	return h.step(Heard{Node: n, Raw: wire.Encode(r), Reported: r, Info: in})
}
func (h *rig) report(n, boot string, seq uint64, st wire.State, d *Doc, running *Doc) []Effect {
	r := &wire.Reported{V: 1, Node: n, Kind: wire.KindConfig, Boot: boot, Seq: seq}
	if d != nil {
		r.Last = &wire.Attempt{Epoch: d.Epoch, Rev: d.Rev, Version: d.Version, Hash: d.Hash, State: st, Attempt: 1, At: h.now}
	}
	if running != nil {
		x := running.DocRef
		r.Running = &x
	}
	return h.step(Heard{Node: n, Raw: wire.Encode(r), Reported: r})
}
func (h *rig) event(n string, seq, lost uint64) []Effect {
	e := &wire.Event{V: 1, Node: n, Boot: "b", Seq: seq, Lost: lost, At: h.now, Type: "alert"}
	return h.step(Heard{Node: n, Raw: wire.Encode(e), Event: e})
}
func (h *rig) want(n string) *Doc { return h.f.nodes[n].Kinds[wire.KindConfig].Desired }
func show(es []Effect) string {
	var b strings.Builder
	for _, e := range es {
		fmt.Fprintf(&b, "%T", e)
		if a, ok := e.(Ask); ok {
			fmt.Fprintf(&b, "(%s)", a.Method)
		}
		if p, ok := e.(Publish); ok && p.Doc != nil {
			fmt.Fprintf(&b, "(%v %s)", p.Doc.Stamp(), p.Doc.Mode)
		}
		if p, ok := e.(Answer); ok {
			fmt.Fprintf(&b, "(%s %v)", p.Result.State, p.Err)
		}
		b.WriteString(" ")
	}
	return b.String()
}

// 1 events out of order
func TestEvents(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	for i := uint64(1); i <= 4; i++ {
		h.event("n", i, 0)
	}
	t.Log("6:", show(h.event("n", 6, 0)))
	t.Log("8:", show(h.event("n", 8, 0)))
	t.Log("5:", show(h.event("n", 5, 0)))
	t.Log("7:", show(h.event("n", 7, 0)))
	// the node's replay after 4
	for i := uint64(5); i <= 8; i++ {
		h.event("n", i, 0)
	}
	var got []uint64
	for _, r := range h.recs {
		if r.Type == record.Event {
			e, _ := wire.Decode[wire.Event](r.Data)
			got = append(got, e.Seq)
		}
	}
	t.Log("journaled", got)
	if len(got) != 8 {
		t.Error("events lost for ever")
	}
}

func TestEventsForget(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	for i := uint64(1); i <= 100; i++ {
		h.event("n", i, 0)
	}
	for _, i := range []uint64{103, 101, 102} {
		h.event("n", i, 0)
	}
	for i := uint64(101); i <= 103; i++ {
		h.event("n", i, 0)
	}
	var got int
	for _, r := range h.recs {
		if r.Type == record.Event {
			got++
		}
	}
	if got != 103 {
		t.Error("events lost for ever: ", got, " of 103")
	}
}

func TestEventsNewLife(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	for i := uint64(1); i <= 50; i++ {
		h.event("n", i, 0)
	}
	h.now = h.now.Add(time.Hour)
	h.live("n", "c", 1, true, 2, nil) // reinstalled: state gone
	for i := uint64(1); i <= 3; i++ {
		t.Log(show(h.event("n", i, 0)))
	}
	var got int
	for _, r := range h.recs {
		if r.Type == record.Event {
			got++
		}
	}
	if got != 53 {
		t.Error("events of the new life dropped: ", got, " of 53")
	}
}

// 2 missed confirmation
func TestConfirmMissed(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.info("n", "b", 1)
	h.submit("1.0.0", wire.ModeApply, 0)
	v1 := h.want("n")
	h.report("n", "b", 1, wire.StateInstalled, v1, v1)
	h.submit("2.0.0", wire.ModeTry, 2*time.Minute)
	v2 := h.want("n")
	h.report("n", "b", 2, wire.StateTrying, v2, v1)
	h.live("n", "b", 1, false, 0, nil) // link cut
	h.now = h.now.Add(time.Minute)
	t.Log("confirm:", show(h.step(Confirm{Ticket: 2})))
	h.now = h.now.Add(3 * time.Minute) // node rolls back by itself, reconnects
	t.Log("live:", show(h.live("n", "b", 2, true, 0, map[wire.Kind]uint64{"info": 1, "config": 3})))
	t.Log("info:", show(h.info("n", "b", 1)))
	t.Log("report:", show(h.report("n", "b", 3, wire.StateRolledBack, v2, v1)))
	for range 200 {
		h.now = h.now.Add(time.Minute)
		if e := h.step(Tick{}); len(e) > 0 {
			t.Log(show(e))
		}
		h.live("n", "b", 2, true, 0, map[wire.Kind]uint64{"info": 1, "config": 3})
	}
	t.Log("config:", h.f.config.Version, "node desired", h.want("n").Version, h.want("n").Mode, "running", h.f.nodes["n"].Kinds["config"].Running.Version)
	if h.want("n") == v2 {
		t.Error("never issued again: node stays on 1.0.0 with unit 2.0.0")
	}
}

// 3 error at boot change
func TestErrorBoot(t *testing.T) {
	h := newRig(t)
	h.submit("1.0.0", wire.ModeApply, 0)
	h.live("n", "b", 1, true, 0, nil)
	h.info("n", "b", 1)
	v1 := h.want("n")
	h.report("n", "b", 1, wire.StateFailed, v1, nil)
	h.live("n", "b", 1, false, 0, nil)
	t.Log(show(h.live("n", "c", 1, true, 0, nil)), show(h.info("n", "c", 1)), show(h.report("n", "c", 1, wire.StateFailed, v1, nil)))
	if h.want("n") == v1 {
		t.Error("not pushed again after reboot with an error")
	}
}

// 4 confirm late
func TestConfirmLate(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.info("n", "b", 1)
	h.submit("2.0.0", wire.ModeTry, 2*time.Minute)
	h.now = h.now.Add(5 * time.Hour)
	e := show(h.step(Confirm{Ticket: 2}))
	t.Log(e)
	if strings.Contains(e, "accepted") {
		t.Error("confirmed hours after the deadline")
	}
}

// 5 epoch: restored journal with raised epoch
func TestEpoch(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.info("n", "b", 1)
	h.submit("1.0.0", wire.ModeApply, 0)
	cp := h.f.Checkpoint()
	h.submit("2.0.0", wire.ModeApply, 0)
	v2 := h.want("n")
	for _, epoch := range []uint64{1001, 1000} {
		f, err := Restored(Options{Unit: "u1", Epoch: epoch}, cp)
		if err != nil {
			t.Fatal(err)
		}
		d := doc("1.0.0")
		uc, _ := unitconfig.Parse(d)
		f.SetResolvers(unitconfig.NewResolver(uc), nil)
		h.f = f
		t.Log("opened", show(h.step(Opened{})))
		for i := range 10 {
			h.live(fmt.Sprint("x", i), "b", 1, true, 0, nil)
		} // others come first
		all := show(h.live("n", "c", 1, true, 0, nil)) + show(h.info("n", "c", 1)) + show(h.report("n", "c", 1, wire.StateInstalled, v2, v2))
		for range 20 {
			h.now = h.now.Add(time.Minute)
			all += show(h.step(Tick{}))
			all += show(h.report("n", "c", 1, wire.StateInstalled, v2, v2))
		}
		t.Log(epoch, all[:min(len(all), 300)], "desired", h.want("n").Stamp(), "node has", v2.Stamp())
		if h.want("n").Stamp().Compare(v2.Stamp()) <= 0 {
			t.Errorf("epoch %d: node refuses as stale for ever", epoch)
		}
	}
}

// 6 session skip will
func TestSession(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 2, true, 0, nil)
	h.live("n", "b", 3, false, 0, nil)
	if h.f.nodes["n"].Up {
		t.Error("a will of a later session of the same boot is ignored: online for ever")
	}
}

// 7 kinds grow
func TestKinds(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	for i := range 1000 {
		m := map[wire.Kind]uint64{}
		for j := range 64 {
			m[wire.Kind(fmt.Sprintf("k%d-%d", i, j))] = 1
		}
		h.live("n", "b", 1, true, 0, m)
	}
	if n := len(h.f.nodes["n"].Kinds); n > 100 {
		t.Error("kinds", n, "records", len(h.recs))
	}
	g := New(Options{Unit: "u1", Epoch: 1000})
	for i := range h.recs {
		g.Replay(&h.recs[i])
	}
	if string(g.Checkpoint()) != string(h.f.Checkpoint()) {
		t.Error("replay differs from live")
	}
}

// 8 event from unknown with gap; TZ
func TestReplay(t *testing.T) {
	h := newRig(t)
	h.event("n", 5, 0)
	h.now = h.now.Add(time.Second)
	h.live("n", "b", 1, true, 5, nil)
	g := New(Options{Unit: "u1", Epoch: 1000})
	for i := range h.recs {
		h.recs[i].At = h.recs[i].At.UTC()
		g.Replay(&h.recs[i])
	}
	if a, b := string(g.Checkpoint()), string(h.f.Checkpoint()); a != b {
		t.Errorf("replay differs from live\n%s\n%s", a, b)
	}
}
func TestZone(t *testing.T) {
	h := newRig(t)
	h.now = h.now.In(time.FixedZone("x", 7200))
	h.live("n", "b", 1, true, 5, nil)
	g := New(Options{Unit: "u1", Epoch: 1000})
	for i := range h.recs {
		h.recs[i].At = h.recs[i].At.UTC()
		g.Replay(&h.recs[i])
	}
	if a, b := string(g.Checkpoint()), string(h.f.Checkpoint()); a != b {
		t.Errorf("replay differs from live\n%s\n%s", a, b)
	}
}

// 9 request id same instant
func TestRequestID(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.info("n", "b", 1)
	id := func(v string) string {
		d := doc(v)
		uc, _ := unitconfig.Parse(d)
		for _, e := range h.step(Submit{Ticket: 1, Sub: view.Submission{Document: d, DryRun: true}, Hash: wire.Hash(d), Parsed: uc, Resolver: unitconfig.NewResolver(uc)}) {
			if a, ok := e.(Ask); ok {
				r := &wire.Reply{V: 1, Node: "n", ID: a.ID + "n", Result: []byte(`{"ok":true}`)}
				h.step(Heard{Node: "n", Reply: r})
				return a.ID
			}
		}
		return ""
	}
	a, b := id("1.0.0"), id("2.0.0")
	if a == b {
		t.Error("same request ID", a)
	}
}

// 10 patient due not postponed
func TestPatient(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.info("n", "b", 1)
	h.submit("1.0.0", wire.ModeApply, 0)
	h.now = h.now.Add(100 * time.Millisecond)
	h.report("n", "b", 1, wire.StateApplying, h.want("n"), nil)
	h.now = h.now.Add(5 * time.Second)
	if e := h.step(Tick{}); len(e) > 0 {
		t.Error("asked after 5 s though it said applying: ", show(e))
	}
}

// 11 version rule at accept time
func TestRuleAtAccept(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.info("n", "b", 1)
	h.submit("3.0.0", wire.ModeApply, 0)
	h.step(Copy{Hash: "sha256:x"})
	t.Log(h.f.config.State)
	d := doc("1.0.0")
	uc, _ := unitconfig.Parse(d)
	h.step(Submit{Ticket: 1, Sub: view.Submission{Document: d}, Hash: wire.Hash(d), Parsed: uc, Resolver: unitconfig.NewResolver(uc)})
	t.Log(show(h.step(Restore{Ticket: 2})))
	h.now = h.now.Add(6 * time.Second)
	t.Log(show(h.step(Tick{})))
	if h.f.config.Version == "1.0.0" {
		t.Error("went down from 3.0.0 to 1.0.0 although installed at the time of acceptance")
	}
}

// 12 failed + trial end withdraws
func TestNoInfoNeverAsked(t *testing.T) {
	h := newRig(t)
	h.submit("1.0.0", wire.ModeApply, 0)
	h.live("n", "b", 1, true, 0, nil) // no seqs; info report lost
	asked := false
	for range 100 {
		h.now = h.now.Add(time.Minute)
		asked = asked || len(h.step(Tick{})) > 0
	}
	if !asked {
		t.Error("a node whose info never came is never asked for it")
	}
}

// liveSeq across boots
func TestStaleLiveSeq(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, map[wire.Kind]uint64{"info": 1, "health": 3})
	h.info("n", "b", 1)
	r := &wire.Reported{V: 1, Node: "n", Kind: "health", Boot: "b", Seq: 3}
	h.step(Heard{Node: "n", Raw: wire.Encode(r), Reported: r})
	h.live("n", "c", 1, true, 0, map[wire.Kind]uint64{"info": 1})
	h.info("n", "c", 1)
	asks := 0
	for range 600 {
		h.now = h.now.Add(time.Minute)
		asks += len(h.step(Tick{}))
	}
	if asks > 0 {
		t.Error("asked for ever for a kind the new boot doesn't report:", asks)
	}
}

func TestGhost(t *testing.T) {
	h := newRig(t)
	h.live("n", "b", 1, true, 0, nil)
	h.live("n", "b", 1, false, 0, nil) // goodbye
	h.live("n", "b", 1, true, 0, nil)  // the beat before it, handled later
	if h.f.nodes["n"].Up {
		t.Error("online for ever after goodbye")
	}
}
