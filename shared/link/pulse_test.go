package link_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

// pulses watches the loops of a link. It has the newest beat of each loop that runs, and the longest time without a
// beat, in periods.
type pulses struct {
	mu   sync.Mutex
	next int
	runs map[int]*loopRun
	seen map[string]int // registrations
	late []string       // loops that were without a beat for more than a period
}

type loopRun struct {
	name   string
	period time.Duration
	last   time.Time
}

func newPulses() *pulses { return &pulses{runs: map[int]*loopRun{}, seen: map[string]int{}} }

func (p *pulses) watch(loop string, period time.Duration) (beat, end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	id, r := p.next, &loopRun{loop, period, time.Now()}
	p.runs[id] = r
	p.seen[loop]++
	beat = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.judge(r)
		r.last = time.Now()
	}
	return beat, func() {
		beat()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.runs, id)
	}
}

// judge records a loop that is late. The caller holds p.mu.
func (p *pulses) judge(r *loopRun) {
	if time.Since(r.last) > r.period && !slices.Contains(p.late, r.name) {
		p.late = append(p.late, r.name)
	}
}

// lates lists the loops that are or were late.
func (p *pulses) lates() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		p.judge(r)
	}
	return slices.Sorted(slices.Values(p.late))
}

func (p *pulses) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.runs)
}

// The link's loops beat however long a broker is away, and at whatever point it stops answering.
func TestLoopsGoRound(t *testing.T) {
	for name, c := range map[string]struct {
		open      func(context.Context) (net.Conn, error)
		mute      byte
		freeze    bool
		partition bool
		publish   bool
		session   bool // there is one
	}{
		"a session at rest":             {session: true},
		"a session at work":             {session: true, publish: true},
		"dialling is not answered":      {open: never},
		"nobody reads CONNECT":          {open: silent},
		"CONNECT is not answered":       {mute: packets.Connect},
		"SUBSCRIBE is not answered":     {mute: packets.Subscribe},
		"publishes are not answered":    {mute: packets.Publish, publish: true, session: true},
		"pings are not answered":        {mute: packets.Pingreq, session: true},
		"the broker reads nothing":      {freeze: true, publish: true, session: true},
		"there is no way to the broker": {partition: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				if c.mute != 0 {
					s.mute[c.mute] = true
				}
				if c.partition {
					s.Partition("x")
				}
				p := newPulses()
				d := dial(t, s, link.Config{OpenConn: c.open, Filters: []string{"f"}, Window: 4, Watch: p.watch}, nil)
				synctest.Wait()
				if c.freeze {
					s.Freeze("x")
				}
				var publishing sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				if c.publish {
					publishing.Go(func() {
						for ctx.Err() == nil {
							if err := d.Publish(ctx, "t", make([]byte, 3000), false); err != nil {
								time.Sleep(time.Second)
							}
							if !c.freeze {
								time.Sleep(time.Second)
							}
						}
					})
				}
				time.Sleep(2 * time.Hour)
				if late := p.lates(); len(late) != 0 {
					t.Errorf("late: %v", late)
				}
				if (len(d.Ups()) > 0) != c.session {
					t.Errorf("%d sessions", len(d.Ups()))
				}
				cancel()
				publishing.Wait()
				d.stop()
				if late := p.lates(); len(late) != 0 || p.left() != 0 || p.seen["link"] != 1 {
					t.Errorf("late at the end: %v; registered %v, %d left", late, p.seen, p.left())
				}
				if c.session && (p.seen["link writer"] == 0 || p.seen["link writer"] != p.seen["link acks"]) {
					t.Errorf("registered %v", p.seen)
				}
				s.Thaw("x")
			})
		})
	}
}

// stuck is a connection of which one call hangs until it is released, in spite of deadlines.
type stuck struct {
	net.Conn
	write, close <-chan struct{}
}

func (c stuck) Write(p []byte) (int, error) {
	if c.write != nil {
		<-c.write
	}
	return c.Conn.Write(p)
}

func (c stuck) Close() error {
	if c.close != nil {
		<-c.close
	}
	return c.Conn.Close()
}

// A loop that hangs does not beat.
func TestHangsStopTheBeat(t *testing.T) {
	for name, c := range map[string]struct {
		open func(gate <-chan struct{}, s *server) (net.Conn, error)
		loop string
		on   func(r *linktest.Recorder, gate <-chan struct{})
	}{
		"the connection is never opened": {loop: "link", open: func(gate <-chan struct{}, s *server) (net.Conn, error) {
			<-gate
			return nil, errors.New("let go")
		}},
		"the handler does not come back": {loop: "link", on: func(r *linktest.Recorder, gate <-chan struct{}) {
			r.OnUp = func(uint64) { <-gate }
		}},
		"a write never ends": {loop: "link writer", open: func(gate <-chan struct{}, s *server) (net.Conn, error) {
			nc, err := s.open("x")(context.Background())
			return stuck{Conn: nc, write: gate}, err
		}},
		"the connection is never closed": {loop: "link acks", open: func(gate <-chan struct{}, s *server) (net.Conn,
			error) {
			nc, err := s.open("x")(context.Background())
			return stuck{Conn: nc, close: gate}, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				s.mute[packets.Publish] = true
				p, gate, r := newPulses(), make(chan struct{}), &linktest.Recorder{}
				cfg := link.Config{Watch: p.watch, AckTimeout: 5 * time.Second}
				if c.open != nil {
					cfg.OpenConn = func(context.Context) (net.Conn, error) { return c.open(gate, s) }
				}
				if c.on != nil {
					c.on(r, gate)
				}
				d := dial(t, s, cfg, r)
				synctest.Wait()
				if len(d.Ups()) > 0 {
					d.publish("t", "nobody acknowledges this")
				}
				// in a minute the reader would wait for a mutex, and stop the bubble's clock
				time.Sleep(50 * time.Second)
				if late := p.lates(); !slices.Contains(late, c.loop) {
					t.Errorf("late: %v, want %s", late, c.loop)
				}
				close(gate)
				d.stop()
			})
		})
	}
}
