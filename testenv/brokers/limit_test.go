package brokers

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	controller "tandem.internal/controller/app"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/rawmqtt"
)

// raw is a client that sends what a link would not.
func raw(t *testing.T, b broker, id string) *rawmqtt.Client {
	t.Helper()
	conn, err := net.Dial("tcp", b.address())
	if err != nil {
		t.Fatal(err)
	}
	c, err := rawmqtt.New(conn, rawmqtt.Hello{ClientID: id, User: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Leave)
	return c
}

// The limit of a packet is the same on every broker as it is configured for Tandem: the longest message on the longest
// topic arrives, and a packet that is larger than any of these ends its sender's session.
func TestLimitOfBrokers(t *testing.T) {
	t.Parallel()
	node := strings.Repeat("n", topic.MaxName)
	name := topic.ForNode(unit, node).Reported(wire.Kind(strings.Repeat("k", topic.MaxName)))
	for what, open := range map[string]func(t *testing.T) broker{
		"tandem-broker": func(t *testing.T) broker { return &tandemBroker{t: t, addr: addr(t)} },
		"mosquitto":     func(t *testing.T) broker { return newMosquitto(t) },
		"NATS":          func(t *testing.T) broker { return &natsServer{t: t, addr: addr(t), dir: t.TempDir()} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			b.start()
			t.Cleanup(b.kill)
			c := raw(t, b, "node/"+node)
			long := strings.Repeat("x", wire.MaxPayload)
			if err := c.Publish(name, long, true); err != nil {
				t.Fatal(err)
			}
			if what != "tandem-broker" { // where a node may not hear its own reports
				if err := c.FindsMessage(name, name, long); err != nil {
					t.Error(err)
				}
			}
			if err := c.Publish(name, strings.Repeat("x", wire.MaxPacket), true); err == nil {
				t.Error("a packet beyond the limit is acknowledged")
			}
			if err := c.Ended(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A broker that lets longer packets through cuts nobody off: controller and nodes go on, say what they have discarded,
// and what is retained of it is gone after the controller's next session.
func TestLooseBrokers(t *testing.T) {
	t.Parallel()
	t.Run("mosquitto", func(t *testing.T) {
		t.Parallel()
		m := newMosquitto(t)
		text, err := os.ReadFile(m.cfg)
		if err != nil {
			t.Fatal(err)
		}
		old := fmt.Sprintf("\nmax_packet_size %d\n", wire.MaxPacket)
		if err := os.WriteFile(m.cfg, []byte(replace(t, string(text), old, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		loose(t, m, traits{keeps: true, open: true, qos: 1})
	})
	t.Run("NATS", func(t *testing.T) {
		t.Parallel()
		n := &natsServer{t: t, addr: addr(t), dir: t.TempDir(), loose: true}
		loose(t, n, traits{keeps: true, open: true, noDots: true, qos: 0})
	})
}

func loose(t *testing.T, b broker, is traits) {
	r := newRig(t, b, is)
	for _, name := range r.first {
		r.startNode(name)
	}
	for _, name := range r.first {
		r.awaitOnline(name, true)
	}
	v := r.apply()
	r.awaitVersion(v, r.first...)
	before := r.session()

	n1, gone := topic.ForNode(unit, "n1"), topic.ForNode(unit, "gone")
	hostile := raw(t, b, "hostile")
	long := strings.Repeat("x", 4<<20)
	names := []string{n1.Reported(wire.KindConfig), n1.Reported("other"), gone.Live(), gone.Desired(wire.KindConfig),
		n1.Desired(wire.KindConfig), topic.ForController(unit)}
	for _, name := range names {
		if err := hostile.Publish(name, long, true); err != nil {
			t.Fatal(err)
		}
	}
	r.until("the trouble is in the journal", func() string {
		for _, e := range r.entries("trouble") {
			if e.Node == "n1" && bytes.Contains(e.Data, []byte(`"too-large"`)) {
				return ""
			}
		}
		return "not yet"
	})
	r.until("n1 says so", func() string {
		entries, err := r.app.Unit().Entries(r.Context(),
			controller.EntryFilter{Node: "n1", Types: []string{"refused-message"}, Limit: 100})
		if err != nil || len(entries) == 0 {
			return fmt.Sprint("not yet ", err)
		}
		return ""
	})
	r.awaitVersion(r.apply(), r.first...)
	if now := r.session(); now != before {
		t.Errorf("the controller's session was %s, and is %s", before, now)
	}
	for _, name := range names { // the new version has replaced one
		if err := hostile.Publish(name, long, true); err != nil {
			t.Fatal(err)
		}
	}
	r.restartController()
	r.stopNode("n1")
	r.startNode("n1")
	r.awaitOnline("n1", true)
	r.awaitVersion(r.apply(), r.first...)
	r.until("nothing of it is retained", func() string {
		c := raw(t, b, "looker")
		defer c.Leave()
		if _, err := c.Subscribe(0, "tandem/1/"+unit+"/#"); err != nil {
			return err.Error()
		}
		reported := false
		if err := c.Until("n1's report", func(all []rawmqtt.Message) bool {
			for _, m := range all {
				reported = reported || m.Topic == names[0] && m.Payload != long
			}
			return reported
		}); err != nil {
			return err.Error()
		}
		for _, m := range c.Heard() {
			if m.Payload == long {
				return m.Topic
			}
		}
		return ""
	})
}

// session says since when the controller has its session with the broker.
func (r *rig) session() string {
	r.Helper()
	st, err := r.app.Unit().Status(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return fmt.Sprintf("up %v since %v", st.Broker.Up, st.Broker.Since)
}
