package server

// The package comment names each test here beside a defect of mochi. The test fails without what the package does about
// the defect.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/shared/link/linktest"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// startPiped starts a broker on a pipe, for use inside a synctest bubble.
func startPiped(t *testing.T, p *linktest.Pipe, cfg Config, intake func(Message)) *testServer {
	t.Helper()
	l, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listeners = []net.Listener{l}
	return serve(t, cfg, intake)
}

func dialPipe(t *testing.T, p *linktest.Pipe) *rawClient {
	t.Helper()
	nc, err := p.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rawOver(t, nc)
}

func TestRetainedOutliveADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		s := startPiped(t, p, Config{}, nil)
		if err := s.Publish(of("n1").Desired("config"), []byte("doc"), true); err != nil {
			t.Fatal(err)
		}
		reporter := dialPipe(t, p).mustConnect("node/n1")
		reporter.report(of("n1").Reported("config"), "installed", true)
		time.Sleep(49 * time.Hour) // virtual
		for name, want := range map[string]string{of("n1").Desired("config"): "doc",
			of("n1").Reported("config"): "installed"} {
			if got, ok := s.Retained(name); !ok || string(got) != want {
				t.Errorf("%s after two days: %q, %v", name, got, ok)
			}
		}
		late := dialPipe(t, p).mustConnect("node/n1")
		late.subscribe(of("n1").DesiredFilter())
		if pk := late.next(packets.Publish); string(pk.Payload) != "doc" || !pk.FixedHeader.Retain {
			t.Errorf("got %q retained=%v", pk.Payload, pk.FixedHeader.Retain)
		}
		s.Close()
	})
}

// TestNothingTicks: in a bubble the time jumps to the next timer. With a loop that runs once a second, a year would
// take 30 million rounds; without one it takes no time.
func TestNothingTicks(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := startPiped(t, linktest.NewPipe(), Config{}, nil)
		time.Sleep(365 * 24 * time.Hour)
		s.Close()
	})
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("an idle year took %s", d)
	}
}

// TestIntakeLosesNothing sends 20,000 statuses from 50 nodes, as fast as possible, to an intake that is slow for some.
// It expects each exactly once, and those of a node in order.
func TestIntakeLosesNothing(t *testing.T) {
	const nodes, each = 50, 400
	var mu sync.Mutex
	seen := map[string][]string{}
	s := serve(t, Config{}, func(m Message) {
		mu.Lock()
		seen[m.ClientID] = append(seen[m.ClientID], string(m.Payload))
		n := len(seen[m.ClientID])
		mu.Unlock()
		if n%100 == 0 {
			time.Sleep(time.Millisecond) // a slow disk
		}
	})
	var wg sync.WaitGroup
	for i := range nodes {
		c := s.dial(t).mustConnect("node/" + node(i))
		wg.Go(func() { // sends
			for k := range each {
				c.publish(of(node(i)).Event(), fmt.Appendf(nil, "%d", k), false)
			}
		})
		wg.Go(func() { // reads
			for range each {
				if pk, err := c.read(); err != nil || pk.FixedHeader.Type != packets.Puback {
					t.Errorf("PUBACK: %v, %v", pk.FixedHeader.Type, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range nodes {
		got := seen["node/"+node(i)]
		if len(got) != each {
			t.Fatalf("%s: %d of %d", node(i), len(got), each)
		}
		for k, v := range got {
			if v != fmt.Sprint(k) {
				t.Fatalf("%s: %s at %d", node(i), v, k)
			}
		}
	}
	if n := s.Stats().Taken; n != nodes*each {
		t.Errorf("%d counted, want %d", n, nodes*each)
	}
}

func TestDropsAreTold(t *testing.T) {
	t.Run("unacknowledged", func(t *testing.T) {
		s := serve(t, Config{Limits: Limits{Inflight: 4}}, nil)
		c := s.dial(t).mustConnect("node/n1")
		c.subscribe(of("n1").DesiredFilter())
		for range 10 {
			if err := s.Publish(of("n1").Desired("config"), []byte("x"), false); err != nil {
				t.Fatal(err)
			}
		}
		ev := s.events.wait(t, Dropped)
		if ev.ClientID != "node/n1" || !strings.Contains(ev.Detail, "unacknowledged") {
			t.Errorf("%+v", ev)
		}
		if n := s.Stats().Dropped; n != 6 {
			t.Errorf("%d dropped, want 6", n)
		}
		c.nc.Close()
		s.events.wait(t, Disconnected)
		total := 0
		for _, ev := range s.events.of(Dropped) {
			total += ev.Count
		}
		if total != 6 {
			t.Errorf("events stand for %d drops, want 6", total)
		}
	})
	t.Run("queue full", func(t *testing.T) {
		s := serve(t, Config{Limits: Limits{PendingPerClient: 1, Inflight: 65535}}, nil)
		c := s.dial(t).mustConnect("node/n1")
		c.subscribe(of("n1").DesiredFilter())
		for i := 0; s.Stats().Dropped == 0; i++ {
			if i == 60_000 {
				t.Fatal("nothing is dropped")
			}
			if err := s.Publish(of("n1").Desired("config"), []byte("x"), false); err != nil {
				t.Fatal(err)
			}
		}
		if ev := s.events.wait(t, Dropped); ev.ClientID != "node/n1" || !strings.Contains(ev.Detail, "waiting") {
			t.Errorf("%+v", ev)
		}
	})
}

// flakyListener first fails as in a process without file descriptors, and then works.
type flakyListener struct {
	net.Listener
	fail atomic.Int32
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if l.fail.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestAcceptLoopSurvivesErrors(t *testing.T) {
	l := &flakyListener{Listener: loopback(t)}
	l.fail.Store(5)
	s := serve(t, Config{Listeners: []net.Listener{l}}, nil)
	s.dial(t).mustConnect("node/n1").ping()
	if got := s.events.of(AcceptFailed); len(got) != 5 {
		t.Errorf("%d failures told, want 5", len(got))
	}
	if ev := s.events.wait(t, AcceptFailed); !strings.Contains(ev.Detail, "too many open files") {
		t.Errorf("%+v", ev)
	}
}

// truncatedSubscribe is whole by MQTT 3.1.1. Read as MQTT 5 it ends after the filter, where that has an options byte,
// which mochi reads without a check.
var truncatedSubscribe = []byte{0x82, 5, 0, 1, 0, 0, 0}

func TestTruncatedV5Subscribe(t *testing.T) {
	s := serve(t, Config{}, nil)
	c := s.dial(t)
	c.v = 5
	if ack := c.connect("node/n1"); ack.ReasonCode != packets.ErrUnsupportedProtocolVersion.Code {
		t.Errorf("version 5 was answered with %#x", ack.ReasonCode)
	}
	c.gone()
	if ev := s.events.wait(t, Refused); !strings.Contains(ev.Detail, "version 5") {
		t.Errorf("%+v", ev)
	}

	// The same packet from a client that got in shows that a panic costs that client alone.
	victim := s.dial(t).mustConnect("node/n1", withWill(of("n1").Live(), "down", true))
	victim.subscribe(of("n1").DesiredFilter())
	cl, _ := s.mq.Clients.Get("node/n1")
	cl.Properties.ProtocolVersion = 5 // as if version 5 had been let in
	victim.write(truncatedSubscribe)
	victim.gone()
	if ev := s.events.wait(t, Panicked); ev.ClientID != "node/n1" {
		t.Errorf("%+v", ev)
	}
	s.events.wait(t, Disconnected)
	eventually(t, "nothing of the client is left", func() bool {
		st := s.Stats()
		return st.Clients == 0 && st.Subscriptions == 0 && s.mq.Clients.Len() == 1 // the broker's own
	})
	if got, _ := s.Retained(of("n1").Live()); string(got) != "down" {
		t.Errorf("the last will is lost: %q", got)
	}
	s.dial(t).mustConnect("node/n1").ping()
}

func TestHugeLengthAllocatesNothing(t *testing.T) {
	s := serve(t, Config{}, nil)
	for name, b := range map[string][]byte{
		"no connect":       {0x30, 0xff, 0xff, 0xff, 0x7f},
		"huge connect":     {0x10, 0xff, 0xff, 0xff, 0x7f},
		"malformed length": {0x10, 0xff, 0xff, 0xff, 0xff},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 4 {
			c := s.dial(t)
			for i := range b { // byte by byte: the header may come in any pieces
				if _, err := c.nc.Write(b[i : i+1]); err != nil {
					break // already cut
				}
			}
			c.gone()
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
			t.Errorf("%s: %d KiB were allocated", name, got>>10)
		}
	}
	// After authentication the packet limit holds.
	c := s.dial(t).mustConnect("node/n1")
	c.write([]byte{0x30, 0xff, 0xff, 0xff, 0x7f})
	c.gone()
	if ev := s.events.wait(t, TooLarge); ev.ClientID != "node/n1" ||
		!strings.Contains(ev.Detail, fmt.Sprintf("of 268435456 bytes, and at most %d", wire.MaxPacket)) {
		t.Errorf("%+v", ev)
	}
	if ev := s.events.wait(t, Disconnected); !strings.Contains(ev.Detail, "above the limit") {
		t.Errorf("%+v", ev)
	}
}

func TestFirstReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := linktest.NewPipe()
		s := startPiped(t, p, Config{}, nil)
		began := time.Now()
		silent, slow := dialPipe(t, p), dialPipe(t, p)
		slow.write([]byte{0x10, 40, 0, 4, 'M'}) // and never the rest
		for _, c := range []*rawClient{silent, slow} {
			if _, err := readPacket(c.r, 4); err == nil {
				t.Error("got a packet")
			}
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("cut after %s", d)
		}
		synctest.Wait()
		if got := s.Stats(); got.Connections != 0 || got.Refused != 2 {
			t.Errorf("%+v", got)
		}
		s.Close()
	})
}

func TestNotTakenIsNotAcknowledged(t *testing.T) {
	for name, refuse := range map[string]func() error{
		"error": func() error { return errors.New("disk full") },
		"panic": func() error { panic("bug") },
	} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			s := serveErr(t, Config{}, func(Message) error {
				if broken.Load() {
					return refuse()
				}
				return nil
			})
			c := s.dial(t).mustConnect("node/n1")
			c.report(of("n1").Reported("config"), "one", true)
			broken.Store(true)
			c.publish(of("n1").Reported("config"), []byte("two"), true)
			for {
				pk, err := c.read()
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Error("the client is still connected: it will not send the message again")
				}
				if err != nil {
					break
				}
				t.Errorf("got %s", packets.PacketNames[pk.FixedHeader.Type])
			}
			if got, _ := s.Retained(of("n1").Reported("config")); string(got) != "one" {
				t.Errorf("%q was retained though not taken", got)
			}
			ev := s.events.wait(t, IntakeFailed)
			if ev.ClientID != "node/n1" ||
				!strings.Contains(ev.Detail, map[string]string{"error": "disk full", "panic": "bug"}[name]) {
				t.Errorf("%+v", ev)
			}
			broken.Store(false)
			s.dial(t).mustConnect("node/n1").report(of("n1").Reported("config"), "two", true)
		})
	}
}

func TestDeniedPublishDoesNotDisconnect(t *testing.T) {
	taken := make(chan Message, 10)
	s := serve(t, Config{}, func(m Message) { taken <- m })
	c := s.dial(t).mustConnect("node/n1")
	denied := []string{of("n2").Reported("config"), "$SYS/broker/version", "$share/g/x", "elsewhere",
		topic.ForController("u1")}
	for _, name := range denied {
		c.report(name, "forged", true) // waits for the PUBACK
		if _, ok := s.Retained(name); ok {
			t.Errorf("%s was retained", name)
		}
	}
	c.report(of("n1").Live(), "true", true)
	if m := <-taken; m.Topic != of("n1").Live() || len(taken) != 0 {
		t.Errorf("the intake got %+v and %d more", m, len(taken))
	}
	if n := s.Stats().DeniedPublishes; n != int64(len(denied)) {
		t.Errorf("%d counted, want %d", n, len(denied))
	}
	c.nc.Close()
	s.events.wait(t, Disconnected)
	total := 0
	for _, ev := range s.events.of(DeniedPublish) {
		total += ev.Count
	}
	if total != len(denied) || s.events.of(DeniedPublish)[0].Topic != denied[0] {
		t.Errorf("told: %+v", s.events.of(DeniedPublish))
	}
}
