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
	// Publish hands a message to the broker's subscribers, without calling the intake. It must not
	// wait for a subscriber. The broker keeps payload.
	Publish(topic string, payload []byte, retain bool) error
	// Intake makes the broker call f with every message that a client publishes, before it
	// acknowledges the message to that client, concurrently and waiting for f to return. f may keep
	// payload. It is called once.
	Intake(f func(topic string, payload []byte))
	// Retained returns the retained payload of a topic.
	Retained(topic string) (payload []byte, ok bool)
}

// LocalOptions adds to a local link what the configuration of a dialled one has.
type LocalOptions struct {
	// Goodbye makes what is published when Run's ctx ends. Nil means nothing. The session is 1.
	Goodbye func(session uint64) []Publication
}

// Local is a Link to a broker in the same process, and a Retainer. Create it with NewLocal.
//
// Its Handler gets every message that a client publishes, whatever its topic, and the client's
// acknowledgement waits for the Handler: no queue stands between them that could drop. It has one
// session, which Up begins at once when Run starts and which ends with Run. Up means that the
// intake stands, so a broker that begins to listen after Up shows the Handler everything. Nothing
// is replayed: the broker keeps its messages in memory only and starts empty with the process.
// Publish does not wait for a window; the broker bounds its clients itself.
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

// Run implements Link. After it has returned, messages no longer reach the Handler although the
// broker acknowledges them: stop the broker first.
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

// enter begins a call, unless the session is over. It ends with l.calls.Done.
func (l *Local) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.calls.Add(1)
	}
	return l.open
}

func (l *Local) intake(topic string, payload []byte) {
	if l.enter() {
		defer l.calls.Done()
		l.handler.Message(Message{Topic: topic, Payload: payload})
	}
}

// Publish implements Link. The broker has the message when it returns nil.
func (l *Local) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !l.enter() {
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
