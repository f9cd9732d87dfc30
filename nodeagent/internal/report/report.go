// Package report sends what the agent says. It owns one goroutine and a short list of what is to
// be sent in this session: of each retained topic only the latest payload, replies and events
// one after the other.
//
// It guarantees order: what is handed over first is sent first, and a payload that replaces an
// unsent one takes its place. It does not repeat: what a session could not send is dropped when
// it ends, because the agent says everything again when the next one begins. While it waits, for
// something to send or for a session that takes no more, its loop beats; a publisher that does not even
// give up when it is told to hangs. It must not know what the payloads mean.
package report

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"tandem.internal/shared/pulse"
)

// Publisher hands a message to the current session; see link.Link. What it says with ctx's error it has
// not sent.
type Publisher interface {
	Publish(ctx context.Context, topic string, payload []byte, retain bool) error
}

type item struct {
	topic   string
	payload []byte
	retain  bool
	event   uint64 // sequence number, or 0
}

// Sender sends. All methods but Run return at once and may be called from any goroutine.
type Sender struct {
	log     *zap.Logger
	wake    chan struct{} // one slot: there is something to do
	drained chan struct{} // one slot: the list has become empty
	event   atomic.Uint64

	mu      sync.Mutex
	session uint64 // 0: down
	list    []item
}

// New makes a Sender that is down. event is what LastEvent says before an event is sent.
func New(log *zap.Logger, event uint64) *Sender {
	s := &Sender{log: log, wake: make(chan struct{}, 1), drained: make(chan struct{}, 1)}
	s.event.Store(event)
	return s
}

// Up begins a session with an empty list.
func (s *Sender) Up(session uint64) { s.reset(session) }

// Down ends the session and drops what was not sent.
func (s *Sender) Down() { s.reset(0) }

func (s *Sender) reset(session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.list = session, nil
}

// Latest sends a retained payload, instead of an unsent one of the same topic.
func (s *Sender) Latest(topic string, payload []byte) {
	s.put(item{topic: topic, payload: payload, retain: true})
}

// Once sends a payload. event is the sequence number, if it is an event.
func (s *Sender) Once(topic string, payload []byte, event uint64) {
	s.put(item{topic: topic, payload: payload, event: event})
}

func (s *Sender) put(it item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == 0 {
		return
	}
	signal(s.wake)
	if it.retain {
		for i := range s.list {
			if s.list[i].retain && s.list[i].topic == it.topic {
				s.list[i].payload = it.payload
				return
			}
		}
	}
	s.list = append(s.list, it)
}

// Pending returns the number of messages not yet sent.
func (s *Sender) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

// Drained has an element whenever the list has become empty.
func (s *Sender) Drained() <-chan struct{} { return s.drained }

// LastEvent returns the sequence number of the event sent last.
func (s *Sender) LastEvent() uint64 { return s.event.Load() }

// Run sends through p until ctx ends.
func (s *Sender) Run(ctx context.Context, p Publisher, watch pulse.Watch) {
	beat := watch.Start("sender", 0)
	defer beat.End()
	for {
		beat.Beat()
		it, session, ok := s.pop()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			case <-beat.C:
			}
			continue
		}
		err := s.publish(ctx, p, it, session, beat)
		switch {
		case err == nil && it.event != 0:
			s.event.Store(it.event)
		case err == nil:
		case ctx.Err() != nil:
			return
		default:
			// The session is over or about to be: the next one says everything again.
			s.log.Debug("not sent", zap.String("topic", it.topic), zap.Error(err))
			s.drop(session)
		}
	}
}

// publish waits for a session without room for as long as it lasts, a beat at a time.
func (s *Sender) publish(ctx context.Context, p Publisher, it item, session uint64, beat *pulse.Pulse) error {
	for {
		turn, cancel := context.WithTimeout(ctx, pulse.Every)
		err := p.Publish(turn, it.topic, it.payload, it.retain)
		again := errors.Is(err, context.DeadlineExceeded) && turn.Err() != nil && ctx.Err() == nil
		cancel()
		if !again || !s.lasts(session) {
			return err
		}
		beat.Beat()
	}
}

func (s *Sender) lasts(session uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session == session
}

func (s *Sender) pop() (item, uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return item{}, 0, false
	}
	it := s.list[0]
	s.list = s.list[1:]
	if len(s.list) == 0 {
		s.list = nil
		signal(s.drained)
	}
	return it, s.session, true
}

// drop empties the list of a session that has failed, unless a newer one has begun.
func (s *Sender) drop(session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.list = nil
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
