package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// hook implements mochi's callbacks, which mochi calls in the publisher's goroutine.
type hook struct {
	mqtt.HookBase
	*Server
	deliveries atomic.Uint64
}

// inTurn is how many deliveries are made before others have their turn: what is for ten thousand clients would
// otherwise wake as many goroutines at once, and whatever else is to be done waits behind them.
const inTurn = 64

func (h *hook) ID() string { return "tandem" }

func (h *hook) Provides(b byte) bool {
	return b == mqtt.OnACLCheck || b == mqtt.OnPublish || b == mqtt.OnPublishDropped
}

// sessionOf returns the session of a client; nil for the broker's own client.
func sessionOf(cl *mqtt.Client) *session {
	if c, ok := cl.Net.Conn.(*conn); ok {
		return c.sess
	}
	return nil
}

// OnACLCheck permits every publish: OnPublish can discard one, whereas mochi would disconnect the client.
//
// mochi calls it for every delivery, too. It is the second check of reading; Server.refuses, at the subscription, is
// the first. It denies everything to a client that has not subscribed: mochi looks up subscribers by ID, and may find
// the next session of a client that has gone.
func (h *hook) OnACLCheck(cl *mqtt.Client, name string, write bool) bool {
	if write {
		return true
	}
	if h.deliveries.Add(1)%inTurn == 0 {
		runtime.Gosched()
	}
	s := sessionOf(cl)
	return s != nil && s.subscribed.Load() && s.grants.Subscribe(name)
}

// refusedTopic replaces a topic that mochi would drop without an acknowledgement.
const refusedTopic = "refused"

// OnPublish checks a publish, gives it to the intake and retains it, before mochi acknowledges and delivers it. Of
// errors, mochi knows two: after CodeSuccessIgnore it acknowledges and discards the message, after ErrRejectPacket it
// does nothing. After any other it would go on as without an error.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline {
		h.retain(&pk)
		return pk, nil
	}
	s := sessionOf(cl)
	leaf, ok := s.grants.Publish(pk.TopicName)
	if !ok && pk.FixedHeader.Retain && len(pk.Payload) == 0 {
		leaf, ok = s.grants.Clear(pk.TopicName)
	}
	if !ok {
		if pk.TopicName != refusedTopic {
			h.deny(s, pk.TopicName, "")
		}
		return pk, packets.CodeSuccessIgnore
	}
	m := Message{Topic: pk.TopicName, Payload: pk.Payload, ClientID: s.id, Retain: pk.FixedHeader.Retain}
	if !acl.Retained(leaf) {
		pk.FixedHeader.Retain = false // otherwise every new subscriber would get an old event or reply
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

// retain retains a message if its flag says so. It clears the flag, so that mochi does not retain it too.
func (s *Server) retain(pk *packets.Packet) {
	if pk.FixedHeader.Retain {
		s.retained.set(pk.TopicName, pk.Payload, pk.FixedHeader.Qos)
		pk.FixedHeader.Retain = false
	}
}

// roomForKind reports whether a report on this topic may be retained: it is of a kind of the contract, is retained
// already, or the node has fewer than Limits.ExtraKinds of other kinds.
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

// OnPublishDropped emits an event about a message that a client did not get because its queue was full.
func (h *hook) OnPublishDropped(cl *mqtt.Client, pk packets.Packet) {
	if s := sessionOf(cl); s != nil {
		h.dropped(s, pk.TopicName, fmt.Sprintf("more than %d messages were waiting", h.limits.PendingPerClient))
	}
}

// dropped emits an event, rate-limited, about a message that was not sent to a client.
func (s *Server) dropped(to *session, name, detail string) {
	s.emitThrough(&to.dropped, Event{Kind: Dropped, ClientID: to.id, Remote: to.conn.remote, Topic: clip(name),
		Detail: detail})
}

// deny counts a publish that is acknowledged and discarded, and emits an event, rate-limited.
func (s *Server) deny(by *session, name, detail string) {
	s.count.deniedPublishes.Add(1)
	s.emitThrough(&by.denied, Event{Kind: DeniedPublish, ClientID: by.id, Remote: by.conn.remote, Topic: clip(name),
		Detail: detail})
}

// take gives a message to the intake if its sender is a node or a cloud side. An error means that the intake does not
// have it.
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

// clip shortens a topic or filter for an event.
func clip(name string) string {
	if len(name) > acl.MaxFilter {
		name = name[:acl.MaxFilter] + "…"
	}
	return strings.ToValidUTF8(name, "�")
}
