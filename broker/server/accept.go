package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/shared/door"
)

// After an error the accept loop waits acceptBackoff, and after each further one twice as long, up to acceptBackoffMax.
const (
	acceptBackoff    = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// accept accepts connections of a listener until it is closed. After an error, such as a lack of file descriptors, it
// waits and goes on.
func (s *Server) accept(l net.Listener) {
	wait := acceptBackoff
	for {
		c, err := l.Accept()
		if err == nil {
			wait = acceptBackoff
			s.admit(c)
			continue
		}
		if s.closing.Load() {
			return
		}
		ev := Event{Kind: AcceptFailed, Remote: l.Addr().String(), Detail: err.Error()}
		if errors.Is(err, net.ErrClosed) {
			ev.Detail = "the listener was closed by somebody else: it ended"
			s.emit(ev)
			return
		}
		s.emit(ev)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			s.mu.Lock()
			drop := s.takeUnauthenticated()
			s.mu.Unlock()
			s.turnAway(drop)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.stop:
			timer.Stop()
			return
		}
		wait = min(2*wait, acceptBackoffMax)
	}
}

// maxLeaving is the most connections above Limits.MaxClients: those that were closed to make room and have not ended
// yet.
const maxLeaving = 1024

// admit begins to serve a connection. At the limit it closes an unauthenticated connection to make room, so that nobody
// can keep others out by opening connections. If all are authenticated, it closes the new one.
func (s *Server) admit(nc net.Conn) {
	c := newConn(nc, &s.limits, &s.wg)
	var err error
	var start, drop []*conn
	s.mu.Lock()
	if full := len(s.conns); full >= s.limits.MaxClients {
		if drop = s.takeUnauthenticated(); len(drop) == 0 || full >= s.limits.MaxClients+maxLeaving {
			err = fmt.Errorf("%d connections are enough", full)
		}
	}
	switch {
	case err != nil:
	case s.closing.Load(): // Close may have read conns already
		err = ErrClosed
	default:
		s.conns[c] = struct{}{}
		var more []*conn
		start, more = s.lobby.Enter(time.Now(), c, door.Address(c.remote))
		drop = append(drop, s.sort(start, more)...)
	}
	s.mu.Unlock()
	s.turnAway(drop)
	s.begin(start)
	if err == nil {
		return
	}
	// emitted before the client can notice, and rate-limited: many connections must not fill the log
	if !s.closing.Load() {
		s.count.refused.Add(1)
		s.emitThrough(&s.full, Event{Kind: Refused, Remote: c.remote, Detail: explain(err)})
	}
	c.disconnect()
}

// begin serves connections whose turn has come.
func (s *Server) begin(start []*conn) {
	for _, c := range start {
		s.wg.Add(1) // allowed: the caller is counted
		go s.serve(c)
	}
}

// sort notes what the lobby has said: start are served from now on. Nothing serves those of drop that were waiting, so
// they are gone at once; the others are when their goroutines end. The caller holds mu, and gives start to begin and
// the result to turnAway afterwards.
func (s *Server) sort(start, drop []*conn) []*conn {
	for _, c := range start {
		c.waiting = false
	}
	for _, c := range drop {
		if c.waiting {
			delete(s.conns, c)
		}
	}
	return drop
}

// turnAway closes connections that left the lobby to make room.
func (s *Server) turnAway(drop []*conn) {
	for _, c := range drop {
		if c.waiting {
			s.refused("", c, errNoPlace)
		}
		c.disconnect()
	}
}

var errNoPlace = errors.New("it made room for others before its turn came")

// takeUnauthenticated removes an unauthenticated connection from the lobby and returns it; nothing if there is none.
// The caller holds mu, and gives the result to turnAway afterwards.
func (s *Server) takeUnauthenticated() []*conn {
	c, ok := s.lobby.Any()
	if !ok {
		return nil
	}
	s.lobby.Drop(c)
	return s.sort(nil, []*conn{c})
}

// leaveLobby gives the place of a connection that is authenticated, or has ended, to the next.
func (s *Server) leaveLobby(c *conn, ended bool) {
	s.mu.Lock()
	if ended {
		delete(s.conns, c)
	}
	start, drop := s.lobby.Leave(time.Now(), c)
	s.sort(start, drop)
	s.mu.Unlock()
	s.turnAway(drop)
	s.begin(start)
}

// refused emits an event, rate-limited, about a connection that did not become a session.
func (s *Server) refused(clientID string, c *conn, err error) {
	if s.closing.Load() {
		return
	}
	s.count.refused.Add(1)
	if ev, ok := s.refusals.pass(Event{Kind: Refused, ClientID: clientID, Remote: c.remote, Detail: explain(err)}); ok {
		s.emit(ev)
	}
}

// ended emits the events about a session that were held back, then the event of its end.
func (s *Server) ended(sess *session, err error) {
	for _, t := range []*throttle{&sess.denied, &sess.unsubscribed, &sess.dropped} {
		if ev, ok := t.rest(); ok {
			s.emit(ev)
		}
	}
	if !sess.established {
		s.refused(sess.id, sess.conn, err)
		return
	}
	why := sess.reason()
	if failed := sess.conn.writeFailure(); why == "" &&
		(errors.Is(failed, errStalled) || errors.Is(failed, errBacklog)) {
		why = failed.Error()
		s.count.stalled.Add(1)
		s.emit(Event{Kind: Stalled, ClientID: sess.id, Remote: sess.conn.remote, Detail: why})
	}
	if errors.Is(err, packets.ErrPacketTooLarge) {
		s.emit(Event{Kind: TooLarge, ClientID: sess.id, Remote: sess.conn.remote, Detail: err.Error()})
	}
	switch {
	case s.closing.Load():
		why = "the broker is closing"
	case why == "":
		why = explain(err)
	}
	s.emit(Event{Kind: Disconnected, ClientID: sess.id, Remote: sess.conn.remote, Detail: why})
}

// explain returns why a connection has ended, in words.
func explain(err error) string {
	switch {
	case err == nil:
		return "it said goodbye"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, net.ErrClosed):
		return "the connection broke off"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "it was silent for too long"
	case errors.Is(err, packets.ErrPacketTooLarge):
		return "it sent a packet above the limit"
	case errors.Is(err, mqtt.ErrConnectionClosed):
		return "the connection broke off"
	}
	return err.Error()
}

// tlsState returns the state of a TLS connection; nil for any other.
func tlsState(c net.Conn) *tls.ConnectionState {
	t, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := t.ConnectionState()
	return &state
}
