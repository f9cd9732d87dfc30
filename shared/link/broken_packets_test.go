package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

// Packets on which paho would panic or hang, or for which it would allocate without limit, end the session with a
// reason.
func TestBrokenPackets(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"length of five bytes", "\x30\xff\xff\xff\xff\x01", "four bytes"},
		{"SUBACK for nothing", "\x90\x04\x00\x01\x00\x00", "0 filters"},
		{"short SUBACK", "\x90\x01\x00", "SUBACK"},
		{"PUBREC", "\x50\x02\x00\x01", "type 5"},
		{"long PUBACK", "\x40\x03\x00\x01\x00", "PUBACK"},
		{"QoS 3", "\x36\x05\x00\x01t\x00\x01", "malformed PUBLISH"},
		{"topic past the end", "\x30\x03\x00\x05t", "malformed PUBLISH"},
		{"no packet ID", "\x32\x03\x00\x01t", "malformed PUBLISH"},
		{"empty topic", "\x30\x02\x00\x00", "malformed PUBLISH"},
		{"type 0", "\x00\x00", "type 0"},
		{"CONNECT", "\x10\x00", "type 1"},
		{"cut short", "\x30\x05\x00", "closed the connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				d := dial(t, s, link.Config{Filters: []string{"t"}}, nil)
				synctest.Wait()
				s.peer("x").push(rawPacket(c.raw))
				synctest.Wait()
				if c.name == "cut short" {
					s.Cut("x")
					synctest.Wait()
				}
				d.firstDown(1, c.want)
				if len(d.Messages()) != 0 {
					t.Errorf("received %v", d.Messages())
				}
				d.stop()
			})
		})
	}
	t.Run("SUBACK with a code too many", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *server) {
			s.mute[packets.Subscribe] = true
			s.onPacket = func(p *peer, cp packets.ControlPacket) {
				if m, ok := cp.(*packets.SubscribePacket); ok {
					ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
					ack.MessageID, ack.ReturnCodes = m.MessageID, []byte{1, 1}
					p.push(ack)
				}
			}
			d := dial(t, s, link.Config{Filters: []string{"t"}}, nil)
			synctest.Wait()
			d.firstDown(0, "2 codes for 1 filters")
			d.stop()
		})
	})
}

// 20,000 retained messages, each of which the Handler answers with a Publish, all arrive and are acknowledged and
// answered.
func TestRetainedFlood(t *testing.T) {
	const n = 20_000
	bubble(t, func(t *testing.T, s *server) {
		for i := range n {
			s.route(fmt.Sprintf("r/%d", i), []byte("0123456789"), true)
		}
		var answered atomic.Int64
		s.onPacket = func(_ *peer, cp packets.ControlPacket) {
			if _, ok := cp.(*packets.PublishPacket); ok {
				answered.Add(1)
			}
		}
		var d *dialled
		up, ready := make(chan struct{}), make(chan struct{})
		r := &linktest.Recorder{OnUp: func(uint64) { close(up) }}
		r.OnMessage = func(m link.Message) { <-up; <-ready; d.publish("a", m.Topic) }
		d = dial(t, s, link.Config{Filters: []string{"r/+"}}, r)
		close(ready)
		synctest.Wait()
		topics := map[string]bool{}
		for _, m := range d.Messages() {
			topics[m.Topic] = m.Retained
		}
		if p := s.peer("x"); len(topics) != n || p == nil || p.acks != n || answered.Load() != n {
			t.Errorf("%d topics received, %d answered, Down %v", len(topics), answered.Load(), d.Downs())
		}
		d.stop()
	})
}

// A message that is too large is refused before it is sent, and the session goes on.
func TestLargePublish(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		d := dial(t, s, link.Config{MaxPacket: 1000, Filters: []string{"t"}}, nil)
		synctest.Wait()
		if err := d.Publish(context.Background(), "t", make([]byte, 1000), false); err == nil ||
			errors.Is(err, link.ErrDown) {
			t.Errorf("Publish: %v", err)
		}
		d.publish("t", strings.Repeat("x", 900))
		synctest.Wait()
		if len(d.Messages()) != 1 || len(d.Downs()) != 0 {
			t.Errorf("received %d, Down %v", len(d.Messages()), d.Downs())
		}
		d.stop()
	})
}
