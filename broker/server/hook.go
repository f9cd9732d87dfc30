package server

import (
	"fmt"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// hook implements mochi's callbacks. Its methods run in the publisher's goroutine.
type hook struct {
	mqtt.HookBase
	*Server
}

func (h *hook) ID() string { return "tandem" }

func (h *hook) Provides(b byte) bool {
	return b == mqtt.OnACLCheck || b == mqtt.OnPublish || b == mqtt.OnPublishDropped
}

// sessionOf returns nil for the server's own client.
func sessionOf(cl *mqtt.Client) *session {
	if c, ok := cl.Net.Conn.(*conn); ok {
		return c.sess
	}
	return nil
}

// OnACLCheck lets every publish through to OnPublish, which can discard one without the
// disconnection that mochi answers a refusal with. For reading it is the second guard, asked
// again for every delivery: Server.refuses is the first. Who has not subscribed yet reads nothing:
// mochi looks up subscribers by ID, and may find the next session of one that is gone.
func (h *hook) OnACLCheck(cl *mqtt.Client, name string, write bool) bool {
	if write {
		return true
	}
	s := sessionOf(cl)
	return s != nil && s.listens.Load() && s.grants.Subscribe(name)
}

// refusedTopic stands in for a topic that mochi would drop without an acknowledgement.
const refusedTopic = "refused"

// OnPublish decides what becomes of a publish before it is retained, acknowledged or delivered.
// mochi knows two errors: CodeSuccessIgnore acknowledges and discards; ErrRejectPacket does
// nothing, not even acknowledge. After any other it would store and acknowledge all the same.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline {
		h.retain(&pk)
		return pk, nil
	}
	s := sessionOf(cl)
	leaf, ok := s.grants.Publish(pk.TopicName)
	if !ok {
		if pk.TopicName != refusedTopic {
			h.deny(s, pk.TopicName, "")
		}
		return pk, packets.CodeSuccessIgnore
	}
	m := Message{Topic: pk.TopicName, Payload: pk.Payload, ClientID: s.id, Retain: pk.FixedHeader.Retain}
	if !acl.Retained(leaf) {
		pk.FixedHeader.Retain = false // or every new subscriber would hear an old event or reply
	}
	if pk.FixedHeader.Retain && leaf == topic.Reported && !h.roomForKind(pk.TopicName) {
		h.deny(s, pk.TopicName, "too many kinds that the wire does not name")
		return pk, packets.CodeSuccessIgnore
	}
	if err := h.take(s, m); err != nil {
		s.end("its message was not taken")
		return pk, packets.ErrRejectPacket
	}
	h.retain(&pk)
	return pk, nil
}

// retain keeps a message if it is to be kept, and does not tell mochi, which would keep it, too.
func (s *Server) retain(pk *packets.Packet) {
	if pk.FixedHeader.Retain {
		s.retained.set(pk.TopicName, pk.Payload, pk.FixedHeader.Qos)
		pk.FixedHeader.Retain = false
	}
}

// roomForKind reports whether a node may have one more retained report on this topic.
func (s *Server) roomForKind(name string) bool {
	i := strings.LastIndexByte(name, '/')
	if wire.Kind(name[i+1:]).Known() {
		return true
	}
	if _, ok := s.retained.get(name); ok {
		return true
	}
	s.retained.mu.RLock()
	defer s.retained.mu.RUnlock()
	extra := 0
	s.retained.match(name[:i]+"/+", func(other string, _ []byte, _ byte) {
		if !wire.Kind(other[i+1:]).Known() {
			extra++
		}
	})
	return extra < s.limits.ExtraKinds
}

// OnPublishDropped emits an event: a client's queue was full.
func (h *hook) OnPublishDropped(cl *mqtt.Client, pk packets.Packet) {
	if s := sessionOf(cl); s != nil {
		h.dropped(s, pk.TopicName, fmt.Sprintf("more than %d messages were waiting", h.limits.PendingPerClient))
	}
}

// dropped emits an event, rate-limited: a message to a client was not sent.
func (s *Server) dropped(to *session, name, detail string) {
	s.emitThrough(&to.dropped, Event{Kind: Dropped, ClientID: to.id, Remote: to.conn.remote, Topic: clip(name),
		Detail: detail})
}

// deny records a publish that is acknowledged and discarded.
func (s *Server) deny(by *session, name, detail string) {
	s.count.deniedPublishes.Add(1)
	s.emitThrough(&by.denied, Event{Kind: DeniedPublish, ClientID: by.id, Remote: by.conn.remote, Topic: clip(name),
		Detail: detail})
}

// take hands a message to the intake, if it is one of those that nodes and the cloud side write.
func (s *Server) take(by *session, m Message) (err error) {
	if s.intake == nil || by.who.Role != acl.Node && by.who.Role != acl.Cloud {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the intake panicked: %s", panicDetail(r))
		}
		if err != nil {
			s.count.intakeFailures.Add(1)
			s.emit(Event{Kind: IntakeFailed, ClientID: by.id, Remote: by.conn.remote, Topic: m.Topic,
				Detail: err.Error()})
			return
		}
		s.count.taken.Add(1)
	}()
	return s.intake(m)
}

// clip bounds what a client can put into an event.
func clip(name string) string {
	if len(name) > acl.MaxFilter {
		name = name[:acl.MaxFilter] + "…"
	}
	return strings.ToValidUTF8(name, "�")
}
