package distribute

import (
	"context"
	"sync/atomic"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// tickets: callers that wait for an Answer.

func (c *Core) ticket() (uint64, chan fleet.Answer) {
	t, ch := c.tickets.Add(1), make(chan fleet.Answer, 1)
	c.waitingMu.Lock()
	c.waiting[t] = ch
	c.waitingMu.Unlock()
	return t, ch
}

func (c *Core) takeTicket(t uint64) chan fleet.Answer {
	c.waitingMu.Lock()
	defer c.waitingMu.Unlock()
	ch := c.waiting[t]
	delete(c.waiting, t)
	return ch
}

func (c *Core) answer(a fleet.Answer) {
	if ch := c.takeTicket(a.Ticket); ch != nil {
		ch <- a
	}
}

func (c *Core) refuseAll(err error) {
	c.waitingMu.Lock()
	all := c.waiting
	c.waiting = map[uint64]chan fleet.Answer{}
	c.waitingMu.Unlock()
	for t, ch := range all {
		ch <- fleet.Answer{Ticket: t, Err: err}
	}
}

// order brings an event that is answered under a ticket to the loop and waits for the answer.
func (c *Core) order(ctx context.Context, make func(ticket uint64) fleet.Event) (view.Result, error) {
	a := c.ask(ctx, make)
	return a.Result, a.Err
}

// ask is order with the whole answer.
func (c *Core) ask(ctx context.Context, make func(ticket uint64) fleet.Event) fleet.Answer {
	t, ch := c.ticket()
	ev := make(t)
	if err := c.withheld(ev); err != nil {
		c.takeTicket(t)
		return fleet.Answer{Err: err}
	}
	if !c.queue.put(item{event: ev, ticket: t}, nil) {
		c.takeTicket(t)
		return fleet.Answer{Err: errStopped}
	}
	select {
	case a := <-ch:
		return a
	case <-ctx.Done():
		c.takeTicket(t)
		return fleet.Answer{Err: ctx.Err()}
	}
}

// look runs fn on the loop's goroutine, where the Fleet may be read and what follows be written. When look returns
// an error fn has not run and will not.
func (c *Core) look(ctx context.Context, fn func(*fleet.Fleet)) error {
	return c.onLoop(ctx, func(f *fleet.Fleet, broken error) error {
		if broken == nil {
			fn(f)
		}
		return broken
	})
}

// see is look for those who only read: also while the journal cannot be written, when the Fleet is what its file has.
func (c *Core) see(ctx context.Context, fn func(*fleet.Fleet)) error {
	return c.onLoop(ctx, func(f *fleet.Fleet, _ error) error {
		if c.unread == nil {
			fn(f)
		}
		return c.unread
	})
}

func (c *Core) onLoop(ctx context.Context, fn func(*fleet.Fleet, error) error) error {
	var err error
	var taken atomic.Bool // by fn, or by the caller who left
	done := make(chan struct{})
	if !c.queue.put(item{view: func(f *fleet.Fleet, broken error) {
		if !taken.CompareAndSwap(false, true) {
			return
		}
		defer close(done)
		err = fn(f, broken)
	}}, nil) {
		return errStopped
	}
	gone := errStopped
	select {
	case <-done:
		return err
	case <-c.queue.closed:
	case <-ctx.Done():
		gone = wire.New(wire.CodeTimeout, "", "the controller did not answer in time: "+ctx.Err().Error())
	}
	if taken.CompareAndSwap(false, true) {
		return gone
	}
	<-done
	return err
}
