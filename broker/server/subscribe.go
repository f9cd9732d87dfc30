package server

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// failure is the SUBACK's code for a filter that was refused (MQTT 3.1.1, 3.9.3).
const failure = 0x80

// subscribe answers a SUBSCRIBE and delivers what is retained on the topics that it matches.
// mochi's own answer would take the retained messages from mochi's store, and would refuse a
// packet ID which equals that of a message on its way to the client, though the two have nothing
// to do with each other.
//
// What is found goes out at once and in one piece, past mochi's queue of news, which is empty
// when a client subscribes to something for the first time. One that does so again may see a
// retained message before older news of the same topic; the newest follows in any case.
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
	sess.listens.Store(true)
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

// refuses says why a filter is not subscribed to, "" if it is.
func (s *Server) refuses(sess *session, filter string) string {
	if !sess.grants.Subscribe(filter) {
		return "not permitted"
	}
	if len(sess.filters) >= s.limits.MaxSubscriptions && !slices.Contains(sess.filters, filter) {
		return fmt.Sprintf("more than %d subscriptions", s.limits.MaxSubscriptions)
	}
	return ""
}

// unsubscribe answers an UNSUBSCRIBE; see subscribe.
func (s *Server) unsubscribe(sess *session, pk packets.Packet) error {
	if code := pk.UnsubscribeValidate(); code != packets.CodeSuccess {
		return code
	}
	for _, f := range pk.Filters {
		if i := slices.Index(sess.filters, f.Filter); i >= 0 {
			sess.filters = slices.Delete(sess.filters, i, i+1)
			s.leave(sess, f.Filter)
		}
	}
	return sess.client.WritePacket(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsuback},
		PacketID: pk.PacketID})
}

func (s *Server) leave(sess *session, filter string) {
	if s.mq.Topics.Unsubscribe(filter, sess.id) {
		atomic.AddInt64(&s.mq.Info.Subscriptions, -1)
	}
}

// outgoing collects packets that go to a client in one piece.
type outgoing struct {
	*Server
	sess     *session
	buf      bytes.Buffer
	messages int64
}

func (o *outgoing) add(pk packets.Packet) error {
	switch pk.ProtocolVersion = o.sess.client.Properties.ProtocolVersion; pk.FixedHeader.Type {
	case packets.Suback:
		return pk.SubackEncode(&o.buf)
	default:
		return pk.PublishEncode(&o.buf)
	}
}

// message adds a retained message that the client may read. One that exceeds the client's limits is dropped,
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
		// The ID is taken until it is acknowledged. Nothing is ever sent again: no payload is kept.
		pk.PacketID = uint16(id)
		cl.State.Inflight.Set(packets.Packet{FixedHeader: pk.FixedHeader, PacketID: pk.PacketID,
			Created: time.Now().Unix()})
		atomic.AddInt64(&o.mq.Info.Inflight, 1)
	}
	o.messages++
	return o.add(pk)
}

// write calls placed when the packets have their place in the client's stream, and writes them.
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
