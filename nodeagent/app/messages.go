package app

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/identity"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// hear takes in what the link said.
func (a *Agent) hear(what any) {
	switch m := what.(type) {
	case up:
		a.session, a.lastDown, a.greeted = m.session, "", false
		a.log.Info("connected", zap.String("broker", a.cfg.Broker), zap.Uint64("session", m.session))
		a.sender.Up(m.session)
		a.takeLink(true, nil)
		a.reportEverything()
		a.sendEvents()
		a.leaveRefused()
	case down:
		a.session = 0
		a.view.Offline(time.Since(a.began))
		a.lookAtView()
		a.sender.Down()
		a.takeLink(false, m.err)
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
		a.takeVouchedKeys(m)
	case identity.ReportKey:
		a.prover.setKey(m)
		if a.session != 0 {
			a.reportEverything() // what was said without this key may not count any more
		}
	case identity.RootKeys:
		a.takeRootKeys()
	case identity.CAsChanged:
		a.leaveRefused()
		if a.session != 0 {
			a.refreshInfo() // which names the CAs
			a.send(&a.info)
		}
	}
}

// receive sorts a message by its topic.
func (a *Agent) receive(m message) {
	t, err := topic.Parse(m.topic)
	if err != nil || t.Unit != a.id.Unit || (t.Leaf != topic.Beacon && t.Node != a.id.Node) {
		a.refuse(m, wire.New(wire.CodeWrongTarget, "", "a topic that this node did not ask for"))
		return
	}
	if m.size > wire.MaxPayload {
		a.refuse(m, wire.New(wire.CodeTooLarge, "",
			fmt.Sprintf("%d bytes; a message has at most %d", m.size, wire.MaxPayload)))
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

// ears is the agent as the link's handler.
type ears struct{ a *Agent }

type up struct{ session uint64 }

type down struct {
	session uint64
	err     error
}

type message struct {
	topic    string
	payload  []byte
	size     int // of the payload, which is dropped if it is too large
	retained bool
}

func (e ears) Up(session uint64)              { e.tell(up{session}) }
func (e ears) Down(session uint64, err error) { e.tell(down{session, err}) }

func (e ears) Message(m link.Message) {
	size := max(len(m.Payload), m.TooLong)
	if size > wire.MaxPayload {
		m.Payload = nil
	}
	e.tell(message{m.Topic, m.Payload, size, m.Retained})
}

// tell waits for the owner, which holds nobody up for longer than a save takes.
func (e ears) tell(what any) {
	select {
	case e.a.in <- what:
	case <-e.a.closed:
	}
}
