package attack

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// keepTime gives the controller a machine whose clock may be wrong, as only the kernel knows.
func (u *unit) keepTime(d *controller.Deps) {
	d.Now = func() time.Time { return u.Now().Add(time.Duration(u.ahead.Load())) }
	if u.unguarded {
		d.Tune = func(c *controller.Tuning) { c.Beacon = 200 * time.Millisecond }
		return
	}
	if u.booted.IsZero() {
		u.booted = u.Now().AddDate(-1, 0, 0)
	}
	d.Machine.Boot, d.Machine.Uptime = "boot-1", func() time.Duration { return u.Now().Sub(u.booted) }
}

// wrong is by how much the clock is wrong: more than the life of the certificate that the broker shows.
var wrong = map[kind]time.Duration{embedded: 40 * 24 * time.Hour, mosquitto: 100 * 24 * time.Hour,
	nats: 100 * 24 * time.Hour}

// TestWrongClock: whatever gets a beacon of a wrong time to the nodes, they come back when their sessions end.
func TestWrongClock(t *testing.T) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			u := newUnit(t, k)
			u.ahead.Store(int64(2 * time.Minute)) // the nodes' own clocks bear nothing out
			t.Run("the controller's clock jumps", func(t *testing.T) { u.jumps(t) })
			if k == embedded {
				return // who is the broker there is the controller
			}
			t.Run("the broker plays a beacon of a clock that was wrong", func(t *testing.T) {
				u.plays(t, u.signed(t, u.Now().Add(wrong[k])))
			})
		})
	}
}

// TestWrongClockOfAnOlderController: the same by a controller that does not look for jumps.
func TestWrongClockOfAnOlderController(t *testing.T) {
	u := newUnit(t, embedded, func(u *unit) { u.unguarded = true })
	u.ahead.Store(int64(2 * time.Minute))
	right := u.ahead.Swap(int64(wrong[embedded]))
	if !eventually(u.misled) { // without a new session, for which the certificate would be renewed
		t.Fatal("the wrong time was not told: this test shows nothing")
	}
	u.ahead.Store(right)
	u.sessionsEnd(t)
	u.back(t)
}

// jumps has the controller's clock be wrong for two seconds, in which nodes would be greeted.
func (u *unit) jumps(t *testing.T) {
	right := u.ahead.Swap(int64(wrong[u.kind]))
	u.greeted(t)
	if s, err := u.App.Unit().Status(t.Context()); err != nil || s.Clock == nil {
		t.Errorf("the status does not tell of it: %+v %v", s, err)
	}
	u.ahead.Store(right)
	u.sessionsEnd(t)
	u.back(t)
}

// plays has the broker play a beacon to all nodes, now and retained, and end their sessions.
func (u *unit) plays(t *testing.T, beacon []byte) {
	for _, retained := range []bool{false, true} {
		if err := u.hand.Publish(topic.ForController(unitName), string(beacon), retained); err != nil {
			t.Fatal(err)
		}
	}
	u.sessionsEnd(t)
	u.back(t)
}

// greeted has a node come, and sees that no beacon of a wrong time greets it.
func (u *unit) greeted(t *testing.T) {
	t.Helper()
	u.stop["n3"]()
	u.startAgent("n3")
	u.Online("n3", true)
	time.Sleep(2 * time.Second) // the whole time of the attack: a greeting comes a second after a node
	if u.misled() {
		t.Error("the controller has told a time that is wrong")
	}
}

// misled reports whether a beacon of a wrong time was heard.
func (u *unit) misled() bool {
	for _, m := range u.witnesses[0].Heard() {
		b, err := wire.Decode[wire.Beacon]([]byte(m.Payload))
		if m.Topic == topic.ForController(unitName) && err == nil && b.Time.Sub(u.Now()) > 24*time.Hour {
			return true
		}
	}
	return false
}

// sessionsEnd ends the nodes' sessions, one after the other: whoever has their certificate takes them over. Each has to
// have another one soon.
func (u *unit) sessionsEnd(t *testing.T) {
	t.Helper()
	for _, name := range bystanders {
		before := len(u.witnesses[0].Heard())
		id := "node/" + name
		c, err := rawmqtt.Dial(u.at, u.as(id), rawmqtt.Hello{ClientID: id, User: id})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.Leave()
		if !eventually(func() bool {
			for _, m := range u.witnesses[0].Heard()[before:] {
				if m.Topic == of(name).Live() && strings.Contains(m.Payload, `"up":true`) {
					return true
				}
			}
			return false
		}) {
			t.Fatalf("%s is locked out", name)
		}
	}
}

// back sees that all nodes do what they are told.
func (u *unit) back(t *testing.T) {
	t.Helper()
	u.Until("a submission is taken", func() string {
		if s, err := u.App.Unit().Status(t.Context()); err != nil || s.Clock != nil {
			return fmt.Sprint(s.Clock, err)
		}
		return ""
	})
	v := u.submit(t)
	u.installed(t, v)
	for _, name := range bystanders {
		u.Online(name, true)
	}
}

// signed is a beacon that the unit's key has signed, of any time.
func (u *unit) signed(t *testing.T, at time.Time) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(u.Dir, "controller", "unit-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	s, err := u.App.Unit().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signer := seal.NewSigner(key.(ed25519.PrivateKey))
	b := wire.Beacon{V: wire.Version, Unit: unitName, Epoch: s.Epoch, Up: true, Time: at.UTC(),
		Keys: []wire.Key{signer.Key()}}
	b.Sig = signer.SignBeacon(&b, wire.Stamp{})
	return wire.Encode(&b)
}
