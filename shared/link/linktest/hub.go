// Package linktest is a broker for the tests of packages that use a link, and the suite that
// every broker and link must pass.
//
// A Hub keeps everything in memory and has no clock: a link that loses its session has the next
// one at once, unless the Hub refuses it. Without an intake, a publish is routed in the goroutine
// that publishes, to the receivers in the order of their IDs, and each session hands its messages
// over one after the other, so that a test which runs one thing at a time is repeatable. What it
// must not do is more than a broker does: a Hub loses, holds and repeats messages only as told.
package linktest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"tandem.internal/shared/link"
)

// Verdict says what happens to one message on its way to one receiver.
type Verdict int

// The verdicts.
const (
	Deliver Verdict = iota
	Drop            // never arrives
	Twice           // arrives twice
	Hold            // waits for Release, or for the end of the receiver's session
)

// Hook judges a message from one link to another, by their IDs. from is empty for what the Hub
// itself publishes and for a retained copy sent because of a subscription. It is called without
// a lock, from many goroutines.
type Hook func(from, to string, m link.Message) Verdict

// Hub is an in-memory broker. It also serves as the embedded broker of a local link
// (link.Broker). Safe for concurrent use.
type Hub struct {
	mu       sync.Mutex
	hook     Hook
	intake   func(topic string, payload []byte)
	retained map[string][]byte
	sessions []*session      // in the order of their IDs
	apart    map[string]bool // IDs that cannot connect
	refused  map[string]bool // filters
	frozen   map[string]bool // IDs whose publishes are not read
	held     []parcel
	changed  chan struct{} // closed when what was refused may now be granted
}

// parcel is a held message.
type parcel struct {
	to *session
	m  link.Message
}

var _ link.Broker = (*Hub)(nil)

// New returns an empty broker.
func New() *Hub {
	return &Hub{
		retained: map[string][]byte{},
		apart:    map[string]bool{},
		refused:  map[string]bool{},
		frozen:   map[string]bool{},
		changed:  make(chan struct{}),
	}
}

// SetHook replaces the hook; nil delivers everything.
func (h *Hub) SetHook(f Hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = f
}

// Publish implements link.Broker: the Hub itself publishes, past the intake.
func (h *Hub) Publish(topic string, payload []byte, retain bool) error {
	h.route("", topic, payload, retain)
	return nil
}

// Intake implements link.Broker. It must be set before the links that it listens to have their
// sessions; from then on each session has a goroutine that routes what it publishes.
func (h *Hub) Intake(f func(topic string, payload []byte)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.intake = f
}

// Retained implements link.Broker.
func (h *Hub) Retained(topic string) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.retained[topic]
	return bytes.Clone(p), ok
}

// Topics lists the topics of the retained messages in order.
func (h *Hub) Topics() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.retained))
}

// Cut ends the session of id as a broken connection does: its will is published.
func (h *Hub) Cut(id string) {
	h.mu.Lock()
	s := h.find(id)
	h.mu.Unlock()
	if s != nil {
		h.end(s, fmt.Errorf("the connection broke (cut by the test)"), true)
	}
}

// Partition cuts id and refuses it until Heal.
func (h *Hub) Partition(id string) {
	h.mu.Lock()
	h.apart[id] = true
	h.mu.Unlock()
	h.Cut(id)
}

// Heal ends a Partition.
func (h *Hub) Heal(id string) { h.change(func() { delete(h.apart, id) }) }

// Refuse makes subscriptions to a filter fail until Allow.
func (h *Hub) Refuse(filter string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused[filter] = true
}

// Allow ends a Refuse.
func (h *Hub) Allow(filter string) { h.change(func() { delete(h.refused, filter) }) }

// change makes a change after which links that wait for a session try again.
func (h *Hub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

// Freeze stops reading what id publishes: nothing is acknowledged, the window fills.
func (h *Hub) Freeze(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen[id] = true
}

// Thaw reads on, beginning with what was published meanwhile.
func (h *Hub) Thaw(id string) {
	h.mu.Lock()
	delete(h.frozen, id)
	s := h.find(id)
	h.mu.Unlock()
	if s != nil {
		s.drain()
	}
}

func (h *Hub) isFrozen(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.frozen[id]
}

// Wipe is a broker that was killed and has lost everything: every session ends without a will,
// and nothing is retained or held any more.
func (h *Hub) Wipe() {
	h.mu.Lock()
	clear(h.retained)
	h.held = nil
	all := slices.Clone(h.sessions)
	h.mu.Unlock()
	for _, s := range all {
		h.end(s, fmt.Errorf("the broker closed the connection (wiped by the test)"), false)
	}
}

// Held returns the number of held messages.
func (h *Hub) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// Release delivers all held messages. pick chooses the next of n that are left, from 0 to n-1;
// nil keeps their order.
func (h *Hub) Release(pick func(n int) int) {
	h.mu.Lock()
	held := h.held
	h.held = nil
	h.mu.Unlock()
	for len(held) > 0 {
		i := 0
		if pick != nil {
			i = pick(len(held))
		}
		held[i].to.push(held[i].m)
		held = slices.Delete(held, i, i+1)
	}
}

// Close does nothing: a Hub has no goroutine of its own. It completes Rig.
func (h *Hub) Close() {}

// find returns the session of id, or nil. h.mu is held.
func (h *Hub) find(id string) *session {
	if i, ok := h.index(id); ok {
		return h.sessions[i]
	}
	return nil
}

func (h *Hub) index(id string) (int, bool) {
	return slices.BinarySearchFunc(h.sessions, id, func(s *session, id string) int {
		return strings.Compare(s.link.opts.ID, id)
	})
}

// attach begins a session, or says why not and what to wait for.
func (h *Hub) attach(s *session, filters []string) (retry <-chan struct{}, err error) {
	id := s.link.opts.ID
	h.mu.Lock()
	if h.apart[id] {
		defer h.mu.Unlock()
		return h.changed, fmt.Errorf("cannot reach the broker: partitioned by the test")
	}
	for _, f := range filters {
		if h.refused[f] {
			defer h.mu.Unlock()
			return h.changed, refusal(f, id)
		}
	}
	old := h.find(id)
	h.mu.Unlock()
	if old != nil {
		h.end(old, fmt.Errorf("the broker closed the connection: another client has the same ID %q", id), true)
	}
	h.mu.Lock()
	i, _ := h.index(id)
	h.sessions = slices.Insert(h.sessions, i, s)
	s.intake = h.intake
	h.mu.Unlock()
	s.grant(filters)
	return nil, nil
}

func refusal(filter, id string) error {
	return fmt.Errorf("the broker refuses the subscription to %q (client %q)", filter, id)
}

// end ends a session, once, and publishes its will.
func (h *Hub) end(s *session, err error, will bool) {
	h.mu.Lock()
	if s.ended() {
		h.mu.Unlock()
		return
	}
	s.err = err
	s.queue, s.backlog = nil, nil
	close(s.down)
	h.sessions = slices.DeleteFunc(h.sessions, func(o *session) bool { return o == s })
	h.held = slices.DeleteFunc(h.held, func(p parcel) bool { return p.to == s })
	h.mu.Unlock()
	if w := s.will; will && w != nil {
		h.route(s.link.opts.ID, w.Topic, w.Payload, w.Retain)
		if s.intake != nil {
			s.intake(w.Topic, bytes.Clone(w.Payload))
		}
	}
}

// route stores a retained message and hands it to every session that a filter of its matches.
func (h *Hub) route(from, topic string, payload []byte, retain bool) {
	h.mu.Lock()
	if retain && len(payload) > 0 {
		h.retained[topic] = bytes.Clone(payload)
	} else if retain {
		delete(h.retained, topic)
	}
	var to []*session
	for _, s := range h.sessions {
		if slices.ContainsFunc(s.filters, func(f string) bool { return Match(f, topic) }) {
			to = append(to, s)
		}
	}
	h.mu.Unlock()
	for _, s := range to {
		h.send(from, s, link.Message{Topic: topic, Payload: bytes.Clone(payload)})
	}
}

// send applies the hook to one message for one receiver.
func (h *Hub) send(from string, s *session, m link.Message) {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	v := Deliver
	if hook != nil {
		v = hook(from, s.link.opts.ID, m)
	}
	switch v {
	case Drop:
	case Hold:
		h.mu.Lock()
		if !s.ended() {
			h.held = append(h.held, parcel{s, m})
		}
		h.mu.Unlock()
	case Twice:
		s.push(link.Message{Topic: m.Topic, Payload: bytes.Clone(m.Payload), Retained: m.Retained})
		s.push(m)
	default:
		s.push(m)
	}
}
