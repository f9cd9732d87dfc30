package server

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// failure is the return code in SUBACK for a filter that is refused (MQTT 3.1.1, section 3.9.3).
const failure = 0x80

// subscribe answers a SUBSCRIBE and sends the retained messages on the topics that match. mochi's answer would use
// mochi's store of retained messages. It would also refuse a packet ID that an unacknowledged message to the client
// has, although the packet IDs of the two directions are independent.
//
// The retained messages are written at once and in one piece, before the messages in mochi's queue. The queue is empty
// when a client subscribes for the first time. A client that subscribes again may get a retained message before older
// messages of the same topic; it gets the newest message last in any case.
func (s *Server) subscribe(sess *session, pk packets.Packet) error {
	if code := pk.SubscribeValidate(); code != packets.CodeSuccess {
		return code
	}
	codes := make([]byte, len(pk.Filters))
	out := outgoing{Server: s, sess: sess}
	s.retained.mu.RLock()
	held := true
	release := func() {
		if held {
			held = false
			s.retained.mu.RUnlock()
		}
	}
	defer release()
	sess.subscribed.Store(true)
	for i, f := range pk.Filters {
		if why := s.refuses(sess, f.Filter); why != "" {
			s.count.deniedSubscribes.Add(1)
			s.emitThrough(&sess.unsubscribed, Event{Kind: DeniedSubscribe, ClientID: sess.id, Remote: sess.conn.remote,
				Topic: clip(f.Filter), Detail: why})
			codes[i] = failure
			continue
		}
		codes[i] = f.Qos
		if s.mq.Topics.Subscribe(sess.id, f) {
			sess.filters = append(sess.filters, f.Filter)
			atomic.AddInt64(&s.mq.Info.Subscriptions, 1)
		}
	}
	err := out.add(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Suback}, PacketID: pk.PacketID,
		ReasonCodes: codes})
	for i, f := range pk.Filters {
		if codes[i] == failure {
			continue
		}
		s.retained.match(f.Filter, func(name string, payload []byte, qos byte) {
			if err == nil {
				err = out.message(name, payload, min(qos, f.Qos))
			}
		})
	}
	if err != nil {
		return err
	}
	return out.write(release)
}

// refuses returns why a client may not subscribe to a filter; "": it may.
func (s *Server) refuses(sess *session, filter string) string {
	if !sess.grants.Subscribe(filter) {
		return "not permitted"
	}
	if len(sess.filters) >= s.limits.MaxSubscriptions && !slices.Contains(sess.filters, filter) {
		return fmt.Sprintf("more than %d subscriptions", s.limits.MaxSubscriptions)
	}
	return ""
}

// unsubscribe answers an UNSUBSCRIBE.
func (s *Server) unsubscribe(sess *session, pk packets.Packet) error {
	if code := pk.UnsubscribeValidate(); code != packets.CodeSuccess {
		return code
	}
	for _, f := range pk.Filters {
		if i := slices.Index(sess.filters, f.Filter); i >= 0 {
			sess.filters = slices.Delete(sess.filters, i, i+1)
			s.dropSubscription(sess, f.Filter)
		}
	}
	return sess.client.WritePacket(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsuback},
		PacketID: pk.PacketID})
}

// dropSubscription removes a subscription from mochi.
func (s *Server) dropSubscription(sess *session, filter string) {
	if s.mq.Topics.Unsubscribe(filter, sess.id) {
		atomic.AddInt64(&s.mq.Info.Subscriptions, -1)
	}
}

// outgoing collects packets that are written to a client in one piece.
type outgoing struct {
	*Server
	sess     *session
	buf      bytes.Buffer
	messages int64
}

// add encodes a SUBACK or PUBLISH packet.
func (o *outgoing) add(pk packets.Packet) error {
	switch pk.ProtocolVersion = o.sess.client.Properties.ProtocolVersion; pk.FixedHeader.Type {
	case packets.Suback:
		return pk.SubackEncode(&o.buf)
	default:
		return pk.PublishEncode(&o.buf)
	}
}

// message adds a retained message if the client may read it. A message that exceeds the client's limits is dropped,
// with an event.
func (o *outgoing) message(name string, payload []byte, qos byte) error {
	if !o.sess.grants.Subscribe(name) {
		return nil
	}
	if o.buf.Len()+len(name)+len(payload)+16 > o.limits.PendingBytes {
		atomic.AddInt64(&o.mq.Info.MessagesDropped, 1)
		o.dropped(o.sess, name, fmt.Sprintf("more than %d bytes were waiting", o.limits.PendingBytes))
		return nil
	}
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos, Retain: true},
		TopicName: name, Payload: payload}
	if qos > 0 {
		cl := o.sess.client
		if cl.State.Inflight.Len() >= o.limits.Inflight {
			atomic.AddInt64(&o.mq.Info.InflightDropped, 1)
			o.dropped(o.sess, "", unacknowledged)
			return nil
		}
		id, err := cl.NextPacketID()
		if err != nil {
			return err
		}
		// The ID is in use until it is acknowledged. The payload is not kept, because nothing is sent again.
		pk.PacketID = uint16(id)
		cl.State.Inflight.Set(packets.Packet{FixedHeader: pk.FixedHeader, PacketID: pk.PacketID,
			Created: time.Now().Unix()})
		atomic.AddInt64(&o.mq.Info.Inflight, 1)
	}
	o.messages++
	return o.add(pk)
}

// write writes the packets. It calls placed as soon as no other packet can come before them.
func (o *outgoing) write(placed func()) error {
	cl := o.sess.client
	cl.Lock() // as mochi does for each packet
	defer cl.Unlock()
	placed()
	n, err := o.sess.conn.Write(o.buf.Bytes())
	if err != nil {
		return err
	}
	atomic.AddInt64(&o.mq.Info.BytesSent, int64(n))
	atomic.AddInt64(&o.mq.Info.MessagesSent, o.messages)
	return nil
}
