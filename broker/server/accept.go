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
)

// The accept loop waits this long after an error, doubling from the first to the last.
const (
	acceptBackoff    = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// accept serves a listener until it is closed. Errors, like running out of file descriptors,
// are waited out.
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
			c := s.stranger()
			s.mu.Unlock()
			if c != nil {
				c.hangUp()
			}
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

// maxLeaving bounds the connections that have lost their place to others and are not gone yet.
const maxLeaving = 1024

// admit starts to serve a connection. At the limit, an unauthenticated connection is closed to make room,
// so that a stranger who opens as many as are allowed keeps nobody out. If all are authenticated, the new
// one is closed.
func (s *Server) admit(nc net.Conn) {
	c := newConn(nc, &s.limits, &s.wg)
	err := c.Conn.SetReadDeadline(time.Now().Add(s.limits.FirstReadTimeout))
	var other *conn
	s.mu.Lock()
	if err == nil && len(s.conns) >= s.limits.MaxClients {
		if other = s.stranger(); other == nil || len(s.conns) >= s.limits.MaxClients+maxLeaving {
			err = fmt.Errorf("%d connections are enough", len(s.conns))
		}
	}
	switch {
	case err != nil:
	case s.closing.Load(): // Close may have looked at conns already
		err = ErrClosed
	default:
		s.conns[c], s.strangers[c] = struct{}{}, struct{}{}
		s.wg.Add(1) // not from zero: the accept loop is counted
	}
	s.mu.Unlock()
	if other != nil {
		other.hangUp()
	}
	if err == nil {
		go s.serve(c)
		return
	}
	// emitted before the client can notice, and rate-limited: many connections must not fill the log
	if !s.closing.Load() {
		s.count.refused.Add(1)
		s.emitThrough(&s.full, Event{Kind: Refused, Remote: c.remote, Detail: explain(err)})
	}
	c.hangUp()
}

// stranger removes one of the unauthenticated connections and returns it, nil if there is none. The caller
// holds mu, and closes the connection after releasing it.
func (s *Server) stranger() *conn {
	for c := range s.strangers {
		delete(s.strangers, c)
		return c
	}
	return nil
}

// known marks a connection as authenticated.
func (s *Server) known(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.strangers, c)
}

// refused emits an event, rate-limited, for a connection that never became a session.
func (s *Server) refused(clientID string, c *conn, err error) {
	if s.closing.Load() {
		return
	}
	s.count.refused.Add(1)
	if ev, ok := s.refusals.pass(Event{Kind: Refused, ClientID: clientID, Remote: c.remote, Detail: explain(err)}); ok {
		s.emit(ev)
	}
}

// ended emits the events that were held back about a session, then that of its end.
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
	switch {
	case s.closing.Load():
		why = "the broker is closing"
	case why == "":
		why = explain(err)
	}
	s.emit(Event{Kind: Disconnected, ClientID: sess.id, Remote: sess.conn.remote, Detail: why})
}

// explain says in plain words why a connection ended.
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

// tlsState returns nil unless the connection is TLS.
func tlsState(c net.Conn) *tls.ConnectionState {
	t, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := t.ConnectionState()
	return &state
}
