package server

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"

	"tandem.internal/broker/acl"
)

// Two clients that share an ID take over from each other for ever: fightTakeovers within fightWindow are a
// Fight, of which one event is emitted in that time.
const (
	fightTakeovers = 4
	fightWindow    = time.Minute
)

// session is one authenticated client's stay. Everything above mu is set before the session is
// claimed and does not change.
type session struct {
	id     string
	who    acl.Identity
	grants acl.Grants
	conn   *conn
	client *mqtt.Client
	done   chan struct{} // closed when nothing of the session is left in the broker

	takenOver atomic.Bool // set before its connection is closed for a newer one
	listens   atomic.Bool // set before its first subscription

	denied, unsubscribed, dropped throttle

	// Owned by the goroutine that reads this client's packets.
	established bool      // CONNACK was sent
	will        mqtt.Will // the last will; without Flag there is none
	filters     []string  // that it has subscribed to

	mu           sync.Mutex
	why          string      // why the broker ends the session; empty: it was not the broker
	takeovers    []time.Time // of this client ID, newest last, within fightWindow
	fightEmitted time.Time
}

// end closes the session's connection. The first why is the detail of its Disconnected event.
func (s *session) end(why string) {
	s.mu.Lock()
	if s.why == "" {
		s.why = why
	}
	s.mu.Unlock()
	s.conn.hangUp()
}

func (s *session) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// registry knows who is connected. One client at a time holds an ID: a newcomer ends the session
// that holds it and waits until that session has ended. Letting mochi hand over a live session
// instead can lose the new one, when the old one's clean-up, or a third client, comes between.
type registry struct {
	mu    sync.Mutex
	byID  map[string]*session
	count atomic.Int64 // takeovers
}

// claim gives s its ID, after the sessions that hold it are gone, for which it waits at most
// limit. It reports takeovers and fights through tell.
func (r *registry) claim(s *session, limit time.Duration, tell func(Event)) error {
	expired := time.NewTimer(limit)
	defer expired.Stop()
	for {
		r.mu.Lock()
		old := r.byID[s.id]
		if old == nil {
			r.byID[s.id] = s
			r.mu.Unlock()
			return nil
		}
		r.mu.Unlock()
		if first := !old.takenOver.Swap(true); first {
			r.count.Add(1)
			r.inherit(s, old, tell)
		}
		old.end("taken over by " + s.conn.remote)
		select {
		case <-old.done:
		case <-expired.C:
			return fmt.Errorf("the session that holds the client ID does not end within %s", limit)
		}
	}
}

// inherit carries the history of takeovers over from the session that s ends.
func (r *registry) inherit(s, old *session, tell func(Event)) {
	now := time.Now()
	ev := Event{Kind: Takeover, ClientID: s.id, Remote: s.conn.remote, OldRemote: old.conn.remote}
	tell(ev)
	old.mu.Lock()
	history, emitted := old.takeovers, old.fightEmitted
	old.mu.Unlock()
	for len(history) > 0 && now.Sub(history[0]) > fightWindow {
		history = history[1:]
	}
	history = append(history[:len(history):len(history)], now)
	if n := len(history); n >= fightTakeovers && (emitted.IsZero() || now.Sub(emitted) >= fightWindow) {
		emitted = now
		ev.Kind = Fight
		ev.Detail = fmt.Sprintf("%d takeovers within %s: two clients share this ID", n,
			now.Sub(history[0]).Round(time.Millisecond))
		tell(ev)
	}
	if len(history) > fightTakeovers {
		history = history[len(history)-fightTakeovers:]
	}
	s.mu.Lock()
	s.takeovers, s.fightEmitted = history, emitted
	s.mu.Unlock()
}

// release lets the next client have the ID.
func (r *registry) release(s *session) {
	r.mu.Lock()
	if r.byID[s.id] == s {
		delete(r.byID, s.id)
	}
	r.mu.Unlock()
	close(s.done)
}

func (r *registry) get(id string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}
