package link_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// publishOf returns a PUBLISH packet. The packet ID of QoS 1 is 7.
func publishOf(name string, size int, qos byte, retained bool) rawPacket {
	body := append(binary.BigEndian.AppendUint16(nil, uint16(len(name))), name...)
	if qos > 0 {
		body = append(body, 0, 7)
	}
	head := byte(0x30 | qos<<1)
	if retained {
		head |= 1
	}
	body = append(body, make([]byte, size)...)
	return append(binary.AppendUvarint([]byte{head}, uint64(len(body))), body...)
}

// A PUBLISH that is too long is read past: the session goes on, the handler hears of which topic it was, and the
// broker gets its acknowledgement after that. What fits is delivered.
func TestTooLongIsReadPast(t *testing.T) {
	longest := topic.ForNode(strings.Repeat("u", topic.MaxName), strings.Repeat("n", topic.MaxName)).
		Reported(wire.Kind(strings.Repeat("k", topic.MaxName)))
	for _, c := range []struct {
		name     string
		topic    string
		size     int
		qos      byte
		retained bool
		tooLong  bool
	}{
		{"the largest message on the longest topic", longest, wire.MaxPayload, 1, true, false},
		{"the largest packet", "t", wire.MaxPacket - 9, 1, false, false},
		{"a byte more", "t", wire.MaxPacket - 8, 1, false, true},
		{"a byte more with QoS 0", "t", wire.MaxPacket - 6, 0, false, true},
		{"retained", longest, 1 << 20, 1, true, true},
		{"a topic that is longer than the read buffer", strings.Repeat("t", 65535), wire.MaxPacket, 1, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				returned := make(chan struct{})
				r := &linktest.Recorder{OnMessage: func(link.Message) { <-returned }}
				d := dial(t, s, link.Config{Filters: []string{"x"}}, r)
				synctest.Wait()
				p := s.peer("x")
				p.push(publishOf(c.topic, c.size, c.qos, c.retained))
				synctest.Wait()
				all := d.Messages()
				want := link.Message{Topic: c.topic, Retained: c.retained}
				if c.tooLong {
					want.TooLong = c.size
				} else {
					want.Payload = make([]byte, c.size)
				}
				if len(all) != 1 || all[0].Topic != want.Topic || all[0].TooLong != want.TooLong ||
					all[0].Retained != want.Retained || !bytes.Equal(all[0].Payload, want.Payload) {
					t.Fatalf("%d messages, Down %v", len(all), d.Downs())
				}
				if p.acks != 0 {
					t.Error("acknowledged before the handler returned")
				}
				close(returned)
				synctest.Wait()
				if p.acks != int(c.qos) {
					t.Errorf("%d acknowledgements of QoS %d", p.acks, c.qos)
				}
				p.push(publishOf("after", 1, 1, false))
				synctest.Wait()
				if n := len(d.Messages()); n != 2 || len(d.Downs()) != 0 || p.acks != int(c.qos)+1 {
					t.Errorf("then: %d messages, %d acknowledgements, Down %v", n, p.acks, d.Downs())
				}
				d.stop()
			})
		})
	}
}

// What is too long and cannot be read past, or breaks off, ends the session.
func TestTooLongAndBroken(t *testing.T) {
	long := "\x00\x00\x80\x01" // a length of 2 MiB
	for _, c := range []struct{ name, raw, want string }{
		{"no PUBLISH", "\x90\x80\x80\x80\x01", "more than the limit"},
		{"QoS 2", "\x34\x80\x80\x80\x01\x00\x01t", "malformed PUBLISH"},
		{"an empty topic", "\x32\x80\x80\x80\x01\x00\x00", "malformed PUBLISH"},
		{"cut short", "\x32\x80\x80\x80\x01\x00\x01t" + long, "closed the connection"},
		{"cut short in the topic", "\x32\x80\x80\x80\x01\x00\x09t", "closed the connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				d := dial(t, s, link.Config{Filters: []string{"t"}}, nil)
				synctest.Wait()
				s.peer("x").push(rawPacket(c.raw))
				synctest.Wait()
				if strings.HasPrefix(c.name, "cut short") {
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
}

// maxRemaining is the largest Remaining Length, bytes (MQTT 3.1.1, section 2.2.3).
const maxRemaining = 268_435_455

// slowly writes a PUBLISH of that many bytes after its head, so that it takes minutes.
func slowly(w io.Writer, size int) error {
	head := append(binary.AppendUvarint([]byte{0x30}, uint64(size)), 0, 1, 't')
	_, err := w.Write(head)
	chunk := make([]byte, size/60)
	for left := size - 3; left > 0 && err == nil; left -= len(chunk) {
		time.Sleep(5 * time.Second)
		_, err = w.Write(chunk[:min(left, len(chunk))])
	}
	return err
}

// On a slow road what is read past takes long: what comes behind it is not late, neither while the session begins nor
// later; what does not come after it, is.
func TestTooLongOnASlowRoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, end := net.Pipe()
		r := &linktest.Recorder{}
		once := make(chan net.Conn, 1)
		once <- client
		d := dial(t, nil, link.Config{Filters: []string{"t"}, OpenConn: func(ctx context.Context) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}, r)
		answer := func(p []byte) {
			if _, err := end.Write(p); err != nil {
				t.Error(err)
			}
		}
		asked := make(chan uint16) // IDs of SUBSCRIBE and PUBLISH
		go func() {
			defer close(asked)
			for {
				cp, err := packets.ReadPacket(end)
				switch p := cp.(type) {
				case *packets.SubscribePacket:
					asked <- p.MessageID
				case *packets.PublishPacket:
					asked <- p.MessageID
				case *packets.PingreqPacket, nil:
				}
				if err != nil {
					return
				}
			}
		}()
		answer([]byte{0x20, 2, 0, 0})
		id := <-asked
		if err := slowly(end, 100<<20); err != nil {
			t.Error(err)
		}
		answer([]byte{0x90, 3, byte(id >> 8), byte(id), 1})
		synctest.Wait()
		if len(d.Ups()) != 1 {
			t.Fatalf("no session: %v", d.Downs())
		}
		publish := func() uint16 {
			if err := d.Publish(t.Context(), "x", []byte("y"), false); err != nil {
				t.Error(err)
			}
			return <-asked
		}
		id = publish()
		if err := slowly(end, maxRemaining); err != nil {
			t.Error(err)
		}
		answer([]byte{0x40, 2, byte(id >> 8), byte(id)})
		synctest.Wait()
		if len(d.Downs()) != 0 || len(d.Messages()) != 2 {
			t.Errorf("%d messages, Down %v", len(d.Messages()), d.Downs())
		}
		publish()
		if err := slowly(end, 100<<20); err != nil {
			t.Error(err)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		d.firstDown(1, "did not acknowledge a publish")
		d.stop()
		if err := end.Close(); err != nil {
			t.Error(err)
		}
		for range asked {
		}
	})
}

// What is read past is not held in memory, however long it is.
func TestTooLongTakesNoMemory(t *testing.T) {
	const size = maxRemaining
	client, end := net.Pipe()
	r := &linktest.Recorder{}
	heard := make(chan struct{})
	r.OnMessage = func(link.Message) { close(heard) }
	once := make(chan net.Conn, 1)
	once <- client
	d := dial(t, nil, link.Config{OpenConn: func(ctx context.Context) (net.Conn, error) {
		select {
		case c := <-once:
			return c, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}, r)
	if _, err := packets.ReadPacket(end); err != nil {
		t.Fatal(err)
	}
	head := append(binary.AppendUvarint([]byte{0x30}, size), 0, 1, 't')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chunk := make([]byte, 64<<10)
	_, err := end.Write(append([]byte{0x20, 2, 0, 0}, head...))
	for left := size - 3; left > 0 && err == nil; left -= len(chunk) {
		_, err = end.Write(chunk[:min(left, len(chunk))])
	}
	if err != nil {
		t.Fatal(err)
	}
	<-heard
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 { // net.Pipe has a timer for each piece
		t.Errorf("%d bytes were allocated for a packet of %d that is read past", got, size)
	}
	go func() { _, _ = io.Copy(io.Discard, end) }() // until the link closes it
	d.stop()
	if err := end.Close(); err != nil {
		t.Error(err)
	}
}

// A CONNACK in the form of MQTT 5, with properties, refuses as well.
func TestRefusedAsInMQTT5(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.mute[packets.Connect] = true
		s.onPacket = func(p *peer, cp packets.ControlPacket) {
			if _, ok := cp.(*packets.ConnectPacket); ok {
				p.push(rawPacket("\x20\x03\x00\x84\x00"))
			}
		}
		d := dial(t, s, link.Config{Backoff: link.Backoff{Min: time.Hour, Max: time.Hour}}, nil)
		synctest.Wait()
		d.firstDown(0, "code 132", "unsupported protocol version")
		if err := d.Downs()[0].Err; !errors.Is(err, link.ErrRefused) {
			t.Error(err)
		}
		d.stop()
	})
}
