package app

import (
	"fmt"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/identity"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// maxUnsupported bounds the kinds without an applier that the agent remembers refusing.
const maxUnsupported = 16

// maxHeld bounds the kinds whose newest document waits for the first beacon: all that there are.
var maxHeld = len(wire.Kinds())

// hear takes in what the link said.
func (a *Agent) hear(what any) {
	switch m := what.(type) {
	case up:
		a.session, a.lastDown = m.session, ""
		a.log.Info("connected", zap.String("broker", a.cfg.Broker), zap.Uint64("session", m.session))
		a.sender.Up(m.session)
		a.linked(true, nil)
		a.sayEverything()
		a.sendEvents()
	case down:
		a.session = 0
		a.sender.Down()
		a.linked(false, m.err)
		a.sent = min(a.sent, a.sender.LastEvent())
		if why := fmt.Sprint(m.err); why != a.lastDown { // once for each change, not for each attempt
			a.lastDown = why
			a.log.Warn("no session with the broker; the node works on, and keeps trying", zap.Error(m.err))
		}
	case message:
		a.receive(m)
	case identity.Event:
		a.certificate(m)
	case identity.Keys:
		a.vouched(m)
	}
}

// receive sorts a message by its topic.
func (a *Agent) receive(m message) {
	t, err := topic.Parse(m.topic)
	if err != nil || t.Unit != a.id.Unit || (t.Leaf != topic.Beacon && t.Node != a.id.Node) {
		a.refuse(m, wire.New(wire.CodeWrongTarget, "", "a topic that this node did not ask for"))
		return
	}
	if m.size > wire.MaxPacket {
		a.refuse(m, wire.New(wire.CodeTooLarge, "", fmt.Sprintf("%d bytes; a message has at most %d", m.size, wire.MaxPacket)))
		return
	}
	if len(m.payload) == 0 {
		return // a retained message was cleared: that takes nothing back
	}
	switch t.Leaf {
	case topic.Beacon:
		a.beacon(m)
	case topic.Desired:
		a.document(t.Kind, m)
	case topic.Request:
		a.request(m)
	default:
		a.refuse(m, wire.New(wire.CodeWrongTarget, "", "a topic that this node did not ask for"))
	}
}

// refuse drops a message and says so.
func (a *Agent) refuse(m message, err *wire.Error) {
	topic := m.topic
	if len(topic) > 256 {
		topic = topic[:256]
	}
	a.emit(inbox.EventRefusedMessage, err, refusal{Topic: topic})
}

func (a *Agent) document(name wire.Kind, m message) {
	if len(a.trust.Keys) == 0 {
		a.hold(name, m)
		return
	}
	doc, err := a.id.Document(a.trust.Keys, name, m.payload)
	if err != nil {
		a.refuse(m, err)
		return
	}
	if err := a.trust.Floor.Check(name, doc.Stamp); err != nil {
		a.emit(inbox.EventStale, err, docDetail{Kind: name, DocRef: doc.Ref()})
		return
	}
	k := a.kinds[name]
	if k == nil {
		if len(a.kinds) > maxUnsupported {
			a.refuse(m, wire.New(wire.CodeNotSupported, "/kind", "one unknown kind too many"))
			return
		}
		k = a.add(name, inbox.Durable{}, nil)
	}
	k.inbox.Handle(inbox.Desired{Doc: doc, At: a.deps.Now()})
}

// hold keeps the newest document of a kind until the first beacon says whom to believe.
func (a *Agent) hold(name wire.Kind, m message) {
	d, err := wire.Decode[wire.Desired](m.payload)
	if err != nil {
		a.refuse(m, wire.AsError(err))
		return
	}
	old, ok := a.held[name]
	if !ok && len(a.held) >= maxHeld {
		a.refuse(m, wire.New(wire.CodeUnavailable, "", "no beacon has been heard yet, and enough documents wait for it"))
		return
	}
	if ok {
		if o, err := wire.Decode[wire.Desired](old.payload); err == nil && o.Stamp().Compare(d.Stamp()) > 0 {
			return
		}
	}
	a.held[name] = m
}
