package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/nodeagent/internal/update"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/publisher/publishertest"
	"tandem.internal/shared/wire"
)

var maker = publishertest.New(1)

// stageSigned stages a version with a signature, as somebody does who knows no publishers.
func (o osRig) stageSigned(version, signature string) {
	o.Helper()
	_, err := o.parts().StageFrom(o.Context(), strings.NewReader("the new one"),
		slot.Source{Version: version, Signature: signature}, time.Now(),
		func(r update.Record, order update.Order) (update.Record, error) { return byHand(order)(r) })
	if err != nil {
		o.Fatal(err)
	}
	o.settle(6 * time.Second)
}

// What no publisher has signed as this version is not installed, and what was installed before the node had keys is
// not tried. Health says why.
func TestUnsignedComponentIsNotTried(t *testing.T) {
	image := []byte("the new one")
	for _, c := range []struct {
		name, signature, want string
	}{
		{"unsigned", "", "unsigned: it is not signed"},
		{"somebody else's", publishertest.New(2).SignAs(image, "os 2"), "unknown-key: it is signed with the key 02"},
		{"of another content", maker.SignAs([]byte("other"), "os 2"), "bad-signature: its signature does not count"},
		{"of an older version", maker.SignAs(image, "os 1"), "bad-signature: its signature does not count"},
	} {
		osBubble(t, func(o osRig) {
			o.cfg.PublisherKeys = []string{maker.Public()}
			o.start()
			o.settle(time.Second)
			o.stageSigned("2", c.signature)
			if got := o.component(); !strings.HasPrefix(got, "active 1 given up: version 2: ") ||
				!strings.Contains(got, c.want) || strings.Contains(o.has("log"), "install") {
				t.Errorf("%s: %s\n%s", c.name, got, o.has("log"))
			}
			o.cfg.PublisherKeys = nil // before the node had keys
			o.restart()
			o.stageSigned("2", c.signature)
			o.wantComponent("updating 1 2 staged")
			o.cfg.PublisherKeys = []string{maker.Public()}
			o.restart()
			o.live(2 * time.Minute)
			code, _, _ := strings.Cut(c.want, ":")
			if c.name != "of another content" {
				o.wantRefused(o.try("2"), wire.Code(code))
				o.wantComponent("updating 1 2 staged")
			} else { // which shows when the file is read
				o.wantRefused(o.try("2"), "")
				got := o.component()
				if !strings.Contains(got, "given up: version 2: ") || !strings.Contains(got, c.want) {
					t.Errorf("%s: %s", c.name, got)
				}
			}
			if strings.Contains(o.has("log"), "activate") {
				t.Errorf("%s: activated:\n%s", c.name, o.has("log"))
			}
		})
	}
}

// What is signed is tried and kept; its signature brings it into force until it expires, by the node's clock, and no
// longer. What is in force stays so.
func TestSignedComponentIsKept(t *testing.T) {
	image := []byte("the new one")
	osBubble(t, func(o osRig) {
		o.cfg.PublisherKeys = []string{maker.Public()}
		o.start()
		o.settle(time.Second)
		until := time.Now().Add(time.Hour)
		o.stageSigned("2", maker.SignAs(image, "os 2 "+publisher.Expiry(until)))
		o.live(2 * time.Minute)
		o.wantRefused(o.try("2"), "")
		o.live(3 * time.Minute)
		o.wantComponent("active 2")
		o.stageSigned("3", maker.SignAs(image, "os 3 "+publisher.Expiry(until)))
		o.live(2 * time.Hour)
		r := o.try("3")
		o.wantRefused(r, wire.CodeExpired)
		if !strings.Contains(r.Error.Message, "nobody has renewed it") {
			t.Errorf("%v", r.Error)
		}
		o.restart()
		o.live(time.Minute)
		o.wantComponent("updating 2 3 staged")
		// An order that waits for its installation is not carried out either, and health says why.
		o.wantRefused(o.request(wire.MethodTry, wire.Encode(&wire.TryParams{Component: "os"})), wire.CodeExpired)
		if err := o.hand(update.Order{What: update.OrderTry, By: atNode}); err != nil {
			t.Fatal(err)
		}
		o.settle(6 * time.Second)
		got := o.component()
		if !strings.HasPrefix(got, "updating 2 3 not tried: expired: its publisher's signature counted") {
			t.Errorf("%s", got)
		}
		o.wantTold("component-staged, trial-started, trial-committed, component-staged, component-refused",
			componentEvents...)
	})
}

// What is signed and below the node's --floor is refused to the controller, and given up if somebody has armed it.
func TestSlotBelowTheFloor(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.PublisherKeys, p.cfg.Floor = []string{maker.Public()}, "3.0.0"
		s := newSlotted(p)
		s.launch("factory", false)
		if _, floor, err := SharedPublishers(p.dir); err != nil || floor != "3.0.0" {
			t.Errorf("%q %v", floor, err)
		}
		got, err := s.store.StageFrom(t.Context(), strings.NewReader("two"),
			slot.Source{Signature: maker.SignAs([]byte("two"), "tandem-node 2")})
		if err != nil {
			t.Fatal(err)
		}
		p.pass(10 * time.Second)
		p.wantRefused(p.request(wire.MethodTry, wire.Encode(&wire.TryParams{Version: "2"})), wire.CodeBelowFloor)
		if err := s.store.Arm(got.Slot, 3); err != nil {
			t.Fatal(err)
		}
		p.pass(2 * time.Minute)
		st, err := s.store.Status()
		if err != nil || st.Trying != record.None || !strings.Contains(st.Last.Detail, "below-floor: ") {
			t.Errorf("%+v %v", st, err)
		}
	})
}

// A slot of the agent that nobody has signed is refused to the controller, and given up if somebody at the node has
// armed it; the commands at the node learn the keys.
func TestUnsignedSlotIsNotTried(t *testing.T) {
	healthBubble(t, func(p *patient) {
		p.cfg.PublisherKeys = []string{maker.Public()}
		s := newSlotted(p)
		s.launch("factory", false)
		keys, _, err := SharedPublishers(p.dir)
		if err != nil || publisher.JoinIDs(keys.IDs(), " ") != "0101010101010101" {
			t.Errorf("%v %v", keys, err)
		}
		try := func() *wire.Reply { return p.request(wire.MethodTry, wire.Encode(&wire.TryParams{Version: "2"})) }
		put := func(signature string) {
			t.Helper()
			_, err := s.store.StageFrom(t.Context(), strings.NewReader("two"), slot.Source{Signature: signature})
			if err != nil {
				t.Fatal(err)
			}
			p.pass(10 * time.Second)
		}
		for _, c := range []struct {
			signature string
			want      wire.Code
		}{
			{"", wire.CodeUnsigned},
			{publishertest.New(2).SignAs([]byte("two"), "tandem-node 2"), wire.CodeUnknownKey},
			{maker.SignAs([]byte("two"), "tandem-node 1"), wire.CodeBadSignature},
			{maker.SignAs([]byte("two"), "tandem-node 2 expires:1999-01-01T00:00:00Z"), wire.CodeExpired},
		} {
			put(c.signature)
			p.wantRefused(try(), c.want)
			if c.want == wire.CodeExpired {
				continue
			}
			if err := s.store.Arm(record.A, 3); err != nil {
				t.Fatal(err)
			}
			p.pass(2 * time.Minute)
			st, err := s.store.Status()
			if err != nil || st.Trying != record.None || !strings.Contains(st.Last.Detail, string(c.want)+": ") {
				t.Errorf("%s: %+v %v", c.want, st, err)
			}
		}
		// a signature of another content shows when the slot is to be armed
		put(maker.SignAs([]byte("one"), "tandem-node 2"))
		p.wantRefused(try(), "")
		p.pass(time.Second)
		if got := s.state("a"); got != wire.SlotUnused {
			t.Errorf("slot a is %s", got)
		}
		put(maker.SignAs([]byte("two"), "tandem-node 2"))
		p.wantRefused(try(), "")
		p.pass(10 * time.Second)
		if st, err := s.store.Status(); err != nil || st.Trying != record.A {
			t.Errorf("%+v %v", st, err)
		}
		p.wantTold("", health.EventTrialStarted, health.EventTrialRolledBack)
		p.stop()
		p.cfg.PublisherKeys = nil
		s.launch("a", true)
		if _, err := os.Lstat(filepath.Join(p.dir, publishersFile)); !os.IsNotExist(err) {
			t.Errorf("the keys of before are there: %v", err)
		}
	})
}

// Where signatures are demanded, no component has the name by which they call the agent.
func TestComponentIsNotCalledAsTheAgent(t *testing.T) {
	for _, keys := range [][]string{nil, {maker.Public()}} {
		osBubble(t, func(o osRig) {
			o.cfg.PublisherKeys = keys
			o.cfg.Components = map[string]string{publisher.AgentName: "/bin/true"}
			a, err := New(o.cfg, o.deps)
			if keys == nil {
				if err == nil {
					err = a.store.Close()
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
			if usage, ok := errors.AsType[*UsageError](err); !ok || usage.Setting != "component" {
				t.Errorf("%v", err)
			}
		})
	}
}
