package brokersacl

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
	"tandem.internal/testenv/proc"
	"tandem.internal/testenv/rawmqtt"
)

// programs runs the tests with the programs at hand.
type programs struct{ *testing.M }

func (p programs) Run() int { return proc.Main(p.M) }

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(programs{m}, goleak.Cleanup(func(status int) { os.Exit(status) }),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"))
}

func of(id acl.Identity) topic.Node { return topic.ForNode(unit, id.Name) }

// TestOwnThings: a node of any name does all that the wire asks of it.
func TestOwnThings(t *testing.T) {
	sites(t, func(t *testing.T, s *unitAt) {
		boss := s.dial(t, controller, nil)
		mustSubscribe(t, boss, "tandem/1/"+unit+"/#")
		for _, id := range s.nodes {
			t.Run(fmt.Sprintf("%.16s", id.Name), func(t *testing.T) {
				n := of(id)
				must(t, boss.Publish(n.Desired("config"), "retained", true))
				node := s.dial(t, id, &rawmqtt.Will{Topic: n.Live(), Payload: "gone", Retain: true})
				mustSubscribe(t, node, topic.ForController(unit), n.DesiredFilter())
				// QoS 1 needs no rights of its own
				if code, err := node.Subscribe(1, n.Request()); err != nil || code == rawmqtt.Failure {
					t.Fatalf("QoS 1: %v %v", code, err)
				}
				must(t, node.FindsMessage(n.DesiredFilter(), n.Desired("config"), "retained"))
				must(t, boss.Publish(topic.ForController(unit), "beacon "+id.Name, true))
				must(t, node.Hears(topic.ForController(unit), "beacon "+id.Name))
				must(t, boss.Publish(n.Request(), "request", false))
				must(t, node.Hears(n.Request(), "request"))
				for _, name := range []string{n.Live(), n.Reply(), n.Event(), n.Reported("config"), n.Reported("info"),
					n.Reported("health")} {
					must(t, node.Publish(name, "own", name != n.Reply() && name != n.Event()))
					must(t, boss.Hears(name, "own"))
				}
				node.Drop()
				must(t, boss.Hears(n.Live(), "gone"))
				for _, name := range []string{n.Live(), n.Reported("config")} { // it is forgotten
					must(t, boss.Publish(name, "", true))
					must(t, boss.Hears(name, ""))
				}
			})
		}
		outside := s.dial(t, cloud, nil)
		mustSubscribe(t, outside, topic.ForOutbox(unit, "+"))
		must(t, outside.Publish(topic.ForInbox(unit, "config"), "submission", false))
		must(t, boss.Hears(topic.ForInbox(unit, "config"), "submission"))
		must(t, boss.Publish(topic.ForOutbox(unit, "status"), "answer", true))
		must(t, outside.Hears(topic.ForOutbox(unit, "status"), "answer"))
		person := s.dial(t, operator, nil)
		mustSubscribe(t, person, "tandem/1/"+unit+"/#")
		must(t, person.FindsMessage("tandem/1/"+unit+"/#", topic.ForOutbox(unit, "status"), "answer"))
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bystanders is the rest of the unit at work: the controller writes to the victim and the victim
// answers, over and over. It returns a function that ends it and fails the test if anything was lost.
func bystanders(t *testing.T, s *unitAt) (stop func()) {
	t.Helper()
	boss, node, n := s.dial(t, controller, nil),
		s.dial(t, victim, &rawmqtt.Will{Topic: of(victim).Live(), Payload: "gone", Retain: true}), of(victim)
	mustSubscribe(t, boss, n.Reported("config"))
	mustSubscribe(t, node, n.DesiredFilter(), n.Request())
	done, failed, rounds := make(chan struct{}), make(chan error, 1), 0
	go func() {
		for ; ; rounds++ {
			select {
			case <-done:
				failed <- nil
				return
			default:
			}
			text := fmt.Sprintf("round %d", rounds)
			err := boss.Publish(n.Desired("config"), text, true)
			for _, next := range []func() error{
				func() error { return node.Hears(n.Desired("config"), text) },
				func() error { return node.Publish(n.Reported("config"), text, true) },
				func() error { return boss.Hears(n.Reported("config"), text) },
			} {
				if err == nil {
					err = next()
				}
			}
			if err != nil {
				failed <- fmt.Errorf("round %d: %w", rounds, err)
				return
			}
		}
	}()
	return func() {
		close(done)
		if err := <-failed; err != nil || rounds == 0 {
			t.Errorf("the unit was harmed after %d rounds: %v", rounds, err)
		}
	}
}

func canonical(name string) bool {
	_, err := topic.Parse(name)
	return err == nil
}

const poison = "poison"

// forbidden are the topics that a node may not write.
func forbidden() []string {
	own, other := of(mallory), of(victim)
	prefix := strings.TrimSuffix(own.Live(), "live")
	return []string{
		other.Live(), other.Reported("config"), other.Event(), other.Reply(), other.Desired("config"), other.Request(),
		own.Desired("config"), own.Request(), topic.ForController(unit), topic.ForInbox(unit, "config"),
		topic.ForOutbox(unit, "status"),
		topic.ForNode("u2", mallory.Name).Live(), of(dotted).Live(), of(decoy).Live(),
		"tandem/1/" + unit + "/node/00/n1/live", "tandem/1/" + unit + "/node/" + topic.Shard("n1") + "/n1/x/live",
		prefix + "reported/nonsense", prefix + "reported/config/x", prefix + "reported", prefix + "reported/*", prefix +
			"reported/>",
		prefix + "live/", prefix + "live/x", "/" + own.Live(), prefix + "LIVE", prefix + "live\x00", prefix + "liv\xff",
		prefix + "Live\u0301",
		prefix + "+", "tandem/1/" + unit + "/node/+/+/live", "#", ">", "$share/g/" + own.Live(), "$SYS/broker/version",
		"$SYS/" + own.Live(),
		"$MQTT/rmsgs/" + strings.ReplaceAll(other.Desired("config"), "/", "."), "$MQTT/msgs/" + other.Desired("config"),
		"$MQTT/sub/x",
		"$JS/API/STREAM/PURGE/$MQTT_rmsgs", "$JS/API/STREAM/DELETE/$MQTT_msgs", "tandem.1." + unit + ".controller",
		prefix + strings.Repeat("k", 60000),
	}
}

// TestForbiddenWrites: whatever a node writes where it may not, plain, to be kept, or as its last
// will, nobody hears it, now or later, nothing kept is lost, and the unit works on.
func TestForbiddenWrites(t *testing.T) {
	sites(t, func(t *testing.T, s *unitAt) {
		stop := bystanders(t, s)
		witness := s.observe(t, 0)
		kept := topic.ForOutbox(unit, "kept")
		must(t, witness.Publish(kept, "kept", true))
		must(t, witness.Publish(of(dotted).Desired("config"), "kept", true))
		own := of(mallory)
		marks := 0
		// mark shows that everything before it has been dealt with.
		mark := func(c *rawmqtt.Client) error {
			marks++
			text := fmt.Sprintf("mark %d", marks)
			return errors.Join(c.Publish(own.Event(), text, false), witness.Hears(own.Event(), text))
		}
		c := s.dial(t, mallory, nil)
		for _, name := range append(forbidden(), kept, of(dotted).Desired("config")) {
			for _, retain := range []bool{false, true} {
				payload := poison
				if retain && rawmqtt.Has(witness.Heard(), name, "kept") {
					payload = "" // what is kept would be removed
				}
				if err := c.Publish(name, payload, retain); err != nil {
					c = s.dial(t, mallory, nil) // the server has ended the connection: fair enough for what is no topic
					if canonical(name) {
						t.Errorf("publishing on %s: %v; it should be acknowledged and discarded", name, err)
					}
				}
			}
		}
		must(t, mark(c))
		for _, name := range forbidden() {
			w, err := dial(s.address, s.ca.config(t, mallory.String()), mallory.String(), mallory.String(),
				&rawmqtt.Will{Topic: name, Payload: poison, Retain: true})
			if err != nil {
				continue // refused at once
			}
			w.Drop()
		}
		// The last will after these is a good one: when it is heard, the others would have been.
		w := s.dial(t, mallory, &rawmqtt.Will{Topic: own.Live(), Payload: "gone at last", Retain: true})
		w.Drop()
		must(t, witness.Hears(own.Live(), "gone at last"))
		must(t, mark(s.dial(t, mallory, nil)))
		stop()

		late := s.observe(t, 1)
		must(t, late.FindsMessage("#", kept, "kept"))
		must(t, late.FindsMessage("#", of(dotted).Desired("config"), "kept"))
		must(t, late.FindsMessage("#", own.Live(), "gone at last"))
		for _, m := range append(witness.Heard(), late.Heard()...) {
			if strings.Contains(m.Payload, poison) {
				t.Errorf("%s was written, retained %v", m.Topic, m.Retained)
			}
		}
	})
}

// overreaching are filters that reach beyond what a node may read.
func overreaching() []string {
	own, other := of(mallory), of(victim)
	prefix := strings.TrimSuffix(own.Live(), "live")
	return []string{
		"#", "+/#", "+", "*", ">", "tandem/#", "tandem/1/#", "tandem/1/" + unit + "/#", "tandem/1/" + unit + "/+",
		"tandem/1/+/controller",
		"tandem/1/" + unit + "/node/#", "tandem/1/" + unit + "/node/+/+/desired/+", "tandem/1/" + unit +
			"/node/+/+/request",
		"tandem/1/" + unit + "/node/+/" + victim.Name + "/desired/+", "tandem/1/" + unit + "/node/*/*/desired/>",
		"tandem/1/+/node/+/+/live",
		other.DesiredFilter(), other.Desired("config"), other.Request(), other.Live(), other.Reported("+"),
		prefix + "#", prefix + "+", prefix + "+/config", prefix + "live", prefix + "reported/+", prefix + "event",
		topic.ForInbox(unit, "+"), topic.ForInbox(unit, "config"), topic.ForOutbox(unit, "+"),
		topic.ForOutbox(unit, "status"),
		topic.ForNode("u2", mallory.Name).DesiredFilter(), of(dotted).DesiredFilter(), of(decoy).DesiredFilter(),
		"$share/g/#", "$share/g/" + other.DesiredFilter(), "$share/g/tandem/1/" + unit + "/#", "$SYS/#",
		"$SYS/broker/+",
		"$MQTT/#", "$MQTT/sub/+", "$MQTT/msgs/#", "$MQTT/rmsgs/#", "$JS/#", "$JS/API/#", "_INBOX/#",
	}
}

// TestForbiddenReads: whatever filters a node subscribes to, it hears its own documents, its own
// requests and the beacon, and nothing else.
func TestForbiddenReads(t *testing.T) {
	sites(t, func(t *testing.T, s *unitAt) {
		stop := bystanders(t, s)
		boss := s.observe(t, 0)
		own, other := of(mallory), of(victim)
		secrets := []string{
			other.Desired("policies"), other.Request(), other.Live(), other.Reported("info"), other.Event(),
			other.Reply(), of(dotted).Desired("config"),
			of(decoy).Desired("config"), topic.ForInbox(unit, "config"), topic.ForOutbox(unit, "status"),
			topic.ForNode("u2", mallory.Name).Desired("config"),
			"tandem/1/u2/controller", own.Live(), own.Reported("config"), own.Event(), own.Reply(),
		}
		for _, name := range secrets {
			must(t, boss.Publish(name, "kept secret", true))
		}
		allowed := func(name string) bool { return rules.For(mallory).Subscribe(name) }
		for i, filter := range overreaching() {
			c := s.dial(t, mallory, nil)
			mustSubscribe(t, c, own.DesiredFilter())
			if _, err := c.Subscribe(byte(i%2), filter); err != nil {
				c = s.dial(t, mallory, nil) // the server has ended the connection: fair enough
				mustSubscribe(t, c, own.DesiredFilter())
			}
			for _, name := range secrets {
				must(t, boss.Send(name, "secret"))
			}
			must(t, boss.Send(own.Desired("config"), fmt.Sprintf("mark %d", i)))
			must(t, c.Hears(own.Desired("config"), fmt.Sprintf("mark %d", i)))
			for _, m := range c.Heard() {
				if !allowed(m.Topic) {
					t.Errorf("subscribed to %s, the node hears %s: %q", filter, m.Topic, m.Payload)
				}
			}
			c.Leave()
		}
		stop()
	})
}
