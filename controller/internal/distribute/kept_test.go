package distribute

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// outward puts the Core on a link to a broker in another process.
func (r *faulty) outward() *outside {
	o := &outside{at: r.broker, core: r.core}
	r.core.outbox.mu.Lock()
	r.core.outbox.link = o
	r.core.outbox.mu.Unlock()
	return o
}

// submitBy submits a configuration over MQTT and waits.
func (r *faulty) submitBy(id, version string) {
	s := wire.Submission{V: wire.Version, ID: id, From: "cloud", Document: jsontext.Value(faultyDoc(version))}
	r.deliver(topic.ForInbox(faultyUnit, "config"), wire.Encode(&s))
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// answered returns the ID in the answer that the broker retains; "": none is retained.
func (r *faulty) answered() string {
	payload, _ := r.broker.Retained(topic.ForOutbox(faultyUnit, "config"))
	if len(payload) == 0 {
		return ""
	}
	a, err := wire.Decode[wire.Answer](payload)
	if err != nil {
		return err.Error()
	}
	return a.ID
}

// A broker that has lost what outbox topics retain gets it again: in the same run, after a restart from the journal,
// and not if it still has something newer.
func TestAnswersAreKept(t *testing.T) {
	alone := func(c *Config) { c.StatusWait = 24 * time.Hour } // of the unit, which would be counted, too
	withFaults(t, alone, func(t *testing.T, r *faulty) {
		want := func(when, id string) {
			t.Helper()
			if got := r.answered(); got != id {
				t.Errorf("%s outbox/config has the answer to %q, want %q", when, got, id)
			}
		}
		status := topic.ForOutbox(faultyUnit, statusTopic)
		o := r.outward()
		r.submitBy("s-1", "1.0.0")
		want("at first", "s-1")
		o.next(2, true)
		want("in a broker that was wiped", "s-1")
		if r.broker.published(status) != 1 {
			t.Errorf("the status was published %d times", r.broker.published(status))
		}
		r.deliver(topic.ForInbox(faultyUnit, "nonsense"), []byte("{}"))
		r.deliver(topic.ForInbox(faultyUnit, "config"), []byte(`{"id":"s-bad"}`)) // not journaled as a submission
		time.Sleep(time.Second)
		synctest.Wait()
		want("then", "s-bad")
		retained := r.broker.retained

		restart := func(retained map[string][]byte) {
			t.Helper()
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.core.Handler().Down(1, link.ErrDown)
			synctest.Wait()
			r.core.outbox.filled = false
			r.core.outbox.kept = r.core.recall()
			r.broker.retained = retained
			r.outward().next(2, false)
		}
		restart(retained)
		want("after a restart, at a broker that kept it,", "s-bad")
		o = r.core.outbox.link.(*outside)
		o.next(3, true)
		want("and when that is wiped then", "s-bad")
		restart(map[string][]byte{})
		want("after a restart, at an empty broker,", "s-1")
		if n := r.broker.published(topic.ForOutbox(faultyUnit, "nonsense")); n != 0 {
			t.Errorf("a topic that there is not is published %d times", n)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.start() // the embedded broker
		want("after a restart with the embedded broker", "s-1")
	})
}

// What is found retained and is longer than any message may be is journaled and taken away or replaced, and a node is
// asked to report again.
func TestTooLongAndRetained(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		o := r.outward()
		r.install("1.0.0")
		r.join("n")
		o.next(2, false)
		r.join("n")
		at := topic.ForNode(faultyUnit, "n")
		long := link.Message{Retained: true, TooLong: 1 << 20}
		for name, want := range map[string]string{
			at.Reported(wire.KindConfig):         "cleared",
			at.Reported("other"):                 "cleared",
			at.Live():                            "cleared",
			topic.ForInbox(faultyUnit, "config"): "cleared",
			at.Desired(wire.KindWorkloads):       "cleared", // there is none
			topic.ForOutbox(faultyUnit, "any"):   "cleared",
			at.Desired(wire.KindConfig):          "left", // outside a refill nothing is compared
			topic.ForController(faultyUnit):      "left",
			topic.ForController("u2"):            "left",
		} {
			time.Sleep(troubleWait)
			requests, records := r.broker.published(at.Request()), len(r.records(record.Trouble))
			r.broker.retain(name, []byte("long"))
			long.Topic = name
			r.core.Handler().Message(long)
			synctest.Wait()
			if now, _ := r.broker.Retained(name); (len(now) == 0) != (want == "cleared") {
				t.Errorf("%s: %q is retained, want it %s", name, now, want)
			}
			asked := r.broker.published(at.Request()) > requests
			if reports := strings.Contains(name, "/node/") && !strings.Contains(name, "/desired/"); asked != reports {
				t.Errorf("%s: the node was asked: %v", name, asked)
			}
			said := r.records(record.Trouble)[records:]
			if mine := !strings.Contains(name, "/u2/"); len(said) > 0 != mine ||
				mine && !strings.Contains(string(said[0].Data), name) {
				t.Errorf("%s: the journal has %v", name, said)
			}
		}
	})
}

// troubleWait is after how long the journal takes another trouble of one sender.
const troubleWait = 11 * time.Second

// What is too long and was just published is journaled and no more; a submission is answered. A payload that fits a
// packet and is longer than a message may be is no different.
func TestTooLongAndNew(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		reported := topic.ForNode(faultyUnit, "n").Reported(wire.KindConfig)
		for _, m := range []link.Message{{TooLong: 1 << 20}, {Payload: make([]byte, wire.MaxPayload+1)}} {
			time.Sleep(troubleWait)
			records := len(r.records(record.Trouble))
			m.Topic = reported
			r.core.Handler().Message(m)
			m.Topic = topic.ForInbox(faultyUnit, "config")
			r.core.Handler().Message(m)
			synctest.Wait()
			said := r.records(record.Trouble)[records:]
			if len(said) != 2 || !strings.Contains(string(said[0].Data), `"too-large"`) || said[0].Node != "n" {
				t.Errorf("the journal has %v", said)
			}
			if n := r.broker.published(reported); n != 0 {
				t.Errorf("%d publishes on %s", n, reported)
			}
			if got := r.answered(); got != unknownID {
				t.Errorf("the answer is to %q", got)
			}
		}
	})
}

// A desired document that is too long at the broker is replaced in the refill.
func TestTooLongDesired(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		o := r.outward()
		r.install("1.0.0")
		r.join("n")
		o.next(2, false)
		for i, kind := range []wire.Kind{wire.KindConfig, wire.KindWorkloads} {
			name := topic.ForNode(faultyUnit, "n").Desired(kind)
			r.broker.retain(name, make([]byte, wire.MaxPayload+1))
			o.next(uint64(3+i), false)
			now, _ := r.broker.Retained(name)
			d, err := wire.Decode[wire.Desired](now)
			if kind == wire.KindConfig && (err != nil || d.Version != "1.0.0") ||
				kind == wire.KindWorkloads && len(now) > 0 {
				t.Errorf("%s: %v, %d bytes", name, err, len(now))
			}
		}
	})
}
