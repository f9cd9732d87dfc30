// Package linktest has a broker for the tests of packages that use a link, and the suite of tests that every broker and
// link must pass.
//
// A Hub keeps everything in memory and has no clock. A link that loses its session gets another one at once, unless the
// Hub refuses it. Without an intake, the goroutine that publishes also routes the message, to the receivers in the
// order of their IDs, and each session passes its messages to the Handler one after the other. So a test that does one
// thing at a time is repeatable. A Hub loses, holds and repeats messages only as the test says.
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

// Verdict is what happens to one message for one receiver.
type Verdict int

// The verdicts.
const (
	Deliver Verdict = iota
	Drop            // it never arrives
	Twice           // it arrives twice
	Hold            // it waits for Release; lost if the receiver's session ends before
)

// Hook returns the verdict on a message from one link to another; from and to are their IDs. from is empty if the Hub
// itself publishes, and for a retained message that is sent because of a subscription. It is called by many goroutines,
// while no lock is held.
type Hook func(from, to string, m link.Message) Verdict

// Hub is an in-memory broker. It also serves as the embedded broker of a local link
// (link.Broker). Safe for concurrent use.
type Hub struct {
	mu          sync.Mutex
	hook        Hook
	intake      func(topic string, payload []byte)
	retained    map[string][]byte
	sessions    []*session      // in the order of their IDs
	partitioned map[string]bool // IDs that cannot connect
	refused     map[string]bool // filters
	frozen      map[string]bool // IDs whose publishes are not read
	held        []parcel
	changed     chan struct{} // closed when something that was refused may be possible now
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
		retained:    map[string][]byte{},
		partitioned: map[string]bool{},
		refused:     map[string]bool{},
		frozen:      map[string]bool{},
		changed:     make(chan struct{}),
	}
}

// SetHook replaces the hook; nil delivers everything.
func (h *Hub) SetHook(f Hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = f
}

// Publish implements link.Broker. The message does not go to the intake.
func (h *Hub) Publish(topic string, payload []byte, retain bool) error {
	h.route("", topic, payload, retain)
	return nil
}

// Intake implements link.Broker. It must be called before the links have their sessions. From then on each session has
// a goroutine that routes its messages.
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

// Topics returns the topics of the retained messages, sorted.
func (h *Hub) Topics() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.retained))
}

// Cut ends the session of id as a broken connection does. Its will is published.
func (h *Hub) Cut(id string) {
	h.mu.Lock()
	s := h.find(id)
	h.mu.Unlock()
	if s != nil {
		h.end(s, fmt.Errorf("the connection broke (cut by the test)"), true)
	}
}

// Partition ends the session of id and refuses others until Heal.
func (h *Hub) Partition(id string) {
	h.mu.Lock()
	h.partitioned[id] = true
	h.mu.Unlock()
	h.Cut(id)
}

// Heal ends a Partition.
func (h *Hub) Heal(id string) { h.change(func() { delete(h.partitioned, id) }) }

// Refuse makes subscriptions to a filter fail until Allow.
func (h *Hub) Refuse(filter string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused[filter] = true
}

// Allow ends a Refuse.
func (h *Hub) Allow(filter string) { h.change(func() { delete(h.refused, filter) }) }

// change calls f, after which links that wait for a session try again.
func (h *Hub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

// Freeze stops reading the messages of id: nothing is acknowledged, and the window fills.
func (h *Hub) Freeze(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen[id] = true
}

// Thaw ends a Freeze. The messages published meanwhile are read first.
func (h *Hub) Thaw(id string) {
	h.mu.Lock()
	delete(h.frozen, id)
	s := h.find(id)
	h.mu.Unlock()
	if s != nil {
		s.drain()
	}
}

// isFrozen reports whether the messages of id are not read.
func (h *Hub) isFrozen(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.frozen[id]
}

// Wipe acts as a broker that was killed and has lost everything: all sessions end without a will, and all retained and
// held messages are lost.
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

// Release delivers all held messages. pick returns the index of the next one among n that are left; nil keeps their
// order.
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

// Close does nothing, because a Hub has no goroutine of its own. It is part of Rig.
func (h *Hub) Close() {}

// find returns the session of id, or nil. The caller holds h.mu.
func (h *Hub) find(id string) *session {
	if i, ok := h.index(id); ok {
		return h.sessions[i]
	}
	return nil
}

// index returns the index of the session of id, or where it would be and false. The caller holds h.mu.
func (h *Hub) index(id string) (int, bool) {
	return slices.BinarySearchFunc(h.sessions, id, func(s *session, id string) int {
		return strings.Compare(s.link.opts.ID, id)
	})
}

// attach begins a session. If that is refused, it returns the error, and a channel that is closed when it is worth
// trying again.
func (h *Hub) attach(s *session, filters []string) (retry <-chan struct{}, err error) {
	id := s.link.opts.ID
	h.mu.Lock()
	if h.partitioned[id] {
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

// refusal returns the error of a refused subscription.
func refusal(filter, id string) error {
	return fmt.Errorf("the broker refuses the subscription to %q (client %q)", filter, id)
}

// end ends a session unless it has ended already. With will, it publishes the session's will.
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

// route retains a message if retain is set, and sends it to all sessions with a filter that matches.
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
