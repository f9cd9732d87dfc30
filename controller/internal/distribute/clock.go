package distribute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/phrase"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// While the machine's clock has jumped and nobody has confirmed it, the controller goes by the time that it would be
// without the jump, hears what nodes say, and does not speak to them: what it signs they would take for the time.

// beginClock has the clock guarded from now on.
func (c *Core) beginClock() error {
	if c.cfg.Clock == nil {
		return nil
	}
	newest, err := c.Newest()
	if err != nil {
		return err
	}
	if err := c.cfg.Clock.Begin(newest); err != nil {
		c.cfg.Log.Warn("a jump of the clock may not be noticed at the next start", zap.Error(err))
	}
	return nil
}

// jump returns the jump for which the controller does not speak; false: there is none. Whoever asks first after it
// has come or gone says so in log and journal.
func (c *Core) jump() (clock.Jump, bool) {
	if c.cfg.Clock == nil {
		return clock.Jump{}, false
	}
	j, jumped := c.cfg.Clock.Jumped()
	if c.jumped.Swap(jumped) == jumped {
		return j, jumped
	}
	if jumped {
		c.cfg.Log.Error("nothing is said to the nodes: " + jumpText(j))
		c.Misbehaved("", "", jumpError(j))
	} else {
		c.cfg.Log.Info("the clock is right again, or confirmed: the nodes are spoken to")
		c.outbox.kick()
	}
	return j, jumped
}

// silent reports whether the controller does not speak.
func (c *Core) silent() bool {
	_, jumped := c.jump()
	return jumped
}

func jumpText(j clock.Jump) string {
	way := "ahead of"
	if j.By < 0 {
		way = "behind"
	}
	return fmt.Sprintf("this machine's clock shows %s, %s %s what it should; set it right, or, if it is right, "+
		"tandem clock confirm", j.Clock.UTC().Format(time.RFC3339), phrase.Span(j.By.Abs()), way)
}

func jumpError(j clock.Jump) *wire.Error { return wire.New(wire.CodeUnavailable, "", jumpText(j)) }

// jumpView is the jump as operators see it, nil if there is none.
func (c *Core) jumpView() *view.ClockJump {
	j, jumped := c.jump()
	if !jumped {
		return nil
	}
	return viewOf(j)
}

func viewOf(j clock.Jump) *view.ClockJump {
	return &view.ClockJump{Since: j.Since.UTC(), Time: j.Now.UTC(), Clock: j.Clock.UTC(),
		Seconds: int64(j.By / time.Second)}
}

// withheld returns why an event of an operator is refused while the controller does not speak; nil: it is taken. Who
// belongs to the unit is decided all the same: nobody has to hear it.
func (c *Core) withheld(ev fleet.Event) *wire.Error {
	switch ev.(type) {
	case fleet.Enrolment, fleet.EnrolList, fleet.Forget, fleet.Remark:
		return nil
	}
	if j, jumped := c.jump(); jumped {
		return jumpError(j)
	}
	return nil
}

// ConfirmClock takes what the machine's clock shows for the time, although it has jumped.
func (c *Core) ConfirmClock(ctx context.Context) (view.ClockJump, error) {
	if c.cfg.Clock == nil {
		return view.ClockJump{}, errNoJump
	}
	who := caller.From(ctx).Who()
	var j clock.Jump
	var err error
	if lerr := c.look(ctx, func(*fleet.Fleet) {
		if j, err = c.cfg.Clock.Confirm(); errors.Is(err, clock.ErrNoJump) {
			return
		}
		c.clockWentBack() // only a higher epoch tells nodes that time went back
		text := fmt.Sprintf("the clock was confirmed: it shows %s, and showed %s before it jumped",
			j.Clock.UTC().Format(time.RFC3339), j.Now.UTC().Format(time.RFC3339))
		c.step(fleet.Remark{Who: who, Data: view.Remark{Text: text}})
		c.commit()
		c.silent() // which says that this is over
		c.outbox.send(c.outbox.beacon(true))
	}); lerr != nil {
		return view.ClockJump{}, lerr
	}
	if errors.Is(err, clock.ErrNoJump) {
		return view.ClockJump{}, errNoJump
	} else if err != nil {
		c.cfg.Log.Warn("the clock may have to be confirmed again at the next start", zap.Error(err))
	}
	return *viewOf(j), nil
}

var errNoJump = wire.New(wire.CodeWrongState, "", "this machine's clock has not jumped: there is nothing to confirm")
