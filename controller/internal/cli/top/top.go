// Package top owns the command that shows the unit on a whole screen, live: the fleet, or one node. It is the thin part
// around package board: the terminal, the live stream, which is one and goes on where it was cut off, and what is asked
// about the node or the filter that is looked at.
//
// It guarantees that the terminal is what it was when the command ends, also by a signal or a panic, that nothing is
// written but what has changed, and that every goroutine has ended.
package top

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/controller/internal/cli/top/board"
	"tandem.internal/controller/internal/client"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
)

// How often things are done.
const (
	drawEvery  = 250 * time.Millisecond // what is live is drawn
	askEvery   = 2 * time.Second        // what has changed is asked about again, at most
	firstRetry = time.Second            // a stream that was cut off is tried again; then after twice as long
	lastRetry  = 15 * time.Second       // and so on, up to this
)

// Command is the command.
func Command(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Show the nodes live on the whole screen, and one of them with why it is so",
		Long: `Show the nodes live on the whole screen, the most urgent first, and one of them with
why it is so.

Keys: arrows or j and k choose, Enter shows a node, Esc goes back, / filters as
tandem nodes does, s and r sort, ? lists them all, q quits. It needs a terminal;
elsewhere tandem fleet and tandem nodes show the same once, tandem nodes --watch goes on.`,
		Example: "  tandem top", Args: command.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.Console == nil || !a.OutTerminal {
				return command.Usage("%s needs a terminal; without one there are tandem fleet and tandem nodes",
					cmd.CommandPath())
			}
			if a.JSON {
				return command.Usage("a screen is no JSON: tandem fleet --json, tandem nodes --json")
			}
			return a.Connect(func(c *client.Client) error {
				fleet, err := client.Call(cmd.Context(), c, op.ShowFleet, op.None{}) // before the screen is taken
				if err != nil {
					return err
				}
				return run(cmd.Context(), a, c, fleet)
			})
		},
	}
}

// top is one run. What is not a channel belongs to the goroutine of run.
type top struct {
	a       *command.App
	c       *client.Client
	console command.Console
	board   *board.Board
	was     *board.Frame // on the screen; nil: unknown

	workers sync.WaitGroup
	events  chan func() // what has come, to be taken in by the goroutine of run
	crashed chan crash

	asking bool      // about a node or a filter
	asked  string    // what was asked about last
	at     time.Time // when
	stale  bool      // there may be something new about it
}

// crash is a panic of another goroutine.
type crash struct {
	value any
	stack []byte
}

func run(ctx context.Context, a *command.App, c *client.Client, fleet view.Fleet) (err error) {
	console, err := a.Console()
	if err != nil {
		return fmt.Errorf("the terminal cannot be used: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &top{a: a, c: c, console: console, board: board.New(fleet, a.Zone), events: make(chan func()),
		crashed: make(chan crash, 3)}
	defer t.ended()
	defer cancel()
	defer func() { err = errors.Join(err, console.Close()) }() // first of all, also in a panic
	t.work(func() { t.follow(ctx) })
	keys := make(chan []byte)
	t.work(func() { t.listen(ctx, keys) })
	return t.loop(ctx, keys)
}

// work runs a part in a goroutine of its own, which ends with the context. A panic there is one of the loop.
func (t *top) work(part func()) {
	t.workers.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				t.crashed <- crash{value, debug.Stack()}
			}
		}()
		part()
	})
}

// ended waits for the goroutines.
func (t *top) ended() {
	t.workers.Wait()
	select {
	case c := <-t.crashed:
		c.again()
	default:
	}
}

func (c crash) again() { panic(fmt.Sprintf("%v\n%s", c.value, c.stack)) }

func (t *top) loop(ctx context.Context, keys <-chan []byte) error {
	var decoder board.Decoder
	ticks := time.NewTicker(drawEvery)
	defer ticks.Stop()
	if err := t.draw(); err != nil {
		return err
	}
	for {
		var pressed []string
		typed := false
		select {
		case <-ctx.Done():
			return nil
		case c := <-t.crashed:
			c.again()
		case take := <-t.events:
			take()
			continue // it is drawn with the next tick
		case text := <-keys:
			if len(text) == 0 {
				return nil // nobody is there any more
			}
			pressed, typed = decoder.Feed(text), true
		case <-ticks.C:
			pressed = decoder.Wait()
		}
		for _, key := range pressed {
			if t.board.Key(key) {
				return nil
			}
		}
		if !typed || len(pressed) > 0 {
			t.ask(ctx)
			if err := t.draw(); err != nil {
				return err
			}
		}
	}
}

// draw brings the screen up to date.
func (t *top) draw() error {
	columns, lines, err := t.console.Size()
	if err != nil {
		return fmt.Errorf("the size of the terminal is not known: %w", err)
	}
	t.board.Size(columns, lines)
	t.board.Now = t.a.Now()
	is := t.board.Frame()
	if text := board.Paint(t.was, is, t.a.Colours); len(text) > 0 {
		if _, err := t.console.Write(text); err != nil {
			return fmt.Errorf("writing to the terminal: %w", err)
		}
	}
	t.was = is
	return nil
}

// take hands something to the goroutine of run.
func (t *top) take(ctx context.Context, f func()) {
	select {
	case t.events <- f:
	case <-ctx.Done():
	}
}

// listen passes on what is typed, and nothing when there is nothing more.
func (t *top) listen(ctx context.Context, keys chan<- []byte) {
	for {
		text, err := t.console.Keys(ctx)
		if err != nil {
			text = nil
		}
		select {
		case keys <- text:
		case <-ctx.Done():
			return
		}
		if len(text) == 0 {
			return
		}
	}
}

// follow follows the live stream. When it is cut off, the next one goes on from there.
func (t *top) follow(ctx context.Context) {
	after, pause := "", firstRetry
	for ctx.Err() == nil {
		err := client.Follow(ctx, t.c, op.Live, op.LiveIn{After: after}, func(l view.Live) error {
			if pause = firstRetry; l.At != "" {
				after = l.At
			}
			t.take(ctx, func() {
				t.board.Away = ""
				t.stale = t.board.Apply(&l) || t.stale
			})
			return ctx.Err()
		})
		why := "the stream has ended"
		if err != nil {
			why = command.AsFailure(err).Err.Message
		}
		t.take(ctx, func() { t.board.Away = why })
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastRetry)
	}
}

// ask asks about the node that is shown alone, or which nodes the filter selects: at once if that is new, else when
// rows have changed, and not too often. One question is open at a time.
func (t *top) ask(ctx context.Context) {
	node, filter := t.board.Node(), t.board.Filter()
	about := "node " + node
	if node == "" {
		about = "filter " + filter
	}
	isNew := about != t.asked
	switch {
	case node == "" && filter == "": // every row is shown, as the stream has it
		t.asked = about
		return
	case t.asking, !isNew && (!t.stale || t.a.Now().Sub(t.at) < askEvery):
		return
	}
	t.asking, t.asked, t.at, t.stale = true, about, t.a.Now(), false
	t.work(func() {
		var answer func()
		if node != "" {
			answer = t.lookAt(ctx, node)
		} else {
			answer = t.pick(ctx, filter)
		}
		t.take(ctx, func() {
			t.asking = false
			answer()
		})
	})
}
