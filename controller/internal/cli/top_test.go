package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/top/board/boardtest"
	"tandem.internal/shared/wire"
)

// fakeConsole is a terminal of 80 x 24 whose keys a test presses when something is on the screen.
type fakeConsole struct {
	mu     sync.Mutex
	screen *boardtest.Terminal
	wakes  chan struct{} // something was written
	script []pressed
	closed int
	sizes  int             // how often the size was asked for
	broken func(at string) // what goes wrong, and where
}

// pressed are keys that are pressed once these texts are on the screen, after do was done. Neither: nobody is there any
// more.
type pressed struct {
	once []string
	keys string
	do   func()
}

func (c *fakeConsole) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.wakes <- struct{}{}:
	default:
	}
	return c.screen.Write(text)
}

func (c *fakeConsole) Size() (columns, lines int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sizes++; c.broken != nil && c.sizes > 2 {
		c.broken("size")
	}
	return 80, 24, nil
}

// due is the next step of the script, if what it waits for is on the screen.
func (c *fakeConsole) due() (next pressed, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.script) == 0 {
		return pressed{}, false
	}
	shown := c.screen.String()
	for _, text := range c.script[0].once {
		if !strings.Contains(shown, text) {
			return pressed{}, false
		}
	}
	next, c.script = c.script[0], c.script[1:]
	return next, true
}

func (c *fakeConsole) Keys(ctx context.Context) ([]byte, error) {
	if c.broken != nil {
		c.broken("keys")
	}
	for {
		switch next, ok := c.due(); {
		case ok && next.do != nil:
			next.do()
			if next.keys != "" {
				return []byte(next.keys), nil
			}
		case ok && next.keys == "":
			return nil, io.EOF
		case ok:
			return []byte(next.keys), nil
		default:
			select {
			case <-c.wakes:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

func (c *fakeConsole) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return nil
}

// topBench is a bench at a terminal.
func topBench(t *testing.T, script ...pressed) (*bench, *fakeConsole) {
	t.Helper()
	b := newBench(t, apitest.StartSample(t))
	console := &fakeConsole{wakes: make(chan struct{}, 1), script: script, screen: boardtest.New(80, 24)}
	b.io.OutTerminal = true
	b.io.Console = func() (command.Console, error) { return console, nil }
	b.env["NO_COLOR"] = "1"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what never comes is not waited for
	t.Cleanup(cancel)
	b.ctx = ctx
	return b, console
}

// TestTop looks at the fleet, at a node, filters, and quits.
func TestTop(t *testing.T) {
	b, console := topBench(t,
		pressed{once: []string{"> node-2", "node-4", "live  4 of 4  by urgency"}, keys: "j\r"},
		pressed{once: []string{"Esc back", "node-4  offline for", "; until "}, keys: "\x1b"},
		pressed{once: []string{"by urgency"}, keys: "/"},
		pressed{once: []string{"/_"}, keys: "name:node-* state:"},
		pressed{once: []string{"state:_"}, keys: "x\r"},
		pressed{once: []string{"no state"}, keys: "\x7foffline\r"},
		pressed{once: []string{"> node-4", "live  1 of 4"}, keys: "\x1b"},
		pressed{once: []string{"node-1", "live  4 of 4"}, keys: "q"},
	)
	if out, errs, exit := b.run("", "top"); exit != 0 || out+errs != "" {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	if console.closed != 1 || len(console.script) != 0 {
		t.Errorf("closed %d times; %d left:\n%s", console.closed, len(console.script), console.screen)
	}
}

// TestTopIsLive: what a node tells is on the screen without a key, and so is that the controller has gone.
func TestTopIsLive(t *testing.T) {
	b, console := topBench(t)
	console.script = []pressed{
		{once: []string{"live  4 of 4"}, do: func() {
			b.unit.Report("node-2", wire.KindConfig, wire.StateFailed, wire.New(wire.CodeApplyFailed, "", "exit 3"),
				nil)
		}},
		{once: []string{"apply-failed: exit 3"}, do: b.stop},
		{once: []string{"away: "}, keys: "\x03"},
	}
	if out, errs, exit := b.run("", "top"); exit != 0 || out+errs != "" || len(console.script) != 0 {
		t.Errorf("%d %s%s; %d left:\n%s", exit, out, errs, len(console.script), console.screen)
	}
}

// TestTopGivesTheTerminalBack: also when it is ended from outside, when the terminal is gone, and in a panic of
// whatever goroutine.
func TestTopGivesTheTerminalBack(t *testing.T) {
	b, console := topBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.ctx = ctx
	console.script = []pressed{{once: []string{"live"}, keys: "j"}}
	console.broken = func(at string) {
		if at == "size" {
			cancel() // as a signal does
		}
	}
	if _, errs, exit := b.run("", "top"); exit != 0 || errs != "" || console.closed != 1 {
		t.Errorf("a signal: %d %s, closed %d times", exit, errs, console.closed)
	}
	b, console = topBench(t, pressed{once: []string{"live"}})
	if _, errs, exit := b.run("", "top"); exit != 0 || errs != "" || console.closed != 1 {
		t.Errorf("no terminal any more: %d %s, closed %d times", exit, errs, console.closed)
	}
	for _, where := range []string{"size", "keys"} {
		b, console := topBench(t)
		console.broken = func(at string) {
			if at == where {
				panic("broken " + at)
			}
		}
		func() {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, "broken "+where) {
					t.Errorf("%s: %v", where, v)
				}
			}()
			b.run("", "top")
		}()
		if console.closed != 1 {
			t.Errorf("a panic at %s: closed %d times", where, console.closed)
		}
	}
}

// TestTopNeedsATerminal: without one, or without a controller, the screen is not taken.
func TestTopNeedsATerminal(t *testing.T) {
	b, console := topBench(t)
	console.script = nil
	var text strings.Builder
	text.WriteString(b.transcript("", "top", "--socket", b.dir+"/none") + b.transcript("", "top", "--json"))
	b.io.OutTerminal = false
	text.WriteString(b.transcript("", "top"))
	b.io.OutTerminal, b.io.Console = true, nil
	text.WriteString(b.transcript("", "top"))
	b.io.Console = func() (command.Console, error) { return nil, errors.New("not a typewriter") }
	text.WriteString(b.transcript("", "top"))
	golden(t, "top", text.String())
	if console.closed != 0 {
		t.Error(console.closed)
	}
}
