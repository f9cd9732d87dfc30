package app

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// saveRetry is the pause before another attempt at a save that may wait.
const saveRetry = 10 * time.Second

// maxBacklog bounds the events that wait in memory for a disk that refuses them.
const maxBacklog = 32

// step takes one kind over one event: step, save, then act.
func (a *Agent) step(k *kind, ev inbox.Event) {
	now := a.now()
	next, effects := k.state.Step(now, a.deps.Rand.Float64(), ev)
	save, must := k.unsaved, false
	var events []wire.Event
	for _, e := range effects {
		switch e := e.(type) {
		case inbox.Save:
			save, must = true, e.Must
		case inbox.Emit:
			if event, ok := a.event(e.Type, e.Err, docDetail{Kind: k.name, DocRef: e.Doc}); ok {
				events = append(events, event)
			}
		}
	}
	if save || len(events) > 0 {
		batch := store.Batch{Events: events}
		if save {
			batch.Kind = &store.Kind{Name: k.name, State: next.Durable}
		}
		switch err := a.commit(batch); {
		case err == nil:
			k.unsaved = false
		case must:
			next, effects = k.state.Failed(now, a.deps.Rand.Float64(), ev, storageError(err))
		default:
			k.unsaved = save
			a.remember(events)
		}
	}
	k.state = next
	for _, e := range effects {
		a.effect(k, e)
	}
	a.followed(k)
}

func storageError(err error) *wire.Error {
	return wire.New(wire.CodeStorage, "", "the node's state cannot be saved: "+err.Error())
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
	if a.care.unsaved {
		b.Care = a.care.durable()
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
	a.backlog, a.unsaved, a.care.unsaved = nil, false, false
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

// remember keeps events in memory until the disk takes them, as far as there is room. The rest is lost, and
// the next event that is saved says so.
func (a *Agent) remember(events []wire.Event) {
	for _, ev := range events {
		if len(a.backlog) == maxBacklog {
			a.log.Warn("an event is lost: the disk refuses it and memory is full of others", zap.String("type", ev.Type))
			a.lost++
			continue
		}
		a.backlog = append(a.backlog, ev)
	}
}

// dirty says that something waits to be saved.
func (a *Agent) dirty() bool {
	if a.unsaved || a.care.unsaved || len(a.backlog) > 0 {
		return true
	}
	for _, k := range a.kinds {
		if k.unsaved {
			return true
		}
	}
	return false
}

func (a *Agent) saveAgain() {
	for _, k := range a.kinds {
		if k.unsaved {
			if a.commit(store.Batch{Kind: &store.Kind{Name: k.name, State: k.state.Durable}}) != nil {
				return
			}
			k.unsaved = false
		}
	}
	if a.unsaved || a.care.unsaved || len(a.backlog) > 0 {
		_ = a.commit(store.Batch{}) // logged there, and tried again at saveAt
	}
}

// effect does what the inbox asks for.
func (a *Agent) effect(k *kind, e inbox.Effect) {
	switch e := e.(type) {
	case inbox.Check:
		a.step(k, inbox.Checked{Stamp: e.Doc.Stamp, Errs: k.applier.Check(e.Doc)})
	case inbox.Apply:
		a.employ(k, func() inbox.Event { return k.applier.Apply(a.work, e) })
	case inbox.Restore:
		a.employ(k, func() inbox.Event { return k.applier.Restore(a.work, e) })
	case inbox.Verify:
		a.employ(k, func() inbox.Event { return k.applier.Verify(a.work, e) })
	case inbox.Report:
		a.sayKind(k, e.Running, e.Last)
	case inbox.Again:
		for _, ev := range e.Events {
			a.step(k, ev)
		}
	case inbox.Answer:
		a.reply(e.ID, []byte("null"), e.Err)
	}
}

// employ runs an applier's work beside the owner. The inbox asks each kind for one thing at a time.
func (a *Agent) employ(k *kind, f func() inbox.Event) {
	a.aside(func() func() {
		ev := f()
		return func() { a.step(k, ev) }
	})
}

// docDetail is what an event about a document tells.
type docDetail = event.DocumentDetail

// refusal is what an event about a refused message tells.
type refusal = event.MessageDetail

// event makes an event, unless there have been too many of its type.
func (a *Agent) event(kind string, err *wire.Error, detail any) (wire.Event, bool) {
	now := a.now()
	next, ok, swallowed := a.throttle[kind].Pass(now.Mono)
	a.throttle[kind] = next
	if !ok {
		return wire.Event{}, false
	}
	switch d := detail.(type) {
	case docDetail:
		d.Suppressed = swallowed
		detail = d
	case refusal:
		d.Suppressed = swallowed
		detail = d
	}
	return a.made(kind, err, detail), true
}

// made makes an event.
func (a *Agent) made(kind string, err *wire.Error, detail any) wire.Event {
	ev := wire.Event{V: wire.Version, Node: a.id.Node, Boot: a.boot, At: a.deps.Now().UTC().Round(0), Type: kind, Error: err}
	if detail != nil {
		data, merr := json.Marshal(detail, json.Deterministic(true))
		if merr != nil {
			panic("app: event detail: " + merr.Error()) // only our own types come here
		}
		ev.Detail = data
	}
	fields := []zap.Field{zap.String("type", kind), zap.ByteString("detail", ev.Detail)}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	a.log.Warn("event", fields...)
	return ev
}

// emit keeps an event that no document's state goes with.
func (a *Agent) emit(kind string, err *wire.Error, detail any) {
	if ev, ok := a.event(kind, err, detail); ok {
		a.keep(ev)
	}
}

// keep saves events, or remembers them.
func (a *Agent) keep(events ...wire.Event) {
	if a.commit(store.Batch{Events: events}) != nil {
		a.remember(events)
	}
}
