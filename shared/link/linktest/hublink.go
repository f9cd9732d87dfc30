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

// Options describes a link of a Hub or of another Rig; the fields are those of link.Config.
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
	calls   sync.WaitGroup // goroutines of sessions, past ones too
}

// session is one session of a link with the Hub.
type session struct {
	hub    *Hub
	link   *Link
	will   *link.Publication
	intake func(topic string, payload []byte)
	down   chan struct{}   // closed when the session has ended
	stop   <-chan struct{} // Run's ctx ends
	wake   chan struct{}   // a token: queue has something
	upWake chan struct{}   // a token: backlog has something

	// under hub.mu
	err     error
	filters []string
	queue   []link.Message     // for the Handler
	backlog []link.Publication // from the Handler's side, not read yet
	reading bool               // somebody drains the backlog
	unacked int
	room    chan struct{} // closed when unacked falls
}

// Link returns a link that connects when it is run.
func (h *Hub) Link(o Options, handler link.Handler) link.Link {
	if o.Window == 0 {
		o.Window = 64
	}
	return &Link{hub: h, opts: o, handler: handler}
}

// Run implements link.Link. A session that is lost is followed by another at once; one that is
// refused is tried again when the Hub has changed its mind.
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
		l.session(ctx, id, s)
	}
	return nil
}

// session keeps an attached session until it or ctx ends.
func (l *Link) session(ctx context.Context, id uint64, s *session) {
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
	if l.hub.isFrozen(l.opts.ID) { // the goodbye is not read: the will speaks
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
		poke(s.wake)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// downstream hands queued messages to the Handler, one after the other.
func (s *session) downstream() {
	for {
		s.hub.mu.Lock()
		var m link.Message
		some := len(s.queue) > 0
		if some {
			m, s.queue = s.queue[0], s.queue[1:]
		}
		s.hub.mu.Unlock()
		if some {
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

// upstream routes what the link publishes through the intake.
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

// drain routes the backlog, here or in the goroutine that belongs to it.
func (s *session) drain() {
	if s.intake != nil {
		poke(s.upWake)
		return
	}
	s.drainAll()
}

// drainAll routes the backlog in order, unless another goroutine already does.
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

// grant adds filters to the session and sends what is retained for them, in the order of topics.
func (s *session) grant(filters []string) {
	s.hub.mu.Lock()
	for _, f := range filters {
		if !slices.Contains(s.filters, f) {
			s.filters = append(s.filters, f)
		}
	}
	var kept []link.Message
	for _, topic := range slices.Sorted(maps.Keys(s.hub.retained)) {
		if slices.ContainsFunc(filters, func(f string) bool { return Match(f, topic) }) {
			kept = append(kept, link.Message{Topic: topic, Payload: bytes.Clone(s.hub.retained[topic]), Retained: true})
		}
	}
	s.hub.mu.Unlock()
	for _, m := range kept {
		s.hub.send("", s, m)
	}
}

// Subscribe implements link.Subscriber.
func (l *Link) Subscribe(ctx context.Context, filters ...string) error {
	s, err := l.forFilters(ctx, filters)
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
	s, err := l.forFilters(ctx, filters)
	if err != nil {
		return err
	}
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	s.filters = slices.DeleteFunc(s.filters, func(f string) bool { return slices.Contains(filters, f) })
	return nil
}

func (l *Link) forFilters(ctx context.Context, filters []string) (*session, error) {
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
