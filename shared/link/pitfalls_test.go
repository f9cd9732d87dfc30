package link_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

// published records the payloads of the PUBLISH packets that reach the server.
type published struct {
	mu   sync.Mutex
	list []string
}

func (p *published) see(_ *peer, cp packets.ControlPacket) {
	if m, ok := cp.(*packets.PublishPacket); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		s := string(m.Payload)
		if m.Dup {
			s += " (again)"
		}
		p.list = append(p.list, s)
	}
}

func (p *published) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// Pitfalls 1 and 2: unacknowledged messages are not sent again in another session, and messages arrive in the order of
// the Publish calls.
func TestNothingReplayed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var seen published
		s.onPacket = seen.see
		s.mute[packets.Publish] = true
		d := dial(t, s, link.Config{Window: 200}, nil)
		synctest.Wait()
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprintf("a%d", i))
			d.publish("t", want[i])
		}
		synctest.Wait()
		s.Cut("x")
		pass(time.Minute)
		if n := len(d.Ups()); n != 2 {
			t.Fatalf("%d sessions, want 2", n)
		}
		s.set(func() { s.mute[packets.Publish] = false })
		for i := range 100 {
			want = append(want, fmt.Sprintf("b%d", i))
			d.publish("t", want[100+i])
		}
		synctest.Wait()
		if got := seen.all(); !slices.Equal(got, want) {
			t.Errorf("the server saw %d publishes: %v", len(got), got)
		}
		d.stop()
	})
}

// Pitfall 1: a publish that is never acknowledged ends the session.
func TestAckTimeout(t *testing.T) {
	for _, mute := range []byte{packets.Publish, packets.Subscribe, packets.Unsubscribe} {
		t.Run(packets.PacketNames[mute], func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				d := dial(t, s, link.Config{AckTimeout: 7 * time.Second}, nil)
				synctest.Wait()
				s.set(func() { s.mute[mute] = true })
				begin := time.Now()
				var err error
				switch mute {
				case packets.Publish:
					d.publish("t", "1")
				case packets.Subscribe:
					err = d.Subscribe(context.Background(), "f")
				case packets.Unsubscribe:
					err = d.Unsubscribe(context.Background(), "f")
				}
				if mute != packets.Publish && (!errors.Is(err, link.ErrDown) || time.Since(begin) != 7*time.Second) {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
				pass(time.Until(begin.Add(7*time.Second - time.Nanosecond)))
				if mute == packets.Publish && len(d.Downs()) != 0 {
					t.Error("ended too early")
				}
				pass(time.Until(begin.Add(8 * time.Second)))
				d.firstDown(1, "did not acknowledge", "7s")
				d.stop()
			})
		})
	}
}

// Pitfall 3: a Message call that waits for another message and for an acknowledgement blocks nothing else.
func TestMessageMayWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		second := make(chan struct{})
		var d *dialled
		r := &linktest.Recorder{}
		r.OnMessage = func(m link.Message) {
			if string(m.Payload) == "2" {
				close(second)
				return
			}
			for range 10 { // a window of one: each Publish waits for the acknowledgement before
				d.publish("out", "x")
			}
			<-second
		}
		d = dial(t, s, link.Config{Filters: []string{"in"}, Window: 1}, r)
		synctest.Wait()
		s.route("in", []byte("1"), false)
		pass(time.Hour)
		if p := s.peer("x"); p == nil || p.acks != 0 {
			t.Fatal("the session ended, or the message was acknowledged before the call returned")
		}
		s.route("in", []byte("2"), false)
		synctest.Wait()
		if n := s.peer("x").acks; n != 2 || len(d.Downs()) != 0 {
			t.Errorf("%d acknowledgements, want 2; Down %v", n, d.Downs())
		}
		d.stop()
	})
}

// A message is acknowledged after its Message call. A call that lasts longer than its session acknowledges nothing in
// the next session.
func TestAckAfterReturn(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		leave := make(chan struct{})
		d := dial(t, s, link.Config{Filters: []string{"in"}},
			&linktest.Recorder{OnMessage: func(link.Message) { <-leave }})
		synctest.Wait()
		s.route("in", []byte("1"), false)
		synctest.Wait()
		first := s.peer("x")
		s.Cut("x")
		pass(time.Minute)
		s.route("in", []byte("2"), false)
		synctest.Wait()
		second := s.peer("x")
		if first.acks != 0 || second.acks != 0 || len(d.Messages()) != 2 {
			t.Fatalf("acknowledged %d and %d of %d", first.acks, second.acks, len(d.Messages()))
		}
		leave <- struct{}{}
		leave <- struct{}{}
		synctest.Wait()
		if first.acks != 0 || second.acks != 1 {
			t.Errorf("acknowledged %d and %d, want 0 and 1", first.acks, second.acks)
		}
		d.stop()
	})
}

// Pitfall 4: the error about a refused filter names it, in whichever packet it was. A packet has at most 256 filters,
// and the packets are sent one after the other.
func TestSubscribePackets(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var mu sync.Mutex
		var sizes []int
		s.onPacket = func(_ *peer, cp packets.ControlPacket) {
			if m, ok := cp.(*packets.SubscribePacket); ok {
				mu.Lock()
				sizes = append(sizes, len(m.Topics))
				mu.Unlock()
			}
		}
		var filters []string
		for i := range 600 {
			filters = append(filters, fmt.Sprintf("f/%d", i))
		}
		s.Refuse("f/300")
		d := dial(t, s, link.Config{Filters: filters, Backoff: link.Backoff{Min: time.Hour, Max: time.Hour}}, nil)
		synctest.Wait()
		d.firstDown(0, `"f/300"`, "refuses")
		if len(d.Ups()) != 0 || !slices.Equal(sizes, []int{256, 256}) {
			t.Errorf("Up %v; filters in packets: %v", d.Ups(), sizes)
		}
		d.stop()

		sizes = nil
		s.set(func() { clear(s.refused); s.mute[packets.Subscribe] = true })
		d = dial(t, s, link.Config{Filters: filters}, nil)
		synctest.Wait()
		if !slices.Equal(sizes, []int{256}) {
			t.Errorf("before the first SUBACK: %v", sizes)
		}
		d.stop()
		s.set(func() { s.mute[packets.Subscribe] = false })
		sizes = nil
		d = dial(t, s, link.Config{Filters: filters, SubscribeQoS: link.AtMostOnce}, nil)
		synctest.Wait()
		if !slices.Equal(sizes, []int{256, 256, 88}) || len(d.Ups()) != 1 {
			t.Errorf("Up %v; filters in packets: %v", d.Ups(), sizes)
		}
		if q := s.peer("x").filters["f/599"]; q != 0 {
			t.Errorf("subscribed with QoS %d, want 0", q)
		}
		d.stop()
	})
}

// Pitfall 6: the error about a refused CONNECT has the reason, and no attempt as MQTT 3.1 follows.
func TestRefusedConnect(t *testing.T) {
	for code, want := range map[byte]string{
		packets.ErrRefusedBadProtocolVersion:    "does not speak MQTT 3.1.1",
		packets.ErrRefusedIDRejected:            `client ID "x"`,
		packets.ErrRefusedServerUnavailable:     "not available",
		packets.ErrRefusedBadUsernameOrPassword: `password (user "me")`,
		packets.ErrRefusedNotAuthorised:         `does not authorise client "x"`,
		6:                                       "CONNACK code 6,",
		0x82:                                    `code 130, which MQTT 3.1.1 does not have; in MQTT 5 it is "protocol`,
		0x87:                                    "CONNACK code 135",
		0xff:                                    "CONNACK code 255,",
	} {
		bubble(t, func(t *testing.T, s *server) {
			s.connack = code
			var connects []*packets.ConnectPacket
			s.onPacket = func(_ *peer, cp packets.ControlPacket) {
				connects = append(connects,
					cp.(*packets.ConnectPacket))
			}
			d := dial(t, s, link.Config{
				Username: "me", Password: "secret", Backoff: link.Backoff{Min: time.Hour, Max: time.Hour},
			}, nil)
			synctest.Wait()
			d.firstDown(0, want)
			if err := d.Downs()[0].Err; !errors.Is(err, link.ErrRefused) ||
				errors.Is(err, link.ErrUnavailable) != (code == packets.ErrRefusedServerUnavailable) {
				t.Errorf("code %d: %v", code, err)
			}
			if len(connects) != 1 {
				t.Fatalf("code %d: %d CONNECT packets", code, len(connects))
			}
			c := connects[0]
			if c.ProtocolVersion != 4 || !c.CleanSession || c.Username != "me" || string(c.Password) != "secret" ||
				c.Keepalive != 30 {
				t.Errorf("CONNECT %v", c)
			}
			if strings.Contains(d.Downs()[0].Err.Error(), "secret") {
				t.Error("the error shows the password")
			}
			d.stop()
		})
	}
}

// Pitfall 6: WriteTimeout applies to every packet: when a broker stops reading, the session ends, and until then a call
// of Publish can be cancelled.
func TestStalledBroker(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		d := dial(t, s, link.Config{WriteTimeout: 3 * time.Second, AckTimeout: time.Hour}, nil)
		synctest.Wait()
		s.Freeze("x") // reads into its buffer of 16 KiB and then no more
		big := make([]byte, 10_000)
		begin := time.Now()
		var err error
		called := false
		for range 10 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			err = d.Publish(ctx, "t", big, false)
			cancel()
			if err != nil {
				called = true
				break
			}
		}
		if !called || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("Publish: %v after %v", err, time.Since(begin))
		}
		err = d.Publish(context.Background(), "t", big, false)
		if !errors.Is(err, link.ErrDown) || time.Since(begin) > 3*time.Second {
			t.Errorf("Publish: %v after %v", err, time.Since(begin))
		}
		synctest.Wait()
		d.firstDown(1, "cannot write")
		if took := d.stop(); took > 2*time.Second {
			t.Errorf("Run took %v to end", took)
		}
		s.Thaw("x")
	})
}

// A broker that no longer answers pings ends the session; with one that does, the session goes on without other
// packets.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		d := dial(t, s, link.Config{KeepAlive: 20 * time.Second}, nil)
		pass(time.Hour)
		if len(d.Downs()) != 0 {
			t.Fatalf("an idle session ended: %v", d.Downs())
		}
		s.set(func() { s.mute[packets.Pingreq] = true })
		pass(41 * time.Second)
		d.firstDown(1, "nothing heard", "40s")
		d.stop()
	})
}
