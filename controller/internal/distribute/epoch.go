package distribute

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
)

// raiseEpoch issues everything again under an epoch above that, unless it has come to that already.
func (c *Core) raiseEpoch(above uint64, why string) {
	if c.journal.Load().Epoch() > above {
		return // another node of the same batch said so already
	}
	epoch, err := c.journal.Load().BumpEpoch(above + 1)
	if err != nil {
		c.fail(err)
		return
	}
	c.cfg.Log.Warn("the epoch is raised and everything issued again",
		zap.String("why", why), zap.Uint64("epoch", epoch))
	c.step(fleet.EpochRaised{Epoch: epoch, Why: why})
	c.outbox.setEpoch(epoch)
}

// maxClockBack is how far the clock may have been set back without telling the nodes.
const maxClockBack = 30 * time.Second

// clockWentBack notices that the journal, or what nodes have proved by it, is of a later time than now. Nodes take a
// beacon of an earlier time for a recorded one, and the requests of this controller for expired ones, unless the epoch
// is higher than any that they have heard.
func (c *Core) clockWentBack() {
	at, err := c.Newest()
	if err != nil {
		c.fail(err)
		return
	}
	if heard := c.fleet.NewestHeard(c.journal.Load().Epoch()); heard.After(at) {
		at = heard
	}
	if c.stepsBack(c.cfg.Now(), at, "the newest record") {
		c.commit()
	}
}

// clockGoesBack notices that the clock was set back since the newest beacon.
func (c *Core) clockGoesBack(now time.Time) {
	c.outbox.mu.Lock()
	at := c.outbox.beaconAt
	c.outbox.mu.Unlock()
	if c.stepsBack(now, at, "the newest beacon") {
		c.commit()
	}
}

// stepsBack raises the epoch if it is earlier now than it was.
func (c *Core) stepsBack(now, at time.Time, what string) bool {
	back := at.Sub(now.Round(0))
	if back > maxClockBack {
		why := fmt.Sprintf("the clock stands %v before %s", back.Round(time.Second), what)
		c.raiseEpoch(c.journal.Load().Epoch(), why)
	}
	return back > maxClockBack
}
