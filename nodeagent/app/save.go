package app

import (
	"errors"
	"time"

	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/wire"
)

// saveRetry is the pause before another attempt at a save that may wait.
const saveRetry = 10 * time.Second

// saveStep saves the events of a machine's step and every state that is not saved. Without must, events that
// cannot be saved are kept in memory.
func (a *Agent) saveStep(events []wire.Event, must bool) error {
	err := a.commit(store.Batch{Events: events})
	if err != nil && !must {
		a.bufferEvents(events)
	}
	return err
}

// commit saves a batch, together with what earlier ones have left. Its error has been logged.
func (a *Agent) commit(b store.Batch) error {
	if a.fatal != nil {
		return a.fatal
	}
	waiting := len(a.backlog)
	b.Events = append(a.backlog[:waiting:waiting], b.Events...)
	counts := a.lost > 0 && len(b.Events) > waiting
	if counts {
		b.Events[waiting].Lost = a.lost
	}
	if a.unsaved || a.trust.Newest.Sub(a.savedTime).Abs() >= timeAlong {
		b.Trust = &a.trust
	}
	if a.node.unsaved() {
		b.Node = a.node.durable()
	}
	for _, d := range a.documents {
		if d.inbox.Unsaved {
			b.Kinds = append(b.Kinds, store.Kind{Name: d.name, State: d.inbox.State.Durable})
		}
	}
	_, err := a.store.Commit(b)
	if err != nil {
		a.saveAt = time.Since(a.began) + saveRetry
		a.unsaved = a.unsaved || b.Trust != nil
		a.log.Error("the state cannot be saved; it is tried again", zap.Error(err))
		if errors.Is(err, berrors.ErrDatabaseNotOpen) || errors.Is(err, berrors.ErrDatabaseReadOnly) {
			a.fatal = err
		}
		return err
	}
	a.backlog, a.unsaved, a.node.health.Unsaved, a.node.alerts.Unsaved = nil, false, false, false
	for _, d := range a.documents {
		d.inbox.Unsaved = false
	}
	if counts {
		a.lost = 0
	}
	if b.Trust != nil {
		a.savedTime = a.trust.Newest
	}
	if len(b.Events) > 0 {
		a.sendEvents()
	}
	return nil
}

// dirty says that something waits to be saved.
func (a *Agent) dirty() bool {
	if a.unsaved || a.node.unsaved() || len(a.backlog) > 0 {
		return true
	}
	for _, d := range a.documents {
		if d.inbox.Unsaved {
			return true
		}
	}
	return false
}

// saveAgain tries once more to save what could not be saved.
func (a *Agent) saveAgain() {
	_ = a.commit(store.Batch{}) // logged there, and tried again at saveAt
}
