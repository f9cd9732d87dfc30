package app

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
)

// trap is where something hangs: while it is set, whoever comes by is held until it is let go.
type trap struct {
	set  atomic.Bool
	gate chan struct{}
}

func (t *trap) pass() {
	if t.set.Load() {
		<-t.gate
	}
}

// deafLink does not come back from a Publish, whatever it is told.
type deafLink struct {
	link.Link
	trap *trap
}

func (l deafLink) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	l.trap.pass()
	return l.Link.Publish(ctx, topic, payload, retain)
}

// Each loop that hangs is found, told of by its name while anybody can tell, and ends the agent, with
// the stacks of all kept and the reason told after the restart.
func TestHangs(t *testing.T) {
	for _, c := range []struct {
		loop, in string // and a function that its stack shows
		told     string
		planned  bool // this end was: its reason was written first, and stands
		set      func(p *patient, t *trap)
		spring   func(p *patient) // makes it hang
	}{
		{loop: "owner", in: "(*Agent).loop",
			set: func(p *patient, t *trap) {
				p.deps.OnState = func(wire.Kind, *wire.DocRef, *wire.Attempt) { t.pass() }
			},
			spring: func(p *patient) { p.desire(doc(1, 1)) }},
		{loop: "monitor", in: "(*Monitor).Run", told: "watchdog monitor late",
			set: func(p *patient, t *trap) {
				p.deps.Sources.RAM = func() (float64, error) { t.pass(); return 0.25, nil }
			}},
		{loop: "sender", in: "(*Sender).Run", told: "watchdog sender late",
			set: func(p *patient, t *trap) {
				p.deps.NewLink = func(cfg link.Config, h link.Handler) (link.Link, error) {
					l, err := p.link(cfg, h)
					return deafLink{l, t}, err
				}
			},
			spring: func(p *patient) { p.desire(doc(1, 1)) }},
		{loop: "link", in: "(*Dialled).Run", told: "watchdog link late",
			set: func(p *patient, t *trap) {
				p.deps.OpenConn = func(context.Context) (net.Conn, error) { t.pass(); return nil, errors.New("no way") }
				p.deps.NewLink = func(cfg link.Config, h link.Handler) (link.Link, error) {
					if t.set.Load() {
						return link.Dial(cfg, h)
					}
					return p.link(cfg, h)
				}
				t.set.Store(true)
			}},
		{loop: "stop: background work", in: "(*Agent).Run", planned: true,
			set: func(p *patient, t *trap) {
				p.command = func(context.Context, string, string) error { t.pass(); return nil }
			},
			spring: func(p *patient) {
				p.desire(doc(1, 1))
				p.leave()
			}},
	} {
		t.Run(c.loop, func(t *testing.T) {
			healthBubble(t, func(p *patient) {
				trap, died := &trap{gate: make(chan struct{})}, make(chan time.Time, 1)
				p.deps.Die = func() { died <- time.Now() }
				c.set(p, trap)
				p.start()
				trap.set.Store(true)
				at := time.Now()
				if c.spring != nil {
					c.spring(p)
				}
				if took := (<-died).Sub(at); took > 3*time.Minute {
					t.Errorf("it took %v", took)
				}
				p.dead.Store(true) // the process has ended
				trap.set.Store(false)
				close(trap.gate)
				p.crash()
				p.wantRefused(p.request(wire.MethodEvents, wire.Encode(&wire.EventsParams{})), "")
				p.wantTold(c.told, "watchdog")
				if b := p.health().Boot; c.planned {
					p.wantTold("boot first 1, boot stop 2", health.EventBoot)
				} else if p.wantTold("boot first 1, boot watchdog-hung 2",
					health.EventBoot); !strings.HasPrefix(b.Detail, "loop "+c.loop+": ") {
					t.Errorf("the report says %+v", b)
				}
				stacks, err := filepath.Glob(filepath.Join(p.dir, "stacks", "*"))
				if err != nil || len(stacks) != 1 {
					t.Fatalf("stacks: %v %v", stacks, err)
				}
				data, err := os.ReadFile(stacks[0])
				if text := string(data); err != nil || !strings.Contains(text, "loop "+c.loop+": ") ||
					!strings.Contains(text, c.in) || !strings.Contains(text, "hang_test.go") {
					t.Errorf("the stacks do not show what hangs: %v", err)
				}
			})
		})
	}
}

// Nothing hangs while the broker is away for a day, takes the connection and never says a word, or does
// not read what the node has to say.
func TestSilenceIsNoHang(t *testing.T) {
	for name, f := range map[string]func(p *patient){
		"away": func(p *patient) {
			p.start()
			p.hub.Partition("node/n1")
			p.pass(24 * time.Hour)
			p.hub.Heal("node/n1")
		},
		"not reading": func(p *patient) {
			p.start()
			p.hub.Freeze("node/n1")
			for rev := range uint64(100) { // more than a window holds
				p.desire(doc(1, rev+1))
			}
			p.pass(24 * time.Hour)
			p.hub.Thaw("node/n1")
		},
		"silent": func(p *patient) {
			p.deps.NewLink = nil
			p.deps.OpenConn = func(context.Context) (net.Conn, error) {
				here, there := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, there) }() // until the link gives up
				return here, nil
			}
			p.start()
			p.pass(6 * time.Hour)
			p.stop()
			p.deps.NewLink = p.link
			p.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			healthBubble(t, func(p *patient) {
				p.cfg.SamplePeriod = 10 * time.Minute
				p.deps.Die = func() { t.Error("the agent was ended") }
				f(p)
				p.pass(time.Minute)
				p.wantTold("", "watchdog")
				if got := p.check(health.CheckWatchdog); got != "ok" {
					t.Errorf("check watchdog is %s", got)
				}
				p.stop()
				synctest.Wait()
			})
		})
	}
}
