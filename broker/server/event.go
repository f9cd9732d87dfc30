package server

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/flow"
	"tandem.internal/shared/runlog"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of event.
const (
	Connected       EventKind = "connected"
	Disconnected    EventKind = "disconnected"     // Detail has the reason
	Refused         EventKind = "refused"          // a connection did not become a session; Detail has the reason
	DeniedPublish   EventKind = "denied-publish"   // a publish was acknowledged and discarded
	DeniedSubscribe EventKind = "denied-subscribe" // a filter was answered with a failure code
	// a client connected, and the one with the same ID was disconnected; Count is of all clients
	Takeover     EventKind = "takeover"
	Fight        EventKind = "fight"         // many takeovers of one ID: two clients share it
	Dropped      EventKind = "dropped"       // messages to a client were dropped because of its limits
	Stalled      EventKind = "stalled"       // a client was disconnected because it did not read
	TooLarge     EventKind = "too-large"     // a client was disconnected because it sent a packet above the limit
	IntakeFailed EventKind = "intake-failed" // the intake failed: no acknowledgement, and the sender is disconnected
	AcceptFailed EventKind = "accept-failed" // a listener had an error; it goes on unless Detail says otherwise
	Panicked     EventKind = "panicked"      // a connection's goroutine panicked; only that connection has ended
)

// Event is an occurrence that may matter to an administrator.
type Event struct {
	Kind      EventKind
	At        time.Time
	ClientID  string
	Remote    string // the client's address
	OldRemote string // of Takeover and Fight: the address of the client that was disconnected
	Topic     string // topic or filter
	Detail    string
	Count     int // number of occurrences, at least 1: repetitions are emitted once a second for each client
}

// eventQueue is the most events that wait for OnEvent.
const eventQueue = 1024

// events gives events to OnEvent and the log from one goroutine, so that emit never blocks and may be called while a
// lock is held.
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

// emit queues an event; it discards the event if the queue is full or closed.
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

// run delivers events until the queue is closed and empty.
func (e *events) run() {
	defer close(e.done)
	for ev := range e.queue {
		e.deliver(ev)
	}
}

// deliver gives one event to OnEvent and the log.
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

// write logs one event.
func (e *events) write(ev Event) {
	level := zap.WarnLevel
	switch ev.Kind {
	case Connected, Disconnected:
		level = zap.DebugLevel
	case Panicked, IntakeFailed:
		level = zap.ErrorLevel
	}
	if c := e.log.Check(level, "broker: "+string(ev.Kind)); c != nil {
		fields := []zap.Field{runlog.Node(ev.ClientID), zap.String("client", ev.ClientID),
			zap.String("remote", ev.Remote)}
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

// throttle passes one event a second; the next one has the count of those that were held back.
type throttle struct {
	mu      sync.Mutex
	last    time.Time
	held    int    // events held back since then
	pending *Event // the newest of them; nil: none
}

// throttleEvery is the time between two events.
const throttleEvery = time.Second

// pass returns the event to emit now, or false.
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

// rest returns the event that stands for those still held back, or false.
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

// flood passes events that clients can cause without an end: a burst, and then one a second. The next event has the
// count of those that were held back.
type flood struct {
	mu       sync.Mutex
	throttle flow.Throttle
}

// floodBurst is the number of events in a burst.
const floodBurst = 32

// pass returns the event to emit now, or false.
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

// panicDetail returns the value of a panic as a text of limited length.
func panicDetail(r any) string { return fmt.Sprintf("%.500v", r) }

// close waits until the queued events are delivered and the goroutine has ended. Events that the last goroutines of the
// clients emit after that are discarded.
func (e *events) close() {
	e.mu.Lock()
	e.closed = true
	close(e.queue)
	e.mu.Unlock()
	<-e.done
}
