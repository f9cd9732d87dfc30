package distribute

import (
	"time"

	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// statusTopic is the name of the unit's status below outbox.
const statusTopic = "status"

// statusSeen is what was published last.
type statusSeen struct {
	state, version, trial string
	since                 time.Time
}

// noteStatus publishes the state of the source with the readable copy when it has changed, for the cloud side (seed
// 000, Status Reporting).
func (c *Core) noteStatus() {
	src := c.cfg.Kinds.Copied()
	if src == nil {
		return
	}
	cfg := c.fleet.State(src.Name)
	now := statusSeen{state: cfg.State, version: cfg.Version, since: cfg.Since}
	s := wire.UnitStatus{V: wire.Version, State: cfg.State, Version: cfg.Version, Error: cfg.Error, At: cfg.Since,
		Epoch: c.journal.Load().Epoch(), Rev: c.fleet.Seq(), Time: c.cfg.Now().UTC()}
	if t := cfg.Trial; t != nil {
		trial := wire.StatusTrial(*t.View())
		now.trial, s.Trial = t.Version, &trial
	}
	if now == c.status {
		return
	}
	c.status = now
	s.Sig = c.signer().Sign(seal.StatusPreimage(c.cfg.Unit, &s))
	c.outbox.send(link.Publication{Topic: topic.ForOutbox(c.cfg.Unit, statusTopic), Payload: wire.Encode(&s),
		Retain: true})
}

// announce wakes those who follow the journal.
func (c *Core) announce() {
	c.wakeFollowers()
	c.noteStatus()
}

func (c *Core) wakeFollowers() {
	c.changedMu.Lock()
	defer c.changedMu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Changed is closed when the journal has grown, or the controller's session with its broker has begun or ended.
func (c *Core) Changed() <-chan struct{} {
	c.changedMu.Lock()
	defer c.changedMu.Unlock()
	return c.changed
}
