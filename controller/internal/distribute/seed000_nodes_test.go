package distribute_test

import (
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/wire"
)

// Node Info Change: who is given a document, when, and who is not.
func TestSeed000NodeInfoChange(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.node("node-1", "mainType")
		one.info()
		one.reboot()
		if got := one.received(); got != "" || u.entries("issued") != 0 {
			t.Errorf("not installed, and node-1 got %q", got)
		}
		u.install(seedDoc("1.0.0"))
		if got := one.received(); got != "1.0.0" {
			t.Errorf("node-1 got %q", got)
		}

		issued := u.entries("issued")
		one.reboot() // runs what it should
		one.info()
		u.hub.Cut("node/node-1")
		if got := one.received(); got != "" || u.entries("issued") != issued {
			t.Errorf("the versions are the same, and node-1 got %q", got)
		}

		two := u.node("node-2", "edgeType") // registers
		if got := two.received(); got != "1.0.0" || u.entries("issued") != issued+1 {
			t.Errorf("node-2 registered and got %q", got)
		}

		two.stop() // offline while the configuration changes, twice
		u.install(seedDoc("1.1.0"))
		u.install(seedDoc("1.2.0"))
		two.start()
		if got := two.received(); got != "1.2.0" {
			t.Errorf("node-2 was away and got %q", got)
		}
		one.received()

		two.kind = "mainType" // its information changes
		two.info()
		if got, body := two.received(), string(two.body()); got != "1.2.0" ||
			body != seedBody(t, "1.2.0", "node-2", "mainType") {
			t.Errorf("node-2 has another type and got %q, %s", got, body)
		}
		if got := one.received(); got != "" {
			t.Errorf("node-2's change gave node-1 %q", got)
		}
	})
}

// Node Info Change: a document that was lost on its way is found missing and sent again.
func TestSeed000LostDocument(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		n := u.node("node-1", "mainType")
		u.hub.SetHook(func(_, to string, m link.Message) linktest.Verdict {
			if to == "node/node-1" && m.Topic == n.topics.Desired(wire.KindConfig) {
				return linktest.Drop
			}
			return linktest.Deliver
		})
		u.install(seedDoc("1.0.0"))
		u.hub.SetHook(nil)
		if got := n.received(); got != "" {
			t.Fatalf("the node got %q at once", got)
		}
		time.Sleep(time.Minute) // virtual
		if got := n.received(); got != "1.0.0" {
			t.Errorf("after a minute the node got %q", got)
		}
	})
}

// Node Info Change, the error state: a node that comes back in error gets its document again, once a
// boot, until it runs it.
func TestSeed000NodeInError(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		one := u.node("node-1", "mainType")
		one.refuse = refuses("1.0.0")
		if r := u.submission(view.Submission{Kind: "config", Document: []byte(seedDoc("1.0.0")),
			Offline: true}); r.State != "accepted" {
			t.Fatalf("%+v", r)
		}
		if got := one.received(); got != "1.0.0" {
			t.Fatalf("node-1 got %q", got)
		}
		back := func() string { // a boot, and more to hear of the node in it
			one.reboot()
			one.info()
			u.hub.Cut("node/node-1")
			synctest.Wait()
			one.info()
			return one.received()
		}
		if got := back(); got != "1.0.0" {
			t.Errorf("node-1 came back in error and got %q", got)
		}
		one.reboot()
		if got := one.received(); got != "1.0.0" {
			t.Errorf("the node's first report in a boot brought %q", got)
		}
		one.refuse = nil
		if got := back(); got != "1.0.0" {
			t.Errorf("node-1 can take it after another boot and got %q", got)
		}
		if p := u.status().Progress; p.Installed != 1 || p.Failed != 0 {
			t.Errorf("%+v", p)
		}
		if got := back(); got != "" {
			t.Errorf("node-1 runs it and got %q", got)
		}
	})
}

// Providing: one provider serves any node's resolved configuration; its bytes are those distributed.
func TestSeed000Provider(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		if _, err := u.core.Resolved(t.Context(), op.ResolveIn{
			Node: "node-1", Type: "mainType",
		}); err == nil || wire.AsError(err).Code != wire.CodeNotFound {
			t.Errorf("without a configuration: %v", err)
		}
		nodes := []*seedNode{u.node("node-1", "mainType"), u.node("node-2", "mainType"), u.node("node-3", "otherType")}
		u.install(seedDoc("1.0.0"))
		for i, rule := range []string{"node", "type", "default"} {
			n := nodes[i]
			r, err := u.core.Resolved(t.Context(), op.ResolveIn{Node: n.name}) // the type is the one that the node told
			if err != nil || r.Rule != rule || r.Type != n.kind || string(r.Document) != string(n.body()) {
				t.Errorf("%s: %+v %v", n.name, r, err)
			}
		}
		r, err := u.core.Resolved(t.Context(), op.ResolveIn{Node: "never-heard-of"})
		want := `{"formatVersion":"7","version":"1.0.0","node":{"codename":"never-heard-of"},"priority":0}`
		if err != nil || string(r.Document) != want {
			t.Errorf("%s %v", r.Document, err)
		}
		u.write("{")
		if _, err := u.core.Resolved(t.Context(), op.ResolveIn{Node: "node-1"}); err != nil {
			t.Errorf("the damaged copy took the provider along: %v", err)
		}
	})
}

// Status Reporting: version, state, error; to the operator and to the cloud side.
func TestSeed000Status(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		want := func(s string) {
			t.Helper()
			u.wantState(s)
			if got := u.cloud(); got != s {
				t.Errorf("the cloud side sees %q, want %q", got, s)
			}
		}
		want("absent")
		u.install(seedDoc("1.0.0"))
		want("installed 1.0.0")
		u.submit(seedDoc("0.5.0")) // refused: the state stays, and what was attempted stands beside it
		want("installed 1.0.0")
		if a := u.status().Attempted; a == nil || a.Version != "0.5.0" || a.Error.Code != wire.CodeWrongState {
			t.Errorf("attempted: %+v", a)
		}
		u.write("}")
		u.restart()
		want("failed 1.0.0 malformed")
		if _, err := u.core.Restore(as(t.Context(), "tester"), wire.KindConfig); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want("installed 1.0.0")
		u.install(seedDoc("1.0.1"))
		want("installed 1.0.1")
	})
}

// The status is on the broker also after the broker has lost everything.
func TestSeed000StatusAfterWipe(t *testing.T) {
	inSeedUnit(t, func(t *testing.T, u *seedUnit) {
		u.start()
		u.install(seedDoc("1.0.0"))
		u.hub.Wipe()
		synctest.Wait()
		if got := u.cloud(); got != "installed 1.0.0" {
			t.Errorf("the cloud side sees %q", got)
		}
	})
}
