package server

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/wire"
)

func TestTakeover(t *testing.T) {
	taken := make(chan Message, 10)
	s := serve(t, Config{}, func(m Message) { taken <- m })
	will := withWill(of("n1").Live(), "session 1 down", true)
	first := s.dial(t).mustConnect("node/n1", will)
	first.report(of("n1").Live(), "session 1 up", true)
	first.subscribe(of("n1").DesiredFilter())

	second := s.dial(t).mustConnect("node/n1", withWill(of("n1").Live(), "session 2 down", true))
	first.gone()
	second.subscribe(of("n1").DesiredFilter())
	second.report(of("n1").Live(), "session 2 up", true)
	ev := s.events.wait(t, Takeover)
	if ev.ClientID != "node/n1" || ev.OldRemote != first.nc.LocalAddr().String() ||
		ev.Remote != second.nc.LocalAddr().String() {
		t.Errorf("%+v", ev)
	}
	if gone := s.events.wait(t, Disconnected); !strings.HasPrefix(gone.Detail, "taken over by") {
		t.Errorf("%+v", gone)
	}
	for _, want := range []string{"session 1 up", "session 2 up"} {
		if m := <-taken; string(m.Payload) != want {
			t.Errorf("the intake heard %q, want %q", m.Payload, want)
		}
	}
	if got, _ := s.Retained(of("n1").Live()); string(got) != "session 2 up" {
		t.Errorf("retained: %q", got)
	}
	// The new session is whole: it hears what is published, and its own will is said.
	if err := s.Publish(of("n1").Desired("config"), []byte("doc"), true); err != nil {
		t.Fatal(err)
	}
	if pk := second.next(packets.Publish); string(pk.Payload) != "doc" {
		t.Errorf("%q", pk.Payload)
	}
	second.nc.Close()
	if m := <-taken; string(m.Payload) != "session 2 down" || !m.Will || !m.Retain || m.ClientID != "node/n1" {
		t.Errorf("will: %+v", m)
	}
	eventually(t, "the will is retained", func() bool {
		got, _ := s.Retained(of("n1").Live())
		return string(got) == "session 2 down"
	})
	if len(s.events.of(Fight)) != 0 {
		t.Error("one takeover was told as a fight")
	}
}

// TestTakeoverStorm connects many clients with the same ID at once. With mochi alone, a client can stay connected that
// mochi does not know any more. Here exactly one client must stay connected, and get messages.
func TestTakeoverStorm(t *testing.T) {
	s := serve(t, Config{}, nil)
	const clients, rounds = 8, 10
	for round := range rounds {
		var wg sync.WaitGroup
		heard := make(chan string, 2*clients)
		for i := range clients {
			c := s.dial(t)
			wg.Go(func() {
				b, err := encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect},
					ProtocolVersion: 4, Connect: packets.ConnectParams{
						ProtocolName: []byte("MQTT"), Clean: true, Keepalive: 60, ClientIdentifier: "node/n1",
						UsernameFlag: true, Username: []byte("node/n1")}})
				sub, err2 := encode(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1},
					PacketID: 1,
					Filters:  packets.Subscriptions{{Filter: of("n1").DesiredFilter(), Qos: 1}}, ProtocolVersion: 4})
				if err != nil || err2 != nil {
					t.Error(err, err2)
					return
				}
				if _, err := c.nc.Write(append(b, sub...)); err != nil {
					return // cut already
				}
				for {
					pk, err := c.read()
					if err != nil {
						return
					}
					if pk.FixedHeader.Type == packets.Publish {
						heard <- fmt.Sprintf("%d:%s", i, pk.Payload)
						c.nc.Close()
						return
					}
				}
			})
		}
		eventually(t, "all have come and one is left", func() bool {
			st := s.Stats()
			return st.Takeovers == int64((round+1)*(clients-1)) && st.Connections == 1 && st.Clients == 1 &&
				st.Subscriptions == 1
		})
		if err := s.Publish(of("n1").Desired("config"), []byte("doc"), false); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if len(heard) != 1 {
			t.Fatalf("round %d: %d clients heard the document", round, len(heard))
		}
		eventually(t, "nobody is left", func() bool {
			st := s.Stats()
			return st.Connections == 0 &&
				st.Subscriptions == 0
		})
	}
}

func TestFightIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		s := startPiped(t, p, Config{}, nil)
		// An agent with a flaky link takes its own ID over now and then: no fight.
		for range 10 {
			dialPipe(t, p).mustConnect("node/calm")
			time.Sleep(30 * time.Second)
		}
		synctest.Wait()
		if got := s.events.of(Fight); len(got) != 0 {
			t.Errorf("told: %+v", got)
		}
		// Two that reconnect as soon as they are cut.
		for range 200 {
			dialPipe(t, p).mustConnect("node/n1")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		fights := s.events.of(Fight)
		if len(fights) < 3 || len(fights) > 4 { // once a minute, for 200 seconds
			t.Fatalf("%d fights told", len(fights))
		}
		if f := fights[0]; f.ClientID != "node/n1" || f.OldRemote == "" ||
			!strings.Contains(f.Detail, "share this ID") {
			t.Errorf("%+v", f)
		}
		s.Close()
	})
}

func TestClosePublishesNoWills(t *testing.T) {
	var mu sync.Mutex
	var taken []Message
	s := serve(t, Config{}, func(m Message) { mu.Lock(); taken = append(taken, m); mu.Unlock() })
	for i := range 20 {
		c := s.dial(t).mustConnect("node/"+node(i), withWill(of(node(i)).Live(), "down", true))
		c.report(of(node(i)).Live(), "up", true)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(taken) != 20 {
		t.Errorf("the intake heard %d messages, want the 20 that were sent", len(taken))
	}
	for i := range 20 {
		if got, _ := s.Retained(of(node(i)).Live()); string(got) != "up" {
			t.Errorf("%s: %q", node(i), got)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := s.Publish("a", nil, false); err != ErrClosed {
		t.Errorf("Publish: %v", err)
	}
	if err := s.Start(); err != ErrClosed {
		t.Errorf("Start: %v", err)
	}
	for _, ev := range s.events.of(Disconnected) {
		if ev.Detail != "the broker is closing" {
			t.Errorf("%+v", ev)
		}
	}
}

func TestWills(t *testing.T) {
	taken := make(chan Message, 10)
	s := serve(t, Config{}, func(m Message) { taken <- m })
	// A goodbye has no will.
	c := s.dial(t).mustConnect("node/n1", withWill(of("n1").Live(), "down", true))
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
	c.gone()
	if ev := s.events.wait(t, Disconnected); ev.Detail != "it said goodbye" {
		t.Errorf("%+v", ev)
	}
	// A foreign topic is denied when the client connects, and not published when it leaves.
	f := s.dial(t).mustConnect("node/n2", withWill(of("n1").Live(), "forged", true))
	if ev := s.events.wait(t, DeniedPublish); ev.ClientID != "node/n2" || ev.Detail != "as last will" ||
		ev.Topic != of("n1").Live() {
		t.Errorf("%+v", ev)
	}
	f.nc.Close()
	// Disconnect and a broken connection have one; an event's will is not retained.
	d := s.dial(t).mustConnect("node/n3", withWill(of("n3").Live(), "down", true))
	s.Disconnect("node/n3", "for a reason")
	d.gone()
	if m := <-taken; m.ClientID != "node/n3" || string(m.Payload) != "down" {
		t.Errorf("%+v", m)
	}
	e := s.dial(t).mustConnect("node/n4", withWill(of("n4").Event(), "left", true))
	e.nc.Close()
	if m := <-taken; m.Topic != of("n4").Event() || !m.Will {
		t.Errorf("%+v", m)
	}
	eventually(t, "all are gone", func() bool { return s.Stats().Connections == 0 })
	if _, ok := s.Retained(of("n4").Event()); ok {
		t.Error("an event was retained")
	}
	if got, ok := s.Retained(of("n1").Live()); ok {
		t.Errorf("a forged will is retained: %q", got)
	}
	eventually(t, "the reason of Disconnect is told", func() bool {
		for _, ev := range s.events.of(Disconnected) {
			if ev.ClientID == "node/n3" && ev.Detail == "for a reason" {
				return true
			}
		}
		return false
	})
}

func TestInlinePayload(t *testing.T) {
	s := serve(t, Config{}, nil)
	payload := bytes.Repeat([]byte("0123456789abcdef"), 12<<10) // 192 KiB
	want := bytes.Clone(payload)
	c := s.dial(t).mustConnect("node/n1")
	c.subscribe(of("n1").DesiredFilter())
	if err := s.Publish(of("n1").Desired("config"), payload, true); err != nil {
		t.Fatal(err)
	}
	if pk := c.next(packets.Publish); !bytes.Equal(pk.Payload, want) || pk.FixedHeader.Qos != 1 {
		t.Error("another payload arrived")
	}
	if got, _ := s.Retained(of("n1").Desired("config")); !bytes.Equal(got, want) || !bytes.Equal(payload, want) {
		t.Error("the payload was changed")
	}
	// A big one is found by who comes later, whole, and an empty one removes it.
	late := s.dial(t).mustConnect("node/n1")
	late.subscribe(of("n1").DesiredFilter())
	if pk := late.next(packets.Publish); !bytes.Equal(pk.Payload, want) || !pk.FixedHeader.Retain {
		t.Error("the retained copy differs")
	}
	if err := s.Publish(of("n1").Desired("config"), nil, true); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Retained(of("n1").Desired("config")); ok {
		t.Error("still retained")
	}
	for _, bad := range []struct {
		name string
		size int
		code wire.Code
	}{{"", 1, wire.CodeInvalidArgument}, {"a/+", 1, wire.CodeInvalidArgument}, {"a/#", 1, wire.CodeInvalidArgument},
		{"a\x00", 1, wire.CodeInvalidArgument}, {"\xff", 1, wire.CodeInvalidArgument},
		{strings.Repeat("a", 300), 1, wire.CodeInvalidArgument},
		{"a", wire.MaxPacket, wire.CodeTooLarge}} {
		err := s.Publish(bad.name, make([]byte, bad.size), false)
		if e, ok := err.(*wire.Error); !ok || e.Code != bad.code {
			t.Errorf("Publish(%.20q, %d bytes): %v", bad.name, bad.size, err)
		}
	}
}

func TestSessionsEndWithTheConnection(t *testing.T) {
	s := serve(t, Config{}, nil)
	persistent := func(pk *packets.Packet) { pk.Connect.Clean = false }
	c := s.dial(t).mustConnect("node/n1", persistent)
	c.subscribe(of("n1").DesiredFilter())
	c.nc.Close()
	eventually(t, "nothing is left", func() bool { st := s.Stats(); return st.Clients == 0 && st.Subscriptions == 0 })
	if n := s.mq.Clients.Len(); n != 1 { // the broker's own
		t.Errorf("%d clients are known", n)
	}
	if err := s.Publish(of("n1").Desired("config"), []byte("missed"), false); err != nil {
		t.Fatal(err)
	}
	again := s.dial(t)
	if ack := again.connect("node/n1", persistent); ack.ReasonCode != 0 || ack.SessionPresent {
		t.Errorf("CONNACK: code %d, session %v", ack.ReasonCode, ack.SessionPresent)
	}
	again.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	if pk, err := again.read(); err != nil || pk.FixedHeader.Type != packets.Pingresp {
		t.Errorf("got %v, %v before the PINGRESP", pk.FixedHeader.Type, err)
	}
}

func TestOwnClientIDIsRefused(t *testing.T) {
	s := serve(t, Config{Auth: allowAll}, nil)
	c := s.dial(t)
	if ack := c.connect("inline"); ack.ReasonCode != packets.Err3ClientIdentifierNotValid.Code {
		t.Errorf("code %d", ack.ReasonCode)
	}
	c.gone()
	n := s.dial(t).mustConnect("any")
	n.subscribe(of("any").Request())
	if err := s.Publish(of("any").Request(), []byte("x"), false); err != nil {
		t.Fatal(err)
	}
	n.next(packets.Publish)
}

// TestRetainWhileSubscribing fails under -race without Server.retain.
func TestRetainWhileSubscribing(t *testing.T) {
	s := serve(t, Config{Passwords: passwords, Limits: Collectors()}, nil)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Publish(of(node(i%50)).Desired("config"), []byte("doc"), true); err != nil {
				t.Error(err)
			}
			if err := s.Publish(of(node(i%50)).Desired("config"), nil, true); err != nil {
				t.Error(err)
			}
		}
	})
	c := s.dial(t).mustConnect("controller", withPassword("c-secret"))
	for range 100 {
		c.subscribe("tandem/1/u1/node/+/+/desired/+")
	}
	close(stop)
	wg.Wait()
}

// TestPacketIDsAreTwoWorlds: the packet IDs of client and broker are independent (MQTT 3.1.1, section 2.3.1), but mochi
// has both in one map.
func TestPacketIDsAreTwoWorlds(t *testing.T) {
	s := serve(t, Config{}, nil)
	for _, k := range []wire.Kind{wire.KindConfig, wire.KindPolicies, wire.KindComponents, wire.KindWorkloads} {
		if err := s.Publish(of("n1").Desired(k), []byte("doc"), true); err != nil {
			t.Fatal(err)
		}
	}
	c := s.dial(t).mustConnect("node/n1")
	ask := func(kind byte, id uint16, filter string) {
		c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: kind, Qos: 1}, PacketID: id,
			Filters: packets.Subscriptions{{Filter: filter, Qos: 1}}})
	}
	expect := func(kind byte, id uint16) packets.Packet {
		t.Helper()
		for {
			pk, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			if pk.FixedHeader.Type == packets.Publish {
				continue // and leave it unacknowledged
			}
			if pk.FixedHeader.Type != kind || pk.PacketID != id {
				t.Fatalf("got %s %d, want %s %d", packets.PacketNames[pk.FixedHeader.Type], pk.PacketID,
					packets.PacketNames[kind], id)
			}
			return pk
		}
	}
	ask(packets.Subscribe, 1, of("n1").DesiredFilter())
	if got := expect(packets.Suback, 1).ReasonCodes; got[0] != 1 {
		t.Errorf("code %#x", got)
	}
	for id := range uint16(4) { // the four documents are on their way as 1 to 4
		ask(packets.Subscribe, id+1, of("n1").Request())
		if got := expect(packets.Suback, id+1).ReasonCodes; got[0] != 1 {
			t.Errorf("SUBSCRIBE %d: code %#x", id+1, got)
		}
		ask(packets.Unsubscribe, id+1, of("n1").Request())
		expect(packets.Unsuback, id+1)
	}
	if n := s.Stats().Subscriptions; n != 1 {
		t.Errorf("%d subscriptions are left, want 1", n)
	}
	for id := range uint16(4) {
		c.id = id
		c.publish(of("n1").Live(), []byte("up"), true)
		expect(packets.Puback, id+1)
	}
	// Zero is still not a packet ID.
	c.write([]byte{0x82, 6, 0, 0, 0, 1, 'a', 1})
	c.gone()
}
