package app

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/clock"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/machine"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// saveRetry is the pause before another attempt at a save that may wait.
const saveRetry = 10 * time.Second

// maxBacklog bounds the events that wait in memory for a disk that refuses them.
const maxBacklog = 32

// machine returns the machine that takes documents of this kind through the inbox.
func (a *Agent) machine(k *kind, saved inbox.Durable) documents {
	return documents{
		State: inbox.New(saved, k.applier != nil),
		Now:   a.now,
		Step: func(s inbox.State, now clock.Now, ev inbox.Event) (inbox.State, []inbox.Effect) {
			return s.Step(now, a.deps.Rand.Float64(), ev)
		},
		Failed: func(s inbox.State, now clock.Now, ev inbox.Event, err *wire.Error) (inbox.State, []inbox.Effect) {
			return s.Failed(now, a.deps.Rand.Float64(), ev, err)
		},
		Next: inbox.State.NextDeadline,
		Tick: inbox.Tick{},
		Sort: func(e inbox.Effect) machine.Order {
			switch e := e.(type) {
			case inbox.Save:
				return machine.Order{Save: true, Must: e.Must}
			case inbox.Emit:
				return machine.Order{Emit: a.event(e.Type, e.Err, docDetail{Kind: k.name, DocRef: e.Doc})}
			}
			return machine.Order{}
		},
		Commit: a.saveStep,
		Run:    func(e inbox.Effect) { a.effect(k, e) },
		After:  func() { a.followed(k) },
	}
}

// saveStep saves the events of a machine's step and every state that is not saved. Without must, events that
// cannot be saved are kept in memory.
func (a *Agent) saveStep(events []wire.Event, must bool) error {
	err := a.commit(store.Batch{Events: events})
	if err != nil && !must {
		a.remember(events)
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
	if a.care.unsaved() {
		b.Care = a.care.durable()
	}
	for _, k := range a.kinds {
		if k.inbox.Unsaved {
			b.Kinds = append(b.Kinds, store.Kind{Name: k.name, State: k.inbox.State.Durable})
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
	a.backlog, a.unsaved, a.care.health.Unsaved, a.care.alerts.Unsaved = nil, false, false, false
	for _, k := range a.kinds {
		k.inbox.Unsaved = false
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
	if a.unsaved || a.care.unsaved() || len(a.backlog) > 0 {
		return true
	}
	for _, k := range a.kinds {
		if k.inbox.Unsaved {
			return true
		}
	}
	return false
}

// saveAgain tries once more to save what could not be saved.
func (a *Agent) saveAgain() {
	_ = a.commit(store.Batch{}) // logged there, and tried again at saveAt
}

// effect does what the inbox asks for.
func (a *Agent) effect(k *kind, e inbox.Effect) {
	switch e := e.(type) {
	case inbox.Check:
		k.inbox.Handle(inbox.Checked{Stamp: e.Doc.Stamp, Errs: k.applier.Check(e.Doc)})
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
			k.inbox.Handle(ev)
		}
	case inbox.Answer:
		a.reply(e.ID, []byte("null"), e.Err)
	}
}

// employ runs an applier's work beside the owner. The inbox asks each kind for one thing at a time.
func (a *Agent) employ(k *kind, f func() inbox.Event) {
	a.aside(func() func() {
		ev := f()
		return func() { k.inbox.Handle(ev) }
	})
}

// docDetail is what an event about a document tells.
type docDetail = event.DocumentDetail

// refusal is what an event about a refused message tells.
type refusal = event.MessageDetail

// event makes an event; nil if there have been too many of its type.
func (a *Agent) event(kind string, err *wire.Error, detail any) *wire.Event {
	now := a.now()
	next, ok, swallowed := a.throttle[kind].Pass(now.Mono)
	a.throttle[kind] = next
	if !ok {
		return nil
	}
	switch d := detail.(type) {
	case docDetail:
		d.Suppressed = swallowed
		detail = d
	case refusal:
		d.Suppressed = swallowed
		detail = d
	}
	ev := a.made(kind, err, detail)
	return &ev
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
	if ev := a.event(kind, err, detail); ev != nil {
		a.keep(*ev)
	}
}

// keep saves events, or remembers them.
func (a *Agent) keep(events ...wire.Event) {
	_ = a.saveStep(events, false) // logged there
}
