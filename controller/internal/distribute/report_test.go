package distribute

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// hearer is a cloud side that reads what a unit says of itself.
type hearer struct {
	*cloudSide
	cloud.Reader
	wholes, deltas, parts int
	gaps                  int
}

// hears begins to read.
func (c *cloudSide) hears() *hearer {
	h := &hearer{cloudSide: c}
	c.r.hears = h.take
	c.r.broker.mu.Lock()
	c.r.broker.hears = h.take
	c.r.broker.mu.Unlock()
	return h
}

func (h *hearer) take(to string, payload []byte) {
	if to != topic.ForOutbox(faultyUnit, statusTopic) {
		return
	}
	m, err := wire.Decode[wire.UnitStatus](payload)
	if err != nil {
		h.t.Errorf("%s: %v", payload, err)
		return
	}
	k := h.r.core.signer().Key()
	if err := (seal.Trust{k.ID: k.Ed25519}).Verify(seal.StatusPreimage(faultyUnit, m), m.Sig); err != nil {
		h.t.Errorf("%+v: %v", m, err)
	}
	if m.Part == nil {
		return
	}
	h.parts++
	news, err := h.Take(m)
	switch {
	case errors.Is(err, cloud.ErrGap):
		h.gaps++
	case err != nil:
		h.t.Error(err)
	case news && m.Part.Prev == 0:
		h.wholes++
	case news:
		h.deltas++
	}
}

// said checks how often something was said since, and that what was read is what the controller shows.
func (h *hearer) said(when string, wholes, deltas int) {
	h.t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if h.wholes != wholes || h.deltas != deltas {
		h.t.Errorf("%s: %d whole, %d deltas; want %d, %d", when, h.wholes, h.deltas, wholes, deltas)
	}
	h.wholes, h.deltas = 0, 0
	now, err := h.r.core.UnitStatus(h.t.Context(), op.UnitStatusIn{Report: true})
	if err != nil || h.Status == nil {
		h.t.Fatalf("%s: %v, %+v", when, err, h.Status)
	}
	if d := cloud.Delta(h.Status, now.Report); d != nil {
		h.t.Errorf("%s: it differs in %s", when, d.Encode())
	}
}

// node has a node connect, or go.
func (h *hearer) node(name string, up bool) {
	live := wire.Live{V: wire.Version, Node: name, Boot: "b-" + name, Session: 1, Up: up}
	h.r.deliver(topic.ForNode(faultyUnit, name).Live(), wire.Encode(&live))
}

// question is a signed one for the whole status.
func (c *cloudSide) question(id string) *wire.Submission {
	return c.sign(statusTopic, &wire.Submission{V: wire.Version, ID: id, From: "x", Time: time.Now().UTC(),
		Document: jsontext.Value("{}")})
}

func (c *cloudSide) asks(m *wire.Submission) {
	c.r.deliver(topic.ForInbox(faultyUnit, statusTopic), wire.Encode(m))
}

// TestUnitStatusIsSaid: whole in each session with the broker and when somebody asks who may; else what has changed,
// many changes together; nothing while there is none, and nothing of it is retained.
func TestUnitStatusIsSaid(t *testing.T) {
	withCloud(t, func(c *cloudSide) {
		h := c.hears()
		c.r.core.report.whole()
		h.said("at first", 1, 0)
		h.said("in quiet times", 0, 0)
		for _, name := range []string{"n1", "n2", "n3"} {
			h.node(name, true)
		}
		h.said("three nodes connect", 0, 1)
		if len(h.Status.Nodes) != 3 || !h.Status.Nodes[0].IsConnected {
			t.Errorf("%+v", h.Status.Nodes)
		}
		h.node("n2", false)
		h.said("one is gone", 0, 1)

		first := c.question("q-1")
		c.asks(first)
		h.said("asked", 1, 0)
		troubles := len(c.r.records(record.Trouble))
		c.asks(first) // played again
		bare := c.question("q-2")
		bare.Sig = nil
		c.asks(bare)
		c.r.deliver(topic.ForInbox(faultyUnit, statusTopic), []byte(`{"id":"q-3"}`))
		h.said("asked by who may not", 0, 0)
		if n := len(c.r.records(record.Trouble)) - troubles; n == 0 {
			t.Error("nobody is told of who may not ask")
		}
		to := link.Message{Topic: topic.ForInbox(faultyUnit, statusTopic), TooLong: wire.MaxPayload + 1}
		c.r.core.Handler().Message(to)
		retains := func(when string) {
			t.Helper()
			synctest.Wait()
			payload, _ := c.r.broker.Retained(topic.ForOutbox(faultyUnit, statusTopic))
			m, err := wire.Decode[wire.UnitStatus](payload)
			if err != nil || m.Part != nil || m.State != "absent" {
				t.Errorf("%s the broker retains %s: %v", when, payload, err)
			}
		}
		retains("then")

		h.node("n2", true)
		c.r.core.Handler().Down(1, errors.New("the road"))
		h.node("n1", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.wholes+h.deltas != 0 {
			t.Errorf("without a session: %d, %d", h.wholes, h.deltas)
		}
		c.r.broker.mu.Lock()
		clear(c.r.broker.retained)
		c.r.broker.mu.Unlock()
		c.r.core.Handler().Up(2)
		h.said("in a new session", 1, 0)
		retains("in a new session")
		if h.gaps != 0 {
			t.Errorf("%d gaps", h.gaps)
		}
		if err := c.r.stop(); err != nil {
			t.Fatal(err)
		}
		c.r.start()
		h.said("after a restart", 1, 0)
	})
}

// TestUnitStatusDoesNotPileUp: while nothing can be sent, for hours, no status is made after another; then the next is
// as it is by then.
func TestUnitStatusDoesNotPileUp(t *testing.T) {
	withClock(t, func(t *testing.T, r *faulty, shift *atomic.Int64) {
		h := (&cloudSide{t: t, r: r}).hears()
		r.core.report.whole()
		h.said("at first", 1, 0)
		shift.Store(int64(40 * days))
		for i := range 100 {
			h.node("n1", i%2 == 0)
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		r.core.outbox.mu.Lock()
		waiting := len(r.core.outbox.plain)
		r.core.outbox.mu.Unlock()
		if waiting > 2 {
			t.Errorf("%d messages wait", waiting)
		}
		h.node("n2", true)
		shift.Store(0)
		time.Sleep(time.Minute)
		h.said("afterwards", 0, 1)
	})
}

// TestUnitStatusHolds: until the parts before are sent, none are made; they are whole if somebody asked meanwhile.
func TestUnitStatusHolds(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		h := (&cloudSide{t: t, r: r}).hears()
		r.core.report.whole()
		h.said("at first", 1, 0)
		o, to := r.core.outbox, topic.ForOutbox(faultyUnit, statusTopic)
		o.mu.Lock()
		o.plain = append(o.plain, link.Publication{Topic: to, Payload: []byte("{}")}) // and nobody is woken
		o.mu.Unlock()
		r.core.report.whole()
		time.Sleep(3 * time.Second) // less than until the next beacon
		synctest.Wait()
		o.mu.Lock()
		if len(o.plain) > 1 {
			t.Errorf("%d messages wait", len(o.plain))
		}
		o.plain = nil
		o.mu.Unlock()
		h.said("then", 1, 0)
	})
}

// TestUnitStatusNeedsAnInbox: where no cloud side can ask, the whole unit is not spoken of.
func TestUnitStatusNeedsAnInbox(t *testing.T) {
	withFaults(t, func(c *Config) { c.Inbox = false }, func(t *testing.T, r *faulty) {
		h := (&cloudSide{t: t, r: r}).hears()
		r.core.Handler().Up(2)
		h.node("n1", true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.parts > 0 {
			t.Errorf("%d parts", h.parts)
		}
	})
}

// TestUnitStatusIsPaced: a status of many parts arrives whole, and never so many at once that the embedded broker would
// drop some, or the reader; what changes meanwhile is said after it, and a session that ends ends it.
func TestUnitStatusIsPaced(t *testing.T) {
	if pace.Burst*cloud.MaxPart*4/3 > 3<<20 || pace.Burst > 32 {
		t.Errorf("%v", pace)
	}
	few := flow.Rate{Burst: 2, Every: time.Second}
	withFaults(t, func(c *Config) { c.StatusPace = few }, func(t *testing.T, r *faulty) {
		h := (&cloudSide{t: t, r: r}).hears()
		r.core.report.whole()
		h.said("at first", 1, 0)
		parts := func() int {
			r.broker.mu.Lock() // under which they are heard
			defer r.broker.mu.Unlock()
			return h.parts
		}
		first := parts()
		random := rand.NewChaCha8([32]byte{})
		noise := make([]byte, 3072)
		for i := range 200 {
			if _, err := random.Read(noise); err != nil {
				t.Fatal(err)
			}
			node := fmt.Sprintf("n%d", i)
			r.deliver(live(node, 1))
			to, _ := info(node, 1)
			r.deliver(to, wire.Encode(&wire.Reported{V: wire.Version, Node: node, Kind: wire.KindInfo, Boot: "b",
				Seq: 1, Detail: wire.Encode(&wire.NodeInfo{Type: "m", OS: "linux", Arch: "arm64", AgentVersion: "1",
					Attributes: map[string]string{"noise": base64.StdEncoding.EncodeToString(noise)}})}))
		}
		most, before := 0, first
		for range 10 {
			time.Sleep(time.Second)
			synctest.Wait()
			now := parts()
			most, before = max(most, now-before), now
		}
		if all := before - first; most > int(few.Burst)+1 || all <= most {
			t.Errorf("%d parts in a second, %d in all", most, all)
		}
		h.said("then", 0, 1)
		if h.gaps > 0 || len(h.Status.Nodes) != 200 {
			t.Errorf("%d gaps, %d nodes", h.gaps, len(h.Status.Nodes))
		}
		r.core.report.whole()
		time.Sleep(2 * time.Second) // it is under way
		h.node("n1", false)
		r.core.Handler().Down(1, errors.New("the road"))
		r.core.Handler().Up(2)
		time.Sleep(time.Minute)
		h.said("in the next session", 1, 0)
	})
}
