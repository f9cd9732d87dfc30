package server

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"

	"tandem.internal/broker/acl"
)

// Two clients with the same ID end each other's sessions for ever. fightTakeovers within fightWindow are a Fight, of
// which one event is emitted in that time.
const (
	fightTakeovers = 4
	fightWindow    = time.Minute
)

// session is the session of an authenticated client. The fields up to done are set before the session claims its ID and
// do not change.
type session struct {
	id     string
	who    acl.Identity
	grants acl.Grants
	conn   *conn
	client *mqtt.Client
	done   chan struct{} // closed when nothing of the session is left in the broker

	takenOver  atomic.Bool // set before its connection is closed for a newer one
	subscribed atomic.Bool // set before its first subscription

	denied, unsubscribed, dropped throttle // of events: denied publishes, denied subscriptions, dropped messages

	// Owned by the goroutine that reads this client's packets.
	established bool      // CONNACK was sent
	will        mqtt.Will // the last will; without Flag there is none
	filters     []string  // to which it is subscribed

	mu           sync.Mutex
	why          string      // why the broker ends the session; empty: it does not
	takeovers    []time.Time // of this client ID, newest last, within fightWindow
	fightEmitted time.Time
}

// end closes the session's connection. The why of the first call is the detail of the Disconnected event.
func (s *session) end(why string) {
	s.mu.Lock()
	if s.why == "" {
		s.why = why
	}
	s.mu.Unlock()
	s.conn.disconnect()
}

// reason returns the why of the first call of end.
func (s *session) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// registry has the sessions by client ID. Only one session at a time has an ID: a new one ends the present one and
// waits for its end. With a takeover by mochi the new session can be lost, if the clean-up of the old one, or a third
// client, comes between.
type registry struct {
	mu    sync.Mutex
	byID  map[string]*session
	count atomic.Int64 // takeovers
	news  flood        // of Takeover events
}

// claim gives s its ID. It first ends the sessions that have it, and waits at most limit for that. It emits events
// about takeovers and fights.
func (r *registry) claim(s *session, limit time.Duration, emit func(Event)) error {
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
			r.inherit(s, old, emit)
		}
		old.end("taken over by " + s.conn.remote)
		select {
		case <-old.done:
		case <-expired.C:
			return fmt.Errorf("the session that holds the client ID does not end within %s", limit)
		}
	}
}

// inherit copies the history of takeovers from old, which s ends, to s. It emits a Takeover, and a Fight if it is one.
func (r *registry) inherit(s, old *session, emit func(Event)) {
	now := time.Now()
	ev := Event{Kind: Takeover, ClientID: s.id, Remote: s.conn.remote, OldRemote: old.conn.remote}
	if ev, ok := r.news.pass(ev); ok { // whoever may connect as somebody can do so without an end
		emit(ev)
	}
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
		emit(ev)
	}
	if len(history) > fightTakeovers {
		history = history[len(history)-fightTakeovers:]
	}
	s.mu.Lock()
	s.takeovers, s.fightEmitted = history, emitted
	s.mu.Unlock()
}

// release frees the ID of s for the next client.
func (r *registry) release(s *session) {
	r.mu.Lock()
	if r.byID[s.id] == s {
		delete(r.byID, s.id)
	}
	r.mu.Unlock()
	close(s.done)
}

// get returns the session of a client ID; nil if there is none.
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
