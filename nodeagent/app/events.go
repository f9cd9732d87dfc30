package app

import (
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/shared/event"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/wire"
)

// maxBacklog bounds the events that wait in memory for a disk that refuses them.
const maxBacklog = 32

// docDetail is what an event about a document tells.
type docDetail = event.DocumentDetail

// refusal is what an event about a refused message tells.
type refusal = event.MessageDetail

// eventRate bounds the events of one type, so that a flood of bad messages costs neither disk nor link.
var eventRate = flow.Rate{Burst: 8, Every: time.Minute}

// event makes an event; nil if there have been too many of its type. How a policy ends on the node, and that it is in
// conflict, is told however many there are (seed 003, Agent Upgrade Policy): its kind tells of each once.
func (a *Agent) event(kind string, err *wire.Error, detail any) *wire.Event {
	a.heedEvent(kind)
	now := a.now()
	throttle := a.throttle[kind]
	var held int
	if d, is := detail.(event.PolicyDetail); is && d.State.Final() {
		held = throttle.Held()
	} else if held, is = throttle.Pass(now.Steady(), eventRate); !is {
		a.throttle[kind] = throttle
		return nil
	}
	a.throttle[kind] = throttle
	switch d := detail.(type) {
	case docDetail:
		d.Suppressed = uint64(held)
		detail = d
	case refusal:
		d.Suppressed = uint64(held)
		detail = d
	case event.WorkloadDetail:
		d.Suppressed = uint64(held)
		detail = d
	case event.PolicyDetail:
		d.Suppressed += uint64(held)
		detail = d
	}
	ev := a.newEvent(kind, err, detail)
	return &ev
}

// newEvent makes an event, and logs it.
func (a *Agent) newEvent(kind string, err *wire.Error, detail any) wire.Event {
	at := a.deps.Now().UTC().Round(0)
	ev := wire.Event{V: wire.Version, Node: a.id.Node, Boot: a.boot, At: at, Type: kind, Error: err}
	if detail != nil {
		data, merr := json.Marshal(detail, json.Deterministic(true))
		if merr != nil {
			panic("app: event detail: " + merr.Error()) // only our own types come here
		}
		ev.Detail = data
	}
	fields := []zap.Field{zap.String("type", kind), zap.ByteString("detail", ev.Detail)}
	if d, is := detail.(docDetail); is {
		fields = append(fields, zap.String("kind", string(d.Kind)))
		if d.DocRef != nil { // what could not be read has none
			fields = append(fields, zap.Uint64("rev", d.Rev))
		}
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	a.log.Warn("event", fields...)
	return ev
}

// emit keeps an event that no document's state goes with.
func (a *Agent) emit(kind string, err *wire.Error, detail any) {
	if ev := a.event(kind, err, detail); ev != nil {
		a.saveEvents(*ev)
	}
}

// saveEvents saves events, or buffers them.
func (a *Agent) saveEvents(events ...wire.Event) {
	_ = a.saveStep(events, false) // logged there
}

// bufferEvents keeps events in memory until the disk takes them, as far as there is room. The rest is lost, and
// the next event that is saved says so.
func (a *Agent) bufferEvents(events []wire.Event) {
	for _, ev := range events {
		if len(a.backlog) == maxBacklog {
			a.log.Warn("event dropped: state file not writable and the event buffer is full",
				zap.String("type", ev.Type))
			a.lost++
			continue
		}
		a.backlog = append(a.backlog, ev)
	}
}

// eventsAtOnce bounds the events that wait in the sender, so that a long queue costs no memory.
const eventsAtOnce = 32

// sendEvents hands the next kept events to the sender, if there is a session and room. The sender
// asks for more when it has sent them.
func (a *Agent) sendEvents() {
	if a.session == 0 || a.sent >= a.store.NewestEvent() || a.sender.Pending() >= eventsAtOnce {
		return
	}
	events, err := a.store.Events(a.sent, eventsAtOnce)
	if err != nil {
		a.fatal = err
		return
	}
	for i := range events {
		a.sender.Once(a.topics.Event(), wire.Encode(&events[i]), events[i].Seq)
		a.sent = events[i].Seq
	}
	if len(events) == 0 {
		a.sent = a.store.NewestEvent()
	}
}
