package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// hadState says what shows that this node has had a state file; "": nothing does. The store knows what it has written
// itself.
func (a *Agent) hadState(dir string) string {
	if a.renewer != nil {
		if a.renewer.Fresh() {
			return "" // its marks, if it has any, are of the time before it joined again
		}
		return "this node has started since it joined"
	}
	if _, err := os.Stat(filepath.Join(dir, ConfigFile)); !errors.Is(err, fs.ErrNotExist) {
		return ConfigFile + " is there"
	}
	return ""
}

// reportLoss reports that the node's state was lost, once, and warns as long as the damaged file is kept.
func (a *Agent) reportLoss() {
	l := a.store.Loss()
	if l == nil {
		return
	}
	if l.Reported {
		if err := a.lossTrouble(); err != nil {
			a.log.Warn("a damaged state file is kept", zap.Error(err))
		}
		return
	}
	detail := event.StateDetail{Reason: l.Reason, Kept: l.Kept, Trust: a.lossTrust(l)}
	ev := a.newEvent(event.StateLost, wire.New(wire.CodeStorage, "", lossText(l)), detail)
	if err := a.commit(store.Batch{Events: []wire.Event{ev}, LossReported: true}); err != nil {
		a.bufferEvents([]wire.Event{ev}) // and the next start reports it once more
	}
}

// lossTrust says from where the node knows whom to believe, and what is old.
func (a *Agent) lossTrust(l *store.Loss) string {
	switch {
	case a.renewer != nil && a.renewer.Fresh():
		return event.TrustJoin
	case l.Marks:
		return event.TrustMarks
	case a.renewer != nil:
		return event.TrustJoin
	case a.trust.Anchor != "":
		return event.TrustUnitKey
	}
	return event.TrustFirst
}

// lossText says what happened to the node's state.
func lossText(l *store.Loss) string {
	if l.Kept == "" {
		return "the state file is gone: the node began anew"
	}
	return "the state file was damaged: the node began anew"
}

// lossTrouble is what the node reports of itself as long as the damaged file is kept; nil: there is none.
func (a *Agent) lossTrouble() *wire.Error {
	l := a.store.Loss()
	if l == nil || l.Kept == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(a.node.dir, l.Kept)); err != nil {
		return nil
	}
	return wire.New(wire.CodeStorage, "", fmt.Sprintf("%s at %s; see to the disk, then remove %s", lossText(l),
		l.At.Format(time.RFC3339), l.Kept))
}
