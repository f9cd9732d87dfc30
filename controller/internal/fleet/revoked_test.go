package fleet

import (
	"slices"
	"testing"
	"time"

	"tandem.internal/controller/internal/enrol"
	"tandem.internal/shared/wire"
)

// A revoked node is not waited for, and its absence and its errors are no trouble; when it has joined anew, they are.
func TestRevokedDoesNotCount(t *testing.T) {
	w := newWorld(t)
	now := origin
	step := func(ev Event) []Effect {
		now = now.Add(time.Second)
		_, effects := w.step(now, ev)
		return effects
	}
	joins := func(token string) {
		step(Enrolment{Event: enrol.Enrol{Subject: "node/n2", Hash: token}, Who: "ann"})
		step(Enrolment{Event: enrol.Join{Subject: "node/n2", Hash: token, Key: "key-" + token, Serial: token,
			Expires: now.Add(time.Hour), CA: "ca", From: "10.0.0.9"}})
	}
	for _, node := range []string{"n1", "n2"} {
		step(w.heard(node, &wire.Live{V: wire.Version, Node: node, Boot: "b1", Session: 1, Up: true}))
		step(w.infoWith(node, "b1", 1, "mainType", ""))
	}
	joins("t1")
	sub := w.submit("s1", "1.0.0")
	sub.Sub.Offline = true
	step(sub)
	step(w.infoWith("n2", "b1", 2, "mainType", wire.CodeStorage))
	step(w.heard("n2", &wire.Live{V: wire.Version, Node: "n2", Boot: "b1", Session: 1}))

	expect := func(when string, nodes int, trouble ...string) {
		t.Helper()
		p, got := w.live.Progress(wire.KindConfig), w.live.Trouble()
		if p.Nodes != nodes || len(p.Missing) != nodes || !slices.Equal(got, trouble) {
			t.Errorf("%s: %+v, trouble %q", when, p, got)
		}
	}
	inError, offline := "node n2 is in error: storage: for a reason", "1 of 2 nodes is offline"
	expect("joined", 2, inError, offline)
	step(Enrolment{Event: enrol.Revoke{Subject: "node/n2", Known: true}, Who: "ann"})
	expect("revoked", 1)
	w.check()
	for _, e := range step(w.submit("s2", "2.0.0")) {
		if a, ok := e.(Ask); ok && slices.Contains(a.Nodes, "n2") {
			t.Errorf("a revoked node is asked: %+v", a)
		}
	}
	if p := w.live.pending; p == nil || len(p.offline) > 0 {
		t.Errorf("a revoked node is to judge when it is back: %+v", p)
	}
	joins("t2")
	expect("joined anew", 2, inError, offline)
}
