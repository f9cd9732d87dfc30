package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

func allowAll(c ConnectInfo) (acl.Identity, error) {
	return acl.Identity{Role: acl.Node, Name: strings.TrimPrefix(c.Username, "node/")}, nil
}

func TestAccess(t *testing.T) {
	s := serve(t, Config{Passwords: passwords}, nil)
	n1 := s.dial(t).mustConnect("node/n1")
	const no = 0x80
	filters := []string{of("n1").DesiredFilter(), of("n1").Request(), topic.ForController("u1"),
		of("n2").DesiredFilter(), "#", "$SYS/#", "$share/g/" + of("n1").DesiredFilter(),
		"tandem/1/u1/node/+/n1/desired/+", of("n1").Live()}
	codes := n1.subscribe(filters...)
	for i, want := range []byte{1, 1, 1, no, no, no, no, no, no} {
		if codes[i] != want {
			t.Errorf("%s: %#x, want %#x", filters[i], codes[i], want)
		}
	}
	if ev := s.events.wait(t, DeniedSubscribe); ev.ClientID != "node/n1" || ev.Topic != filters[3] {
		t.Errorf("%+v", ev)
	}
	controller := s.dial(t).mustConnect("controller", withPassword("c-secret"))
	controller.subscribe(topic.ShardFilters("u1", topic.Shard("n1"))...)
	cloud := s.dial(t).mustConnect("cloud/eu", withPassword("e-secret"))
	cloud.subscribe("tandem/1/u1/outbox/+")

	n1.report(of("n1").Reported("config"), "installed", true)
	if pk := controller.next(packets.Publish); pk.TopicName != of("n1").Reported("config") {
		t.Errorf("the controller got %s", pk.TopicName)
	}
	controller.report(topic.ForOutbox("u1", "unit"), "status", true)
	if pk := cloud.next(packets.Publish); pk.TopicName != topic.ForOutbox("u1", "unit") {
		t.Errorf("the cloud got %s", pk.TopicName)
	}
	controller.report(of("n1").Desired("config"), "doc", true)
	if pk := n1.next(packets.Publish); string(pk.Payload) != "doc" {
		t.Errorf("the node got %q", pk.Payload)
	}
	controller.report(of("n1").Reported("config"), "forged", true)
	if got, _ := s.Retained(of("n1").Reported("config")); string(got) != "installed" {
		t.Errorf("the controller wrote a report: %q", got)
	}
}

func TestDefaultAuth(t *testing.T) {
	s := serve(t, Config{Passwords: map[string]string{"controller": "secret", "node/guarded": "key",
		"cloud/empty": ""}}, nil)
	for _, c := range []struct {
		user, id, password string
		ok                 bool
	}{
		{"node/n1", "", "", true}, {"node/n1", "", "whatever", true}, {"controller", "", "secret", true},
		{"node/guarded", "", "key", true},
		{"node/guarded", "", "", false}, {"node/guarded", "", "Key", false}, {"controller", "", "", false},
		{"controller", "", "secre", false},
		{"controller", "", "secrets", false}, {"cloud/eu", "", "x", false}, {"cloud/empty", "", "", false},
		{"operator/a", "", "", false},
		{"node/n1", "node/n2", "", false}, {"n1", "", "", false}, {"", "", "", false}, {"node/", "", "", false},
	} {
		var opts []connectOption
		if c.password != "" {
			opts = append(opts, withPassword(c.password))
		}
		if c.id != "" {
			opts = append(opts, func(pk *packets.Packet) { pk.Connect.ClientIdentifier = c.id })
		}
		ack := s.dial(t).connect(c.user, opts...)
		want := packets.ErrMalformedUsernameOrPassword.Code
		if _, err := acl.IdentityOf(cmp.Or(c.id, c.user), c.user); err != nil {
			want = packets.Err3NotAuthorized.Code
		} else if c.ok {
			want = 0
		}
		if ack.ReasonCode != want {
			t.Errorf("%+v: code %d, want %d", c, ack.ReasonCode, want)
		}
	}
	for range 10 { // the address is now known for its guesses: what it says is not looked at, and it may be right
		s.dial(t).connect("cloud/eu", withPassword("x"))
	}
	if ack := s.dial(t).connect("controller", withPassword("secret")); ack.ReasonCode !=
		packets.Err3ServerUnavailable.Code {
		t.Errorf("after many guesses: code %d", ack.ReasonCode)
	}
}

func TestInjectedAuth(t *testing.T) {
	got := make(chan ConnectInfo, 1)
	s := serve(t, Config{Auth: func(c ConnectInfo) (acl.Identity, error) {
		got <- c
		if c.Username == "boom" {
			panic("bug in auth")
		}
		return acl.Identity{Role: acl.Node, Name: "n7"}, nil
	}}, nil)
	c := s.dial(t).mustConnect("serial-4711", withPassword("pw"))
	if i := <-got; i.ClientID != "serial-4711" || i.Username != "serial-4711" || string(i.Password) != "pw" ||
		i.TLS != nil || i.Remote == nil {
		t.Errorf("%+v", i)
	}
	c.report(of("n7").Live(), "up", true)
	if _, ok := s.Retained(of("n7").Live()); !ok {
		t.Error("the identity was not used")
	}
	if ack := s.dial(t).connect("boom"); ack.ReasonCode != packets.Err3NotAuthorized.Code {
		t.Errorf("code %d", ack.ReasonCode)
	}
	s.events.wait(t, Panicked)
	c.ping()
}

// TestCollector: a controller on a socket subscribes shard by shard, gets all retained messages of 3,000 nodes, and
// nothing is dropped.
func TestCollector(t *testing.T) {
	s := serve(t, Config{Passwords: passwords, Limits: Collectors()}, nil)
	const nodes = 3000
	for i := range nodes {
		for _, name := range []string{of(node(i)).Live(), of(node(i)).Reported(wire.KindConfig)} {
			if err := s.Publish(name, []byte("status"), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := s.dial(t).mustConnect("controller", withPassword("c-secret"))
	heard := map[string]bool{}
	for _, shard := range topic.Shards() {
		c.id++
		pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: c.id}
		for _, f := range topic.ShardFilters("u1", shard) {
			pk.Filters = append(pk.Filters, packets.Subscription{Filter: f, Qos: 1})
		}
		c.send(pk)
	}
	for len(heard) < 2*nodes {
		if st := s.Stats(); st.Dropped > 0 {
			t.Fatalf("%d were dropped after %d: %+v", st.Dropped, len(heard), s.events.of(Dropped))
		}
		heard[c.next(packets.Publish).TopicName] = true
	}
	if n := s.Stats().Dropped; n != 0 {
		t.Errorf("%d were dropped", n)
	}
}

func TestMaxSubscriptions(t *testing.T) {
	s := serve(t, Config{Limits: Limits{MaxSubscriptions: 3}}, nil)
	c := s.dial(t).mustConnect("node/n1")
	codes := c.subscribe(of("n1").DesiredFilter(), of("n1").Request(), topic.ForController("u1"),
		of("n1").Desired("config"))
	if fmt.Sprint(codes) != "[1 1 1 128]" {
		t.Errorf("%v", codes)
	}
	if codes := c.subscribe(of("n1").Request()); codes[0] != 1 {
		t.Errorf("a filter that is there already: %v", codes)
	}
}

// What a node left retained the controller may take away, and nothing else: it says nothing in a node's place. Nor does
// another node.
func TestControllerClears(t *testing.T) {
	s := serve(t, Config{Passwords: passwords}, nil)
	node, boss := s.dial(t).mustConnect("node/n1"), s.dial(t).mustConnect("controller", withPassword("c-secret"))
	other := s.dial(t).mustConnect("node/n2")
	for _, name := range []string{of("n1").Live(), of("n1").Reported(wire.KindConfig)} {
		node.report(name, "said", true)
		boss.report(name, "another's", true)
		boss.report(name, "", false)
		other.report(name, "", true)
		if got, _ := s.Retained(name); string(got) != "said" {
			t.Errorf("%s: %q", name, got)
		}
		boss.report(name, "", true)
		if got, ok := s.Retained(name); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestExtraKinds(t *testing.T) {
	s := serve(t, Config{Limits: Limits{ExtraKinds: 3}}, nil)
	c := s.dial(t).mustConnect("node/n1")
	for i := range 10 {
		c.report(of("n1").Reported(wire.Kind(fmt.Sprintf("kind%d", i))), "x", true)
	}
	c.report(of("n1").Reported("kind0"), "again", true)
	for _, k := range []wire.Kind{wire.KindConfig, wire.KindHealth, wire.KindInfo} {
		c.report(of("n1").Reported(k), "x", true)
	}
	if n := s.Stats().Retained; n != 6 {
		t.Errorf("%d retained, want 3 extra and 3 known", n)
	}
	if got, _ := s.Retained(of("n1").Reported("kind0")); string(got) != "again" {
		t.Errorf("%q", got)
	}
	c.report(of("n1").Event(), "x", true) // never retained
	if n := s.Stats().Retained; n != 6 {
		t.Errorf("%d retained", n)
	}
}

func TestMaxClients(t *testing.T) {
	s := serve(t, Config{Limits: Limits{MaxClients: 2}}, nil)
	s.dial(t).mustConnect("node/n1")
	second := s.dial(t).mustConnect("node/n2")
	for range 20 {
		s.dial(t).gone()
	}
	if n := s.Stats().Refused; n != 20 {
		t.Errorf("%d were counted as refused, want 20", n)
	}
	if n := len(s.events.of(Refused)); n > 5 { // one a second
		t.Errorf("%d events", n)
	}
	if ev := s.events.wait(t, Refused); !strings.Contains(ev.Detail, "2 connections are enough") {
		t.Errorf("%+v", ev)
	}
	second.nc.Close()
	eventually(t, "room for one more", func() bool { return s.Stats().Connections == 1 })
	s.dial(t).mustConnect("node/n3").ping()
}

// TestStrangersMakeRoom: unauthenticated connections keep nobody out, and end no session.
func TestStrangersMakeRoom(t *testing.T) {
	s := serve(t, Config{Limits: Limits{MaxClients: 3}}, nil)
	first := s.dial(t).mustConnect("node/n1")
	for range 10 {
		s.dial(t)
	}
	second := s.dial(t).mustConnect("node/n2")
	for range 10 {
		s.dial(t)
	}
	third := s.dial(t).mustConnect("node/n3")
	first.ping()
	second.ping()
	eventually(t, "no stranger is left", func() bool { return s.Stats().Connections == 3 })
	s.dial(t).gone() // there is no stranger in whose place it could come
	third.ping()
	if n := s.Stats().Refused; n != 21 {
		t.Errorf("%d were counted as refused, want 21", n)
	}
}

// TestRefusalsAreBounded: a client that is refused again and again does not fill the log.
func TestRefusalsAreBounded(t *testing.T) {
	s := serve(t, Config{}, nil)
	const knocks = 200
	began := time.Now()
	for range knocks {
		c := s.dial(t)
		c.write([]byte("GET / HTTP/1.1\r\n\r\n"))
		c.gone()
	}
	eventually(t, "all are counted", func() bool { return s.Stats().Refused == knocks })
	eventually(t, "the first are told one by one", func() bool { return len(s.events.of(Refused)) >= floodBurst })
	told, took := len(s.events.of(Refused)), int(time.Since(began)/throttleEvery)+1
	if told > floodBurst+took {
		t.Errorf("%d events in %d s", told, took)
	}
	eventually(t, "the others are told with a later one", func() bool {
		c := s.dial(t)
		c.write([]byte("x"))
		c.gone()
		sum := 0
		for _, ev := range s.events.of(Refused) {
			sum += ev.Count
		}
		return sum >= knocks
	})
}

// TestKeepAlive: a client that sends nothing is disconnected after 1.5 times its keep-alive; without a keep-alive,
// after MaxSilence.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		s := startPiped(t, p, Config{}, nil)
		for keepalive, want := range map[uint16]time.Duration{20: 30 * time.Second, 0: time.Hour, 65535: time.Hour} {
			c := dialPipe(t, p).mustConnect("node/n1", func(pk *packets.Packet) { pk.Connect.Keepalive = keepalive })
			began := time.Now()
			if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if _, err := readPacket(c.r, 4); err == nil {
				t.Error("got a packet")
			}
			if d := time.Since(began); d != want {
				t.Errorf("keep-alive %d: cut after %s, want %s", keepalive, d, want)
			}
			synctest.Wait()
		}
		s.Close()
	})
}

func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		if _, err := p.Dial(context.Background()); err == nil {
			t.Error("dialled nobody")
		}
		l, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Listen(); err == nil {
			t.Error("listened twice")
		}
		waiting, err := p.Dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := waiting.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that was never accepted is open")
		}
		if _, err := l.Accept(); err == nil || l.Close() == nil {
			t.Error("closed, but accepts or closes again")
		}
		l, err = p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		for range linktest.PipeQueue {
			if _, err := p.Dial(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := p.Dial(ctx); err == nil {
			t.Error("the queue has no end")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestConfigErrors(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no unit":      {},
		"bad unit":     {Unit: "a/b"},
		"nil listener": {Unit: "u", Listeners: []net.Listener{nil}},
		"password":     {Unit: "u", Passwords: map[string]string{"root": "x"}},
		"negative":     {Unit: "u", Limits: Limits{Inflight: -1}},
		"negative t":   {Unit: "u", Limits: Limits{WriteTimeout: -1}},
		"in flight":    {Unit: "u", Limits: Limits{Inflight: 70000}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
