package linktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"tandem.internal/shared/link"
)

// Options are the options of a link of a Rig, with the meanings of link.Config.
type Options struct {
	ID      string
	Filters []string
	Will    func(session uint64) *link.Publication
	Goodbye func(session uint64) []link.Publication
	Window  int // zero means 64
}

// Link is a link to a Hub. It implements link.Link and link.Subscriber.
type Link struct {
	hub     *Hub
	opts    Options
	handler link.Handler
	started atomic.Bool
	current atomic.Pointer[session]
	calls   sync.WaitGroup // goroutines of all sessions, also ended ones
}

// session is one session of a link with the Hub.
type session struct {
	hub    *Hub
	link   *Link
	will   *link.Publication
	intake func(topic string, payload []byte)
	down   chan struct{}   // closed when the session has ended
	stop   <-chan struct{} // closed when Run's ctx ends
	wake   chan struct{}   // of size 1: holds a value if queue is not empty
	upWake chan struct{}   // of size 1: holds a value if backlog is not empty

	// under hub.mu
	err     error
	filters []string
	queue   []link.Message     // messages for the Handler
	backlog []link.Publication // messages that were published and not routed yet
	reading bool               // a goroutine routes the backlog
	unacked int                // number of unacknowledged publishes
	room    chan struct{}      // closed when unacked falls
}

// Link returns a link that connects when it is run.
func (h *Hub) Link(o Options, handler link.Handler) link.Link {
	if o.Window == 0 {
		o.Window = 64
	}
	return &Link{hub: h, opts: o, handler: handler}
}

// Run implements link.Link. After a session has ended, it begins another one at once. After a refusal it tries again
// when the test has changed what the Hub refuses.
func (l *Link) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return errors.New("linktest: Run was called twice")
	}
	defer l.calls.Wait()
	for id := uint64(1); ctx.Err() == nil; id++ {
		s := &session{
			hub: l.hub, link: l, stop: ctx.Done(),
			down: make(chan struct{}), room: make(chan struct{}),
			wake: make(chan struct{}, 1), upWake: make(chan struct{}, 1),
		}
		if l.opts.Will != nil {
			s.will = l.opts.Will(id)
		}
		retry, err := l.hub.attach(s, l.opts.Filters)
		if err != nil {
			l.handler.Down(0, err)
			select {
			case <-retry:
			case <-ctx.Done():
			}
			continue
		}
		l.runSession(ctx, id, s)
	}
	return nil
}

// runSession calls Up for an attached session, waits until it or ctx ends, and calls Down.
func (l *Link) runSession(ctx context.Context, id uint64, s *session) {
	if s.intake != nil {
		l.calls.Go(s.upstream)
	}
	l.current.Store(s)
	l.handler.Up(id)
	l.calls.Go(s.downstream)
	select {
	case <-s.down:
	case <-ctx.Done():
	}
	l.current.Store(nil)
	if s.ended() {
		l.handler.Down(id, s.err)
		return
	}
	if l.hub.isFrozen(l.opts.ID) { // the goodbye would not be read: the will is published
		l.hub.end(s, link.ErrDown, true)
	} else if l.opts.Goodbye != nil {
		for _, p := range l.opts.Goodbye(id) {
			l.hub.route(l.opts.ID, p.Topic, p.Payload, p.Retain)
			if s.intake != nil {
				s.intake(p.Topic, bytes.Clone(p.Payload))
			}
		}
	}
	l.hub.end(s, link.ErrDown, false)
	l.handler.Down(id, fmt.Errorf("stopped: %w", context.Cause(ctx)))
}

// ended reports whether the session has ended.
func (s *session) ended() bool {
	select {
	case <-s.down:
		return true
	default:
		return false
	}
}

// push queues a message for the Handler.
func (s *session) push(m link.Message) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if !s.ended() {
		s.queue = append(s.queue, m)
		notify(s.wake)
	}
}

// notify puts a value into a channel of size 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// downstream passes queued messages to the Handler, one after the other.
func (s *session) downstream() {
	for {
		s.hub.mu.Lock()
		var m link.Message
		found := len(s.queue) > 0
		if found {
			m, s.queue = s.queue[0], s.queue[1:]
		}
		s.hub.mu.Unlock()
		if found {
			s.link.handler.Message(m)
			continue
		}
		select {
		case <-s.wake:
		case <-s.down:
			return
		}
	}
}

// upstream routes the messages that the link publishes, and gives them to the intake.
func (s *session) upstream() {
	for {
		s.drainAll()
		select {
		case <-s.upWake:
		case <-s.down:
			return
		}
	}
}

// drain routes the backlog: in this goroutine, or, with an intake, in that of upstream.
func (s *session) drain() {
	if s.intake != nil {
		notify(s.upWake)
		return
	}
	s.drainAll()
}

// drainAll routes the backlog in order. It returns at once if another goroutine already does.
func (s *session) drainAll() {
	s.hub.mu.Lock()
	if s.reading {
		s.hub.mu.Unlock()
		return
	}
	s.reading = true
	s.hub.mu.Unlock()
	for {
		s.hub.mu.Lock()
		if len(s.backlog) == 0 || s.hub.frozen[s.link.opts.ID] {
			s.reading = false
			s.hub.mu.Unlock()
			return
		}
		p := s.backlog[0]
		s.backlog = s.backlog[1:]
		s.hub.mu.Unlock()

		s.hub.route(s.link.opts.ID, p.Topic, p.Payload, p.Retain)
		if s.intake != nil {
			s.intake(p.Topic, bytes.Clone(p.Payload))
		}
		s.hub.mu.Lock()
		s.unacked--
		close(s.room)
		s.room = make(chan struct{})
		s.hub.mu.Unlock()
	}
}

// Publish implements link.Link.
func (l *Link) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if err := link.CheckTopic(topic); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s := l.current.Load()
	if s == nil {
		return link.ErrDown
	}
	for {
		s.hub.mu.Lock()
		select {
		case <-s.down:
			s.hub.mu.Unlock()
			return link.ErrDown
		case <-s.stop:
			s.hub.mu.Unlock()
			return link.ErrDown
		default:
		}
		if s.unacked < l.opts.Window {
			break
		}
		room := s.room
		s.hub.mu.Unlock()
		select {
		case <-room:
		case <-s.down:
		case <-s.stop:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.unacked++
	s.backlog = append(s.backlog, link.Publication{Topic: topic, Payload: payload, Retain: retain})
	s.hub.mu.Unlock()
	s.drain()
	return nil
}

// grant adds filters to the session and sends the retained messages that match, in the order of topics.
func (s *session) grant(filters []string) {
	s.hub.mu.Lock()
	for _, f := range filters {
		if !slices.Contains(s.filters, f) {
			s.filters = append(s.filters, f)
		}
	}
	var matching []link.Message
	for _, topic := range slices.Sorted(maps.Keys(s.hub.retained)) {
		if slices.ContainsFunc(filters, func(f string) bool { return Match(f, topic) }) {
			payload := bytes.Clone(s.hub.retained[topic])
			matching = append(matching, link.Message{Topic: topic, Payload: payload, Retained: true})
		}
	}
	s.hub.mu.Unlock()
	for _, m := range matching {
		s.hub.send("", s, m)
	}
}

// Subscribe implements link.Subscriber.
func (l *Link) Subscribe(ctx context.Context, filters ...string) error {
	s, err := l.sessionFor(ctx, filters)
	if err != nil {
		return err
	}
	l.hub.mu.Lock()
	for _, f := range filters {
		if l.hub.refused[f] {
			defer l.hub.mu.Unlock()
			return refusal(f, l.opts.ID)
		}
	}
	l.hub.mu.Unlock()
	s.grant(filters)
	return nil
}

// Unsubscribe implements link.Subscriber.
func (l *Link) Unsubscribe(ctx context.Context, filters ...string) error {
	s, err := l.sessionFor(ctx, filters)
	if err != nil {
		return err
	}
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	s.filters = slices.DeleteFunc(s.filters, func(f string) bool { return slices.Contains(filters, f) })
	return nil
}

// sessionFor checks the filters and returns the current session, or link.ErrDown.
func (l *Link) sessionFor(ctx context.Context, filters []string) (*session, error) {
	for _, f := range filters {
		if err := link.CheckFilter(f); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := l.current.Load()
	if s == nil || s.ended() {
		return nil, link.ErrDown
	}
	return s, nil
}
