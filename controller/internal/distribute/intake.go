package distribute

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// Handler returns what the controller's link tells: messages come here.
func (c *Core) Handler() link.Handler { return handler{c} }

type handler struct{ c *Core }

func (h handler) Up(session uint64)              { h.c.up(session) }
func (h handler) Down(session uint64, err error) { h.c.down(session, err) }
func (h handler) Message(m link.Message)         { h.c.message(m) }

// message takes one message from the broker. It runs on many goroutines at once, does what can be
// done without the state, and returns when what the message says is durable: only then does the
// broker acknowledge it to its sender.
func (c *Core) message(m link.Message) {
	if len(m.Payload) > wire.MaxPayload {
		m.TooLong = len(m.Payload)
	}
	if len(m.Payload) == 0 && m.TooLong == 0 {
		return // a retained message was taken away
	}
	t, err := topic.Parse(m.Topic)
	if err != nil || t.Unit != c.cfg.Unit {
		return // not a topic of this unit; nobody of this unit can have written it
	}
	if m.TooLong > 0 {
		c.tooLong(&t, m)
		return
	}
	switch t.Leaf {
	case topic.Desired:
		c.outbox.found(t.Node, t.Kind, m.Payload)
	case topic.Outbox:
		if m.Retained && t.What != statusTopic {
			c.outbox.foundAnswer(t.What, m.Payload)
		}
	case topic.Beacon:
		c.outbox.echo(m.Payload, m.Retained)
	case topic.Inbox:
		switch {
		case c.cfg.Inbox && t.What == statusTopic:
			c.report.ask(m.Topic, m.Payload)
		case c.cfg.Inbox:
			c.inbox.take(c, t.What, m.Topic, m.Payload)
		default:
			c.inbox.discard(c, t.What, m.Topic)
		}
	case topic.Reported, topic.Live, topic.Event, topic.Reply:
		c.hear(&t, m)
	}
}

// tooLong deals with a message that is longer than any may be: it says so, and sees to it that the broker does not
// retain it. Only what is found retained is taken away: what was just published may be followed by something better.
func (c *Core) tooLong(t *topic.Topic, m link.Message) {
	err := wire.New(wire.CodeTooLarge, "",
		fmt.Sprintf("%d bytes; a message has at most %d", m.TooLong, wire.MaxPayload))
	c.logTooLong(t, m, err)
	switch {
	case t.Leaf == topic.Desired:
		c.outbox.found(t.Node, t.Kind, nil)
	case t.Leaf == topic.Beacon:
		c.outbox.echo(nil, m.Retained)
	case t.Leaf == topic.Outbox:
		c.outbox.foundAnswer(t.What, nil)
	case m.Retained: // also a submission, which nobody should retain: it was refused when it came
		c.outbox.send(link.Publication{Topic: m.Topic, Retain: true})
	case t.Leaf == topic.Inbox && c.cfg.Inbox:
		c.inbox.turnAway(c, t.What, m.Topic, unknownID, "", err)
		return
	}
	c.queue.put(item{event: fleet.Bad{Node: t.Node, Topic: m.Topic, Err: err,
		Again: m.Retained && t.Leaf != topic.Desired}}, nil)
}

// tooLongRate bounds the lines about messages that are too long.
var tooLongRate = flow.Rate{Burst: 4, Every: 10 * time.Second}

func (c *Core) logTooLong(t *topic.Topic, m link.Message, err *wire.Error) {
	c.tooLongMu.Lock()
	held, ok := c.tooLongs.Pass(c.cfg.Now(), tooLongRate)
	c.tooLongMu.Unlock()
	if ok {
		c.cfg.Log.Warn("a message was discarded", zap.String("node", t.Node), zap.String("kind", string(t.Kind)),
			zap.String("topic", m.Topic), zap.Bool("retained", m.Retained), zap.Error(err), zap.Int("more", held))
	}
}

func (c *Core) hear(t *topic.Topic, m link.Message) {
	failures := c.failures.Load()
	message, since, err := c.proved(t, m.Topic, m.Payload)
	var ev fleet.Heard
	var known bool
	if err == nil {
		if ev, known = c.repeats.find(m.Topic, message); !known {
			ev, err = c.decode(t, message)
		}
	}
	ev.Retained, ev.Since = m.Retained, since
	if t.Leaf == topic.Live {
		ev.Raw = m.Payload // with the proof, which says how old it is at most
	}
	if err != nil {
		c.queue.put(item{event: fleet.Bad{Node: t.Node, Topic: m.Topic, Err: err, Retained: m.Retained}}, nil)
		return
	}
	if t.Leaf == topic.Reply || known && c.queue.roomy() { // what is durable already is not waited for
		c.queue.put(item{event: ev}, nil)
		return
	}
	var done <-chan struct{}
	if !c.queue.put(item{event: ev}, &done) {
		return
	}
	<-done
	if !known && t.Leaf == topic.Reported && c.Refusing() == nil && c.failures.Load() == failures {
		c.repeats.keep(m.Topic, ev)
	}
}

func (c *Core) decode(t *topic.Topic, payload []byte) (fleet.Heard, *wire.Error) {
	h := fleet.Heard{Node: t.Node, Raw: payload}
	var node string
	var err error
	switch t.Leaf {
	case topic.Reported:
		if !c.cfg.Kinds.Reportable(t.Kind) {
			return h, wire.New(wire.CodeNotSupported, "", "reports of this kind are not known here")
		}
		if h.Reported, err = wire.Decode[wire.Reported](payload); err == nil {
			node = h.Reported.Node
			if h.Reported.Kind != t.Kind {
				return h, wire.New(wire.CodeWrongTarget, "/kind", "the envelope and its topic name different kinds")
			}
			if k := c.cfg.Kinds.Kind(t.Kind); k != nil && k.Detail != nil {
				var derr *wire.Error
				if h.Detail, derr = k.Detail(t.Node, h.Reported.Detail); derr != nil {
					return h, derr
				}
			}
		}
	case topic.Live:
		if h.Live, err = wire.Decode[wire.Live](payload); err == nil {
			node = h.Live.Node
		}
	case topic.Event:
		if h.Event, err = wire.Decode[wire.Event](payload); err == nil {
			node = h.Event.Node
		}
	case topic.Reply:
		if h.Reply, err = wire.Decode[wire.Reply](payload); err == nil {
			node = h.Reply.Node
		}
	}
	if err != nil {
		return h, wire.AsError(err)
	}
	if node != t.Node {
		return h, wire.New(wire.CodeWrongTarget, "/node", "the envelope and its topic name different nodes")
	}
	return h, nil
}

// Misbehaved journals what the broker saw a client do.
func (c *Core) Misbehaved(node, topic string, err *wire.Error) {
	c.queue.put(item{event: fleet.Bad{Node: node, Topic: topic, Err: err}}, nil)
}
