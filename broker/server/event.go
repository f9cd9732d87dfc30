package server

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/flow"
)

// EventKind says what happened.
type EventKind string

// The kinds of event.
const (
	Connected       EventKind = "connected"
	Disconnected    EventKind = "disconnected"     // Detail says why
	Refused         EventKind = "refused"          // a connection that never became a session; Detail says why
	DeniedPublish   EventKind = "denied-publish"   // acknowledged and discarded
	DeniedSubscribe EventKind = "denied-subscribe" // answered with a failure code
	// a client came while one of the same ID was connected, which was cut
	Takeover     EventKind = "takeover"
	Fight        EventKind = "fight"         // takeovers of one ID that will not end: two clients share it
	Dropped      EventKind = "dropped"       // messages to a client that its limits had no room for
	Stalled      EventKind = "stalled"       // a client was cut because it did not read
	IntakeFailed EventKind = "intake-failed" // a message was not taken, not acknowledged, and its sender cut
	AcceptFailed EventKind = "accept-failed" // a listener had an error; it goes on unless Detail says it ended
	Panicked     EventKind = "panicked"      // a connection's goroutine panicked; only that connection is gone
)

// Event is something that an administrator, or the unit's journal, may want to know.
type Event struct {
	Kind      EventKind
	At        time.Time
	ClientID  string
	Remote    string // the client's address
	OldRemote string // Takeover and Fight: the address of the client that was cut
	Topic     string // topic or filter
	Detail    string
	Count     int // how many this stands for, at least 1: repetitions are told once a second and client
}

// eventQueue is how many events wait for OnEvent.
const eventQueue = 1024

// events passes events to the log and to OnEvent from one goroutine, so that emitting one never blocks and
// is allowed under any lock.
type events struct {
	queue chan Event
	lost  atomic.Int64
	log   *zap.Logger
	fn    func(Event)
	done  chan struct{}

	mu     sync.Mutex // orders emit and close
	closed bool
}

func newEvents(log *zap.Logger, fn func(Event)) *events {
	return &events{queue: make(chan Event, eventQueue), log: log, fn: fn, done: make(chan struct{})}
}

func (e *events) emit(ev Event) {
	ev.At = time.Now()
	ev.Count = max(ev.Count, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	select {
	case e.queue <- ev:
	default:
		e.lost.Add(1)
	}
}

// run ends when the queue is closed and empty.
func (e *events) run() {
	defer close(e.done)
	for ev := range e.queue {
		e.deliver(ev)
	}
}

func (e *events) deliver(ev Event) {
	defer func() {
		if r := recover(); r != nil {
			e.log.Error("event callback panicked", zap.Any("panic", r), zap.Stack("stack"))
		}
	}()
	if e.fn != nil {
		e.fn(ev)
	}
	e.write(ev)
}

func (e *events) write(ev Event) {
	level := zap.WarnLevel
	switch ev.Kind {
	case Connected, Disconnected:
		level = zap.DebugLevel
	case Panicked, IntakeFailed:
		level = zap.ErrorLevel
	}
	if c := e.log.Check(level, "broker: "+string(ev.Kind)); c != nil {
		fields := []zap.Field{zap.String("client", ev.ClientID), zap.String("remote", ev.Remote)}
		for _, f := range [][2]string{{"old-remote", ev.OldRemote}, {"topic", ev.Topic}, {"detail", ev.Detail}} {
			if f[1] != "" {
				fields = append(fields, zap.String(f[0], f[1]))
			}
		}
		if ev.Count > 1 {
			fields = append(fields, zap.Int("count", ev.Count))
		}
		c.Write(fields...)
	}
}

// throttle lets one event of a kind through per second and counts the others into the next.
type throttle struct {
	mu      sync.Mutex
	last    time.Time
	held    int
	pending *Event // nil while nothing is held: most clients never need it
}

const throttleEvery = time.Second

// pass returns the event to tell now, if any.
func (t *throttle) pass(ev Event) (Event, bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < throttleEvery {
		t.held++
		t.pending = &ev
		return Event{}, false
	}
	ev.Count = t.held + 1
	t.last, t.held, t.pending = now, 0, nil
	return ev, true
}

// rest returns the event that was held back and never emitted.
func (t *throttle) rest() (Event, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == 0 {
		return Event{}, false
	}
	ev := *t.pending
	ev.Count, t.held, t.pending = t.held, 0, nil
	return ev, true
}

// flood lets events of strangers through, a burst and then one a second, and counts the others into the next.
type flood struct {
	mu       sync.Mutex
	throttle flow.Throttle
}

const floodBurst = 32

// pass returns the event to tell now, if any.
func (f *flood) pass(ev Event) (Event, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, ok := f.throttle.Pass(time.Now(), flow.Rate{Burst: floodBurst, Every: throttleEvery})
	if !ok {
		return Event{}, false
	}
	ev.Count = held + 1
	return ev, true
}

func panicDetail(r any) string { return fmt.Sprintf("%.500v", r) }

// close delivers the queued events and ends the goroutine. An event that is emitted afterwards is discarded:
// the last goroutines of the clients may still emit some.
func (e *events) close() {
	e.mu.Lock()
	e.closed = true
	close(e.queue)
	e.mu.Unlock()
	<-e.done
}
