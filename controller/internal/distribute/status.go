package distribute

import (
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
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
	s := c.statusOf(c.fleet)
	now := statusSeen{state: s.State, version: s.Version, since: s.At}
	if s.Trial != nil {
		now.trial = s.Trial.Version
	}
	if now == c.status {
		return
	}
	c.status = now
	s.Sig = c.signer().Sign(seal.StatusPreimage(c.cfg.Unit, &s))
	c.outbox.send(link.Publication{Topic: topic.ForOutbox(c.cfg.Unit, statusTopic), Payload: wire.Encode(&s),
		Retain: true})
}

// statusOf is the state of the unit's own document, not signed.
func (c *Core) statusOf(f *fleet.Fleet) wire.UnitStatus {
	s := wire.UnitStatus{V: wire.Version, State: kind.Absent, Epoch: c.journal.Load().Epoch(), Rev: f.Seq(),
		Time: c.cfg.Now().UTC()}
	if src := c.cfg.Kinds.Copied(); src != nil {
		own := f.State(src.Name)
		s.State, s.Version, s.Error, s.At = own.State, own.Version, own.Error, own.Since
		if own.Trial != nil {
			trial := wire.StatusTrial(*own.Trial.View())
			s.Trial = &trial
		}
	}
	return s
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
