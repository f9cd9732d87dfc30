package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/broker/server"
	controller "tandem.internal/controller/app"
	node "tandem.internal/nodeagent/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// proves waits until a node proves what it says.
func (r *Rig) proves(name string) {
	r.t.Helper()
	r.Until(name+" proves what it says", func() string {
		if id := r.View(name).Identity; id == nil || id.Proves.IsZero() {
			return "not yet"
		}
		return ""
	})
}

// says has the broker say something in a node's name.
func says(t *testing.T, b *server.Server, topic string, payload []byte) {
	t.Helper()
	if err := b.Publish(topic, payload, true); err != nil {
		t.Fatal(err)
	}
}

// proofOf has the proof of a message, or fails.
func proofOf(payload []byte) bool {
	_, p := wire.SplitProof(payload)
	return p != nil
}

// TestLyingBroker: a broker that invents, changes or repeats what a node says is not believed, and told of.
func TestLyingBroker(t *testing.T) {
	r := NewRig(t)
	b, _ := site(t, r)
	r.Joined("n1")
	stop := r.Agent("n1", at("")) // where it was told to go when it joined
	r.Online("n1", true)
	r.proves("n1")
	topics := topic.ForNode("u1", "n1")
	old := r.retained(b, topics.Live(),
		func(p []byte) bool { return proofOf(p) && strings.Contains(string(p), `"up":true`) })
	report := r.retained(b, topics.Reported(wire.KindInfo), proofOf)
	bare, _ := wire.SplitProof(report)
	boot := r.View("n1").Boot

	refused := func(what, why string) {
		t.Helper()
		r.Pass(time.Minute) // one entry in a while is journaled for each sender
		r.Until(what, func() string {
			for _, e := range r.Entries("trouble") {
				if strings.Contains(string(e.Data), why) {
					return ""
				}
			}
			return "no entry says: " + why
		})
		if got := r.View("n1"); !got.Online || got.Boot != boot {
			t.Errorf("%s: online %v, boot %s", what, got.Online, got.Boot)
		}
	}
	forged := strings.Replace(string(bare), `"seq":`, `"seq":99`, 1)
	says(t, b, topics.Reported(wire.KindInfo), []byte(forged))
	refused("an invented report", `"unsigned"`)
	r.Pass(time.Minute)
	says(t, b, topics.Reported(wire.KindInfo), []byte(strings.Replace(string(report), `"seq":`, `"seq":99`, 1)))
	refused("a changed report", `"bad-signature"`)
	for _, e := range r.Entries("report") {
		if strings.Contains(string(e.Data), `"seq":99`) {
			t.Errorf("a forged report counts: %s", e.Data)
		}
	}

	// What an earlier run of the agent said does not count again.
	stop()
	r.Online("n1", false)
	r.Agent("n1", at(""))
	r.Online("n1", true)
	boot = r.View("n1").Boot
	says(t, b, topics.Live(), old)
	lives := len(r.Entries("live"))
	says(t, b, topics.Live(), old)
	says(t, b, topics.Reported(wire.KindInfo), report)
	r.Pass(time.Minute)
	says(t, b, topics.Event(),
		[]byte(`{"v":1,"node":"n1","boot":"b","seq":1000,"at":"2026-11-20T10:00:00Z","type":"x"}`))
	refused("an invented event, after both", topics.Event())
	if got := r.View("n1"); got.Boot != boot || len(r.Entries("live")) != lives {
		t.Errorf("a live message of boot %s counts again", got.Boot)
	}
}

// at has an agent go to a broker, "" for where it was told when it joined.
func at(broker string) func(*node.Config) { return func(c *node.Config) { c.Broker = broker } }

// TestReportKeyIsLostOrRenewed: a node without its report key asks for it, and is believed all the time; with each
// certificate comes another key.
func TestReportKeyIsLostOrRenewed(t *testing.T) {
	r := NewRig(t)
	r.Joined("n1")
	stop := r.Agent("n1")
	r.Online("n1", true)
	r.proves("n1")
	stop()
	file := filepath.Join(r.Dir, "n1", node.IdentityDir, "report-key.json")
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, damaged := range []string{"", "{", string(first[:len(first)/2])} {
		if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		stop = r.Agent("n1")
		r.Online("n1", true)
		stop()
		r.Online("n1", false)
		if again, err := os.ReadFile(file); err != nil || string(again) != string(first) {
			t.Errorf("%s, %v", again, err)
		}
	}
	r.Pass(70 * 24 * time.Hour)
	stop = r.Agent("n1")
	r.Online("n1", true)
	r.Until("another key", func() string {
		if again, err := os.ReadFile(file); err != nil || string(again) == string(first) {
			return "not yet"
		}
		return ""
	})
	stop()
	r.Online("n1", false)
	r.Stop()
	r.Start(nil)
	if !r.View("n1").Identity.Proves.Before(r.Now()) {
		t.Error("the controller has forgotten that the node proves what it says")
	}
	r.Agent("n1")
	r.Online("n1", true)

	// A join begins anew: who joins may be another machine, with an older agent.
	if _, err := r.App.Unit().Revoke(controller.As(t.Context(), "ann"), controller.RevokeIn{
		NodeIn: controller.NodeIn{Node: "n1"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.Join("n1-again", r.Enroll("n1")); err != nil {
		t.Fatal(err)
	}
	if id := r.View("n1").Identity; !id.Proves.IsZero() {
		t.Errorf("%+v", id)
	}
}

// TestNewEpoch: an operator can have the epoch raised, for one start.
func TestNewEpoch(t *testing.T) {
	r := NewRig(t)
	epoch := func() uint64 {
		s, err := r.App.Unit().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Epoch
	}
	before := epoch()
	r.Stop()
	r.Start(nil)
	if now := epoch(); now != before {
		t.Errorf("the epoch is %d after %d", now, before)
	}
	r.Stop()
	r.Start(func(c *controller.Config) { c.NewEpoch = true })
	if now := epoch(); now <= before {
		t.Errorf("the epoch is %d after %d", now, before)
	}
}
