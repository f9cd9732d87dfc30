package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Broker is what an embedded broker offers to the process around it.
type Broker interface {
	// Publish sends a message to the broker's subscribers. It does not call the intake, and does not wait for a
	// subscriber. The caller must not change payload afterwards.
	Publish(topic string, payload []byte, retain bool) error
	// Intake sets the function that gets every message that a client publishes. The broker acknowledges a message
	// to its client after f has returned. It calls f from many goroutines at once. f may keep payload. Intake is
	// called once.
	Intake(f func(topic string, payload []byte))
	// Retained returns the retained payload of a topic.
	Retained(topic string) (payload []byte, ok bool)
}

// LocalOptions are the options of a local link; the zero value is valid.
type LocalOptions struct {
	// Goodbye returns the messages to publish when Run's ctx ends; session is 1. Nil means none.
	Goodbye func(session uint64) []Publication
}

// Local is a Link to a broker in the same process, and a Retainer. Create it with NewLocal.
//
// The Handler gets every message that a client publishes, on any topic. The broker acknowledges a message after the
// Handler has returned, so there is no queue in between that could lose it.
//
// There is one session. It begins when Run starts and ends with Run. When Up is called the intake is set, so the
// Handler misses nothing if the broker begins to listen after Up. Nothing is replayed: the broker keeps messages in
// memory only, and is empty when the process starts. Publish waits for no window; the broker limits its clients.
type Local struct {
	broker  Broker
	handler Handler
	opts    LocalOptions
	started atomic.Bool

	mu    sync.Mutex
	open  bool
	calls sync.WaitGroup // calls of the Handler and of the broker
}

var (
	_ Link     = (*Local)(nil)
	_ Retainer = (*Local)(nil)
)

// NewLocal returns a link to an embedded broker.
func NewLocal(b Broker, h Handler, opts LocalOptions) *Local {
	return &Local{broker: b, handler: h, opts: opts}
}

// Run implements Link. Stop the broker before ctx ends: after Run has returned, the broker acknowledges messages that
// no Handler gets.
func (l *Local) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return errRunTwice
	}
	l.mu.Lock()
	l.open = true
	l.mu.Unlock()
	l.broker.Intake(l.intake)
	l.handler.Up(1)
	<-ctx.Done()
	l.mu.Lock()
	l.open = false
	l.mu.Unlock()
	l.calls.Wait()
	err := l.goodbye()
	l.handler.Down(1, fmt.Errorf("stopped: %w", context.Cause(ctx)))
	return err
}

// goodbye publishes the messages of LocalOptions.Goodbye.
func (l *Local) goodbye() error {
	if l.opts.Goodbye == nil {
		return nil
	}
	var errs []error
	for _, p := range l.opts.Goodbye(1) {
		if err := l.broker.Publish(p.Topic, p.Payload, p.Retain); err != nil {
			errs = append(errs, fmt.Errorf("goodbye: %w", err))
		}
	}
	return errors.Join(errs...)
}

// beginCall reports whether the session is open, and then counts a call. The caller ends it with l.calls.Done.
func (l *Local) beginCall() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.calls.Add(1)
	}
	return l.open
}

// intake passes a message of a client to the Handler.
func (l *Local) intake(topic string, payload []byte) {
	if l.beginCall() {
		defer l.calls.Done()
		l.handler.Message(Message{Topic: topic, Payload: payload})
	}
}

// Publish implements Link. When it returns nil, the broker has the message.
func (l *Local) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !l.beginCall() {
		return ErrDown
	}
	defer l.calls.Done()
	if err := l.broker.Publish(topic, payload, retain); err != nil {
		return fmt.Errorf("publish to the embedded broker: %w", err)
	}
	return nil
}

// Retained implements Retainer.
func (l *Local) Retained(topic string) ([]byte, bool) { return l.broker.Retained(topic) }
