package distribute

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/shared/wire"
)

// fail stops acceptance after a failed write. What the Fleet holds may be ahead of the disk, so it is not built upon
// any more: those who read get what the file has.
func (c *Core) fail(err error) {
	first := c.broken == nil
	c.refuse(err)
	c.failures.Add(1)
	if first {
		c.cfg.Log.Error("the journal cannot be written; nothing is accepted until it can", zap.Error(err))
	}
	for _, e := range c.out.Effects {
		if a, ok := e.(fleet.Answer); ok {
			c.answer(fleet.Answer{Ticket: a.Ticket, Err: c.broken})
		}
	}
	c.out.Reset()
	c.refuseAll(c.broken)
	c.goBack()
}

// refuse says why nothing is accepted, and when the journal is tried again.
func (c *Core) refuse(err error) {
	c.broken = storageError(err)
	broken := c.broken
	c.refusing.Store(&broken)
	c.reopenPause = max(c.cfg.ReopenEvery, min(2*c.reopenPause, maxReopenPause))
	c.reopenAt = c.cfg.Now().Add(c.reopenPause)
}

// goBack opens the journal anew and goes back to what its file has. If that cannot be read, there is nothing to show.
func (c *Core) goBack() {
	if err := c.journal.Load().Close(); err != nil {
		c.cfg.Log.Debug("closing the broken journal", zap.Error(err))
	}
	if c.unread = c.load(); c.unread != nil {
		c.cfg.Log.Error("the journal cannot be read", zap.Error(c.unread))
	}
}

// storageError keeps a *wire.Error that the journal gives.
func storageError(err error) error {
	if w, ok := errors.AsType[*wire.Error](err); ok {
		return w
	}
	return wire.New(wire.CodeStorage, "", err.Error())
}

// maxReopenPause bounds the growing pause between two attempts to use a broken journal.
const maxReopenPause = time.Minute

// reopen tries to go on from what is durable. Until a first record has been written nothing is published: after a
// failed write the disk may have less than the file shows.
func (c *Core) reopen() {
	if c.unread != nil {
		if c.goBack(); c.unread != nil {
			c.refuse(c.unread)
			return
		}
	}
	if err := c.adopt(); err != nil {
		c.refuse(err)
		return
	}
	c.broken = nil
	c.open(true)
	c.hearBacklog()
	if c.broken != nil {
		return
	}
	c.reopenPause = 0
	c.refusing.Store(nil)
	c.cfg.Log.Info("the journal can be written again", zap.Uint64("records", c.fleet.Seq()))
	c.outbox.reset(c.desired())
}

// Refusing is why messages are not taken at the moment, nil if they are.
func (c *Core) Refusing() error {
	if c.stopping.Load() {
		return errStopped
	}
	if e := c.refusing.Load(); e != nil {
		return *e
	}
	return nil
}

// Refuse ends the taking of messages, before the link is taken down.
func (c *Core) Refuse() { c.stopping.Store(true) }

// Take lets bring hand messages to the Handler and tells whether they were taken. An error means that they may be
// lost, so that a broker must not acknowledge them and their sender tries again. While the journal cannot be written
// they are held: senders keep their sessions. Those whose commit failed are brought again, to be held.
func (c *Core) Take(bring func()) error {
	for range 2 {
		failures := c.failures.Load()
		if c.stopping.Load() {
			return errStopped
		}
		bring()
		if c.stopping.Load() {
			return errStopped
		}
		if c.failures.Load() == failures {
			return nil
		}
	}
	return errInterrupted
}

var errInterrupted = wire.New(wire.CodeStorage, "", "the journal failed meanwhile")
