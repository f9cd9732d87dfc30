package distribute

import (
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// unitStatus is what outbox/status carries: the state of the source with the readable copy, for the cloud side
// (seed 000, Status Reporting).
type unitStatus struct {
	V       int         `json:"v"`
	State   string      `json:"state"`
	Version string      `json:"version"`
	Error   *wire.Error `json:"error,omitempty"`
	Trial   *view.Trial `json:"trial,omitempty"`
	At      time.Time   `json:"at"` // since when
}

// statusTopic is the name of the unit's status below outbox.
const statusTopic = "status"

// statusSeen is what was published last.
type statusSeen struct {
	state, version, trial string
	since                 time.Time
}

// noteStatus publishes that state when it has changed.
func (c *Core) noteStatus() {
	src := c.cfg.Kinds.Copied()
	if src == nil {
		return
	}
	cfg := c.fleet.State(src.Name)
	now := statusSeen{state: cfg.State, version: cfg.Version, since: cfg.Since}
	s := unitStatus{V: wire.Version, State: cfg.State, Version: cfg.Version, Error: cfg.Error, At: cfg.Since}
	if t := cfg.Trial; t != nil {
		now.trial, s.Trial = t.Version, t.View()
	}
	if now == c.status {
		return
	}
	c.status = now
	payload, err := json.Marshal(&s)
	if err != nil {
		panic("distribute: cannot encode the unit's status: " + err.Error())
	}
	c.outbox.send(link.Publication{Topic: topic.ForOutbox(c.cfg.Unit, statusTopic), Payload: payload,
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
