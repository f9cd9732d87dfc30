package link_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

// Pitfall 5: the pauses are random, grow up to their maximum, and differ between clients.
func TestBackoff(t *testing.T) {
	const attempts = 200
	pauses := func(t *testing.T, seed uint64) (list []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			var last time.Time
			d := dial(t, nil, link.Config{
				Backoff: link.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second},
				Rand:    rand.New(rand.NewPCG(seed, 1)),
				OpenConn: func(context.Context) (net.Conn, error) {
					if !last.IsZero() {
						list = append(list, time.Since(last))
					}
					last = time.Now()
					return nil, errors.New("no way")
				},
			}, nil)
			pass(attempts * 5 * time.Second)
			d.firstDown(0, "no way")
			d.stop()
		})
		return list
	}
	var firsts []time.Duration
	for seed := range uint64(8) {
		list := pauses(t, seed)
		if len(list) < attempts {
			t.Fatalf("%d attempts", len(list))
		}
		firsts = append(firsts, list[0])
		var sum time.Duration
		for i, p := range list {
			ceiling := min(100*time.Millisecond<<min(i, 10), 5*time.Second)
			if p < 0 || p > ceiling {
				t.Fatalf("pause %d is %v, more than %v", i, p, ceiling)
			}
			if i >= 6 {
				sum += p
			}
		}
		if mean := sum / time.Duration(len(list)-6); mean < 2*time.Second || mean > 3*time.Second {
			t.Errorf("at the cap the mean pause is %v, want about half of 5 s", mean)
		}
	}
	slices.Sort(firsts)
	if len(slices.Compact(firsts)) < 8 {
		t.Errorf("different seeds gave equal pauses: %v", firsts)
	}
}

// Two clients with the same ID slow down, and after a long session the next pause is short again.
func TestBackoffOfShortSessions(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		x, y := dial(t, s, link.Config{ClientID: "same"}, nil), dial(t, s, link.Config{ClientID: "same"}, nil)
		pass(time.Hour)
		n := len(x.Ups()) + len(y.Ups())
		if n < 10 || n > 1000 {
			t.Errorf("%d sessions in an hour of fighting over an ID", n)
		}
		x.stop()
		pass(10 * time.Minute)
		before := len(y.Ups())
		s.Cut("same")
		pass(250 * time.Millisecond)
		if len(y.Ups()) != before+1 {
			t.Error("after a long session the next one did not follow within the shortest back-off")
		}
		y.stop()
	})
}

// After an outage that took the pauses to the longest, a session of 5 s is a good one: when the broker restarts, every
// link is back after the shortest back-off. After shorter sessions the pauses stay long.
func TestBackoffAnew(t *testing.T) {
	const links = 30
	bubble(t, func(t *testing.T, s *server) {
		for held, want := range map[time.Duration]func(back int) bool{
			5 * time.Second: func(back int) bool { return back == links },
			4 * time.Second: func(back int) bool { return back < links/2 },
		} {
			back := 0
			for i := range links {
				d := dial(t, s, link.Config{Rand: rand.New(rand.NewPCG(uint64(i), 1))}, nil)
				synctest.Wait()
				s.Partition("x")
				pass(5 * time.Minute)
				s.Heal("x")
				for len(d.Ups()) < 2 {
					pass(10 * time.Millisecond)
				}
				pass(held)
				s.Cut("x")
				pass(250 * time.Millisecond)
				back += len(d.Ups()) - 2
				d.stop()
			}
			if !want(back) {
				t.Errorf("after sessions of %v %d of %d were back after the shortest back-off", held, back, links)
			}
		}
	})
}

// At whatever stage ctx ends, Run returns soon, makes no false calls of the Handler, and leaves no goroutine (the
// bubble would fail).
func TestStopAtEveryStage(t *testing.T) {
	for name, c := range map[string]struct {
		open      func(context.Context) (net.Conn, error)
		mute      byte
		freeze    bool
		partition bool
		downs     int // Down(0) calls before the stop
	}{
		"opening":                {open: never},
		"nobody reads CONNECT":   {open: silent},
		"waiting for CONNACK":    {mute: packets.Connect},
		"waiting for SUBACK":     {mute: packets.Subscribe},
		"publishing in Up":       {freeze: true},
		"waiting for an answer":  {mute: packets.Publish},
		"between two attempts":   {partition: true, downs: 1},
		"with a session at rest": {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				if c.mute != 0 {
					s.mute[c.mute] = true
				}
				if c.freeze {
					s.Freeze("x")
				}
				if c.partition {
					s.Partition("x")
				}
				var d *dialled
				var mu sync.Mutex
				var upErr error
				ready := make(chan struct{})
				r := &linktest.Recorder{OnUp: func(uint64) {
					<-ready
					for c.freeze {
						if err := d.Publish(context.Background(), "t", make([]byte, 3000), false); err != nil {
							mu.Lock()
							defer mu.Unlock()
							upErr = err
							return
						}
					}
				}}
				d = dial(t, s, link.Config{
					OpenConn: c.open, Filters: []string{"f"}, Backoff: link.Backoff{Min: time.Hour, Max: time.Hour},
					Goodbye: func(uint64) []link.Publication {
						return []link.Publication{{Topic: "g", Payload: []byte("g")}}
					},
				}, r)
				close(ready)
				synctest.Wait()
				if took := d.stop(); took > 2*time.Second {
					t.Errorf("Run took %v to end", took)
				}
				s.Thaw("x")
				failed := 0
				for _, down := range d.Downs() {
					if down.Session == 0 {
						failed++
					}
				}
				if failed != c.downs || len(d.Downs())-failed != len(d.Ups()) {
					t.Errorf("Up %v, Down %v", d.Ups(), d.Downs())
				}
				if c.freeze && !errors.Is(upErr, link.ErrDown) {
					t.Errorf("Publish inside Up: %v", upErr)
				}
			})
		})
	}
}

// A goodbye that the broker does not acknowledge is not followed by a DISCONNECT, so the broker publishes the will.
func TestGoodbyeUnacknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		d := dial(t, s, link.Config{
			Will: func(uint64) *link.Publication {
				return &link.Publication{Topic: "w", Payload: []byte("w"), Retain: true}
			},
			Goodbye: func(uint64) []link.Publication { return []link.Publication{{Topic: "g", Payload: []byte("g")}} },
		}, nil)
		synctest.Wait()
		s.set(func() { s.mute[packets.Publish] = true })
		if took := d.stop(); took > 2*time.Second {
			t.Errorf("Run took %v to end", took)
		}
		synctest.Wait()
		if _, ok := s.Retained("w"); !ok {
			t.Error("the will was not published")
		}
	})
}

// When a session ends, for whatever reason, all calls of Publish return without any virtual time passing. With paho
// alone they would wait for its write time-out.
func TestEndFreesPublishers(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var count atomic.Int64
		ended := make(chan struct{})
		r := &linktest.Recorder{OnMessage: func(link.Message) {
			n := count.Add(1)
			p := s.peer("x")
			switch {
			case n == 40*200:
				close(ended)
			case n%200 != 0 || p == nil:
			case n%400 == 0:
				s.Cut("x")
			default:
				p.push(rawPacket("\x50\x02\x00\x01")) // breaks the protocol
			}
		}}
		d := dial(t, s, link.Config{Filters: []string{"t"}, Backoff: link.Backoff{Min: time.Second, Max: time.Second}},
			r)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil {
					begin := time.Now()
					err := d.Publish(context.Background(), "t", make([]byte, 500), false)
					if took := time.Since(begin); took > 0 {
						t.Errorf("Publish took %v (%v)", took, err)
					}
					if err != nil {
						<-time.After(100 * time.Millisecond)
					}
				}
			})
		}
		<-ended
		cancel()
		wg.Wait()
		d.stop()
	})
}

// With a broker that accepts a connection and does not answer, an attempt ends after ConnectTimeout.
func TestConnectTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.mute[packets.Connect] = true
		d := dial(t, s, link.Config{ConnectTimeout: 4 * time.Second,
			Backoff: link.Backoff{Min: time.Hour, Max: time.Hour}}, nil)
		pass(4*time.Second - time.Nanosecond)
		if len(d.Downs()) != 0 {
			t.Error("gave up too early")
		}
		pass(time.Second)
		d.firstDown(0, "does not answer")
		d.stop()
	})
}

// Will and Goodbye are called for each session with its number, which also counts attempts that failed.
func TestWillPerSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var asked []uint64
		s.Refuse("f")
		d := dial(t, s, link.Config{
			Filters: []string{"f"},
			Will: func(session uint64) *link.Publication {
				asked = append(asked, session)
				if session == 2 {
					return nil
				}
				return &link.Publication{Topic: "w", Payload: fmt.Append(nil, session), Retain: true}
			},
			Backoff: link.Backoff{Min: time.Minute, Max: time.Minute},
			Rand:    rand.New(rand.NewPCG(1, 1)),
		}, nil)
		synctest.Wait()
		if p, _ := s.Retained("w"); string(p) != "1" { // its connection was lost, as far as the broker knows
			t.Errorf("will of the failed attempt: %q", p)
		}
		s.set(func() { clear(s.refused) })
		for range 3 {
			pass(time.Minute)
			s.Cut("x")
			synctest.Wait()
		}
		pass(time.Minute)
		if !slices.Equal(d.Ups(), []uint64{2, 3, 4, 5}) || !slices.Equal(asked, []uint64{1, 2, 3, 4, 5}) {
			t.Errorf("Up %v, wills asked for %v", d.Ups(), asked)
		}
		if p, _ := s.Retained("w"); string(p) != "4" {
			t.Errorf("the last will is %q, want 4", p)
		}
		c := s.peer("x").connect
		if !c.WillFlag || c.WillQos != 1 || string(c.WillMessage) != "5" {
			t.Errorf("CONNECT %v", c)
		}
		d.stop()
	})
}

func TestConfig(t *testing.T) {
	good := link.Config{ClientID: "x", Broker: "tcp://h"}
	if _, err := link.Dial(good, nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*link.Config){
		"no ID":            func(c *link.Config) { c.ClientID = "" },
		"no broker":        func(c *link.Config) { c.Broker = "" },
		"scheme":           func(c *link.Config) { c.Broker = "ws://h" },
		"no scheme":        func(c *link.Config) { c.Broker = "h:1883" },
		"no host":          func(c *link.Config) { c.Broker = "tcp://:1883" },
		"credentials":      func(c *link.Config) { c.Broker = "tcp://u:hunter2@h" },
		"broken URL":       func(c *link.Config) { c.Broker = "tcp://u:%hunter2/@h" },
		"port":             func(c *link.Config) { c.Broker = "tcp://h:65536" },
		"port 0":           func(c *link.Config) { c.Broker = "tls://h:0" },
		"path":             func(c *link.Config) { c.Broker = "tcp://h/x" },
		"unix host":        func(c *link.Config) { c.Broker = "unix://x" },
		"bad URL":          func(c *link.Config) { c.Broker = "tcp://h:%zz" },
		"password only":    func(c *link.Config) { c.Password = "p" },
		"filter":           func(c *link.Config) { c.Filters = []string{"a+"} },
		"negative":         func(c *link.Config) { c.Window = -1 },
		"window":           func(c *link.Config) { c.Window = 65535 },
		"QoS 2":            func(c *link.Config) { c.SubscribeQoS = 2 },
		"keep-alive":       func(c *link.Config) { c.KeepAlive = time.Millisecond },
		"long keep-alive":  func(c *link.Config) { c.KeepAlive = 70000 * time.Second },
		"back-off reverse": func(c *link.Config) { c.Backoff = link.Backoff{Min: time.Minute, Max: time.Second} },
	} {
		c := good
		change(&c)
		if _, err := link.Dial(c, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, broker := range []string{"mqtt://h", "tls://h:1", "mqtts://[::1]", "ssl://h", "unix:///run/s",
		"tcp://h:1883/"} {
		if _, err := link.Dial(link.Config{ClientID: "x", Broker: broker}, nil); err != nil {
			t.Errorf("%s: %v", broker, err)
		}
	}
}

func TestFilters(t *testing.T) {
	for _, f := range []string{"", "a#", "a/#/b", "+a", "a/b+/c", "a\x00", "\xff"} {
		if link.CheckFilter(f) == nil {
			t.Errorf("CheckFilter(%q) is nil", f)
		}
	}
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a", false}, {"a", "a/b", false}, {"a/+", "a/b", true}, {"a/+", "a/b/c", false},
		{"a/+", "a", false}, {"a/+", "a/", true}, {"a/#", "a", true}, {"a/#", "a/b/c", true}, {"a/#", "ab", false},
		{"#", "a/b", true}, {"#", "$SYS/x", false}, {"+/x", "$SYS/x", false}, {"$SYS/#", "$SYS/x", true},
		{"+", "/a", false}, {"+/+", "/a", true}, {"/+", "/a", true}, {"/", "/", true},
	} {
		if err := link.CheckFilter(c.filter); err != nil {
			t.Error(err)
		}
		if got := linktest.Match(c.filter, c.topic); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.filter, c.topic, got)
		}
	}
}
