package server

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// hook is what mochi asks and tells. Its methods run in the goroutine that reads the client's
// packets, but for OnACLCheck and OnPublishDropped, which run in the publisher's.
type hook struct {
	mqtt.HookBase
	*Server
}

func (h *hook) ID() string { return "tandem" }

func (h *hook) Provides(b byte) bool {
	return bytes.IndexByte([]byte{
		mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablished, mqtt.OnACLCheck, mqtt.OnPacketRead,
		mqtt.OnPacketEncode, mqtt.OnPacketProcessed, mqtt.OnSubscribe, mqtt.OnSubscribed, mqtt.OnPublish, mqtt.OnRetainMessage,
		mqtt.OnPublishDropped, mqtt.OnWill,
	}, b) >= 0
}

// sessionOf returns nil for the server's own client.
func sessionOf(cl *mqtt.Client) *session {
	if c, ok := cl.Net.Conn.(*conn); ok {
		return c.sess
	}
	return nil
}

// OnConnect authenticates the client, ends what held its ID, and makes its session.
func (h *hook) OnConnect(cl *mqtt.Client, pk packets.Packet) error {
	c := cl.Net.Conn.(*conn) // only conn.serve establishes connections
	refuse := func(code packets.Code, why error) error {
		if err := h.mq.SendConnack(cl, code, false, nil); err != nil {
			why = fmt.Errorf("%w; and it could not be told: %w", why, err)
		}
		return why
	}
	if pk.ProtocolVersion > 4 {
		return refuse(packets.ErrUnsupportedProtocolVersion, fmt.Errorf("MQTT protocol version %d is not spoken here, 3.1.1 is", pk.ProtocolVersion))
	}
	if cl.ID == mqtt.InlineClientId {
		return refuse(packets.ErrClientIdentifierNotValid, fmt.Errorf("client ID %q is the broker's own", cl.ID))
	}
	who, err := h.authenticate(c, pk)
	if err != nil {
		return refuse(packets.ErrBadUsernameOrPassword, err)
	}
	s := &session{id: cl.ID, who: who, grants: acl.Rules{Unit: h.unit}.For(who), conn: c, client: cl, done: make(chan struct{})}
	if err := h.sessions.claim(s, h.limits.FirstReadTimeout, h.emit); err != nil {
		return refuse(packets.ErrServerUnavailable, err)
	}
	c.sess = s
	// Sessions end with their connection: a resumed one is replayed out of order and, when full,
	// keeps the oldest. Retained state carries what a client missed. CONNACK says "no session".
	cl.Properties.Clean = true
	if w := &cl.Properties.Will; w.Flag != 0 {
		if _, ok := s.grants.Publish(w.TopicName); !ok {
			h.deny(s, w.TopicName, "as last will")
			*w = mqtt.Will{}
		}
	}
	return nil
}

func (h *hook) authenticate(c *conn, pk packets.Packet) (who acl.Identity, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("authentication panicked: %s", panicDetail(r))
			h.emit(Event{Kind: Panicked, ClientID: pk.Connect.ClientIdentifier, Remote: c.remote, Detail: err.Error()})
		}
	}()
	return h.auth(ConnectInfo{
		ClientID: pk.Connect.ClientIdentifier, Username: string(pk.Connect.Username), Password: pk.Connect.Password,
		Remote: c.RemoteAddr(), TLS: tlsState(c.Conn),
	})
}

// OnConnectAuthenticate agrees with what OnConnect decided.
func (h *hook) OnConnectAuthenticate(cl *mqtt.Client, _ packets.Packet) bool {
	return sessionOf(cl) != nil
}

func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	s := sessionOf(cl)
	s.established = true
	h.emit(Event{Kind: Connected, ClientID: s.id, Remote: s.conn.remote})
}

// OnACLCheck lets every publish through to OnPublish, which can discard one without the
// disconnection that mochi answers a refusal with. For reading it is the second guard, asked
// again for every delivery: OnSubscribe is the first.
func (h *hook) OnACLCheck(cl *mqtt.Client, name string, write bool) bool {
	if write {
		return true
	}
	s := sessionOf(cl)
	return s != nil && s.grants.Subscribe(name)
}

// refusedTopic stands in for a topic that mochi would drop without an acknowledgement.
const refusedTopic = "refused"

// OnPacketRead mends two things before mochi looks at a packet. A publish below "$" it would
// drop unacknowledged, and the client would repeat it for ever: it is denied like any other. And
// a SUBSCRIBE whose packet ID equals that of a message on its way to the client it would refuse,
// though the two have nothing to do with each other: the ID is set aside, where OnPacketEncode
// finds it.
func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	s := sessionOf(cl)
	if s == nil {
		return pk, nil
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		if strings.HasPrefix(pk.TopicName, "$") {
			h.deny(s, pk.TopicName, "")
			pk.TopicName = refusedTopic
		}
	case packets.Subscribe, packets.Unsubscribe:
		if pk.PacketID != 0 {
			s.packetID = pk.PacketID
			pk.PacketID, pk.FixedHeader.Qos = 0, 0 // no message has ID 0, and without QoS it is valid
		}
	}
	return pk, nil
}

// OnPacketEncode gives the answer to a SUBSCRIBE or UNSUBSCRIBE its packet ID back. The answer
// is written by the goroutine that read the question.
func (h *hook) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	switch pk.FixedHeader.Type {
	case packets.Suback, packets.Unsuback:
		if s := sessionOf(cl); s != nil {
			pk.PacketID = s.packetID
		}
	}
	return pk
}

// OnPublish decides what becomes of a publish before it is retained, acknowledged or delivered.
// mochi knows two errors: CodeSuccessIgnore acknowledges and discards; ErrRejectPacket does
// nothing, not even acknowledge. After any other it would store and acknowledge all the same.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline {
		if pk.FixedHeader.Retain {
			h.retain.Lock() // OnRetainMessage unlocks
		}
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
	if pk.FixedHeader.Retain {
		pk.TopicName = strings.Clone(pk.TopicName) // or what is retained would keep the packet it came in
		h.retain.Lock()                            // OnRetainMessage unlocks
		s.retaining = true
	}
	return pk, nil
}

// OnRetainMessage is the next thing that happens after OnPublish and OnWill let a retained
// message through.
func (h *hook) OnRetainMessage(cl *mqtt.Client, _ packets.Packet, _ int64) {
	if s := sessionOf(cl); s != nil {
		s.retaining = false
	}
	h.retain.Unlock()
}

// roomForKind reports whether a node may have one more retained report on this topic.
func (h *hook) roomForKind(name string) bool {
	i := strings.LastIndexByte(name, '/')
	if acl.Known(wire.Kind(name[i+1:])) {
		return true
	}
	if _, ok := h.mq.Topics.Retained.Get(name); ok {
		return true
	}
	h.retain.RLock()
	defer h.retain.RUnlock()
	extra := 0
	for _, pk := range h.mq.Topics.Messages(name[:i] + "/+") {
		if !acl.Known(wire.Kind(pk.TopicName[i+1:])) {
			extra++
		}
	}
	return extra < h.limits.ExtraKinds
}

// OnWill decides about a last will on its way out. An empty one goes nowhere.
func (h *hook) OnWill(cl *mqtt.Client, will mqtt.Will) (mqtt.Will, error) {
	s := sessionOf(cl)
	if s == nil || !h.admitWill(s, &will) {
		return mqtt.Will{}, nil
	}
	if will.Retain {
		h.retain.Lock() // OnRetainMessage unlocks
		s.retaining = true
	}
	return will, nil
}

// admitWill drops wills that would tell an untruth: when the broker closes, it is not the
// clients that are gone; when a newer session has taken over, its own word stands. The rest are
// publishes like any other, but that nobody waits for an acknowledgement.
func (h *hook) admitWill(s *session, will *mqtt.Will) bool {
	if h.closing.Load() || s.takenOver.Load() {
		return false
	}
	leaf, ok := s.grants.Publish(will.TopicName)
	if !ok {
		return false // OnConnect told it
	}
	m := Message{Topic: will.TopicName, Payload: will.Payload, ClientID: s.id, Retain: will.Retain, Will: true}
	will.Retain = will.Retain && acl.Retained(leaf) && (leaf != topic.Reported || h.roomForKind(will.TopicName))
	// One that was not taken is of use only where it is retained, to be found later.
	return h.take(s, m) == nil || will.Retain
}

// OnSubscribe puts an invalid filter in the place of each that is denied, so that mochi answers
// it with a failure code.
func (h *hook) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	s := sessionOf(cl)
	if s == nil {
		return pk
	}
	room := h.limits.MaxSubscriptions - cl.State.Subscriptions.Len()
	for i := range pk.Filters {
		f := &pk.Filters[i]
		why := ""
		if !s.grants.Subscribe(f.Filter) {
			why = "not permitted"
		} else if _, again := cl.State.Subscriptions.Get(f.Filter); !again {
			if room--; room < 0 {
				why = fmt.Sprintf("more than %d subscriptions", h.limits.MaxSubscriptions)
			}
		}
		if why == "" {
			continue
		}
		h.count.deniedSubscribes.Add(1)
		h.emitThrough(&s.unsubscribed, Event{Kind: DeniedSubscribe, ClientID: s.id, Remote: s.conn.remote, Topic: clip(f.Filter), Detail: why})
		f.Filter = ""
	}
	return pk
}

// OnSubscribed comes just before mochi looks for retained messages, and OnPacketProcessed just
// after. Between them nothing may be retained: mochi reads the topics' retain marks unguarded.
func (h *hook) OnSubscribed(cl *mqtt.Client, _ packets.Packet, _ []byte) {
	if s := sessionOf(cl); s != nil {
		h.retain.RLock()
		s.scanning = true
	}
}

// OnPacketProcessed ends what OnSubscribed began.
func (h *hook) OnPacketProcessed(cl *mqtt.Client, _ packets.Packet, _ error) {
	if s := sessionOf(cl); s != nil && s.scanning {
		s.scanning = false
		h.retain.RUnlock()
	}
}

// OnPublishDropped tells that a client's queue was full.
func (h *hook) OnPublishDropped(cl *mqtt.Client, pk packets.Packet) {
	if s := sessionOf(cl); s != nil {
		h.emitThrough(&s.dropped, Event{Kind: Dropped, ClientID: s.id, Remote: s.conn.remote, Topic: clip(pk.TopicName),
			Detail: fmt.Sprintf("more than %d messages were waiting", h.limits.PendingPerClient)})
	}
}

// deny records a publish that is acknowledged and discarded.
func (s *Server) deny(by *session, name, detail string) {
	s.count.deniedPublishes.Add(1)
	s.emitThrough(&by.denied, Event{Kind: DeniedPublish, ClientID: by.id, Remote: by.conn.remote, Topic: clip(name), Detail: detail})
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
			s.emit(Event{Kind: IntakeFailed, ClientID: by.id, Remote: by.conn.remote, Topic: m.Topic, Detail: err.Error()})
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

var errPanic = errors.New("panic")
