package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"go.uber.org/zap"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/door"
	"tandem.internal/shared/runlog"
	"tandem.internal/shared/topic"
)

// serve owns a connection from its first byte to its end. It replaces mochi's EstablishConnection, whose stack frames
// contain whole packets while it waits for the next one. Here the stack of an idle client's goroutine fits into 4 KiB
// instead of 16. So the frames of serve, guard and servePackets must stay small, and larger ones are in functions that
// are not inlined.
func (s *Server) serve(c *conn) {
	defer s.wg.Done()
	cl := s.mq.NewClient(c, "tandem", "", false)
	s.cleanUp(c, cl, s.guard(c, cl, s.servePackets))
}

// cleanUp publishes the last will of a connection that ended because of err, and removes the connection from all sets.
//
//go:noinline
func (s *Server) cleanUp(c *conn, cl *mqtt.Client, err error) {
	sess := c.sess
	if err != nil && sess != nil && sess.established {
		if failed := s.guard(c, cl, s.lastWill); failed != nil {
			s.log.Warn("broker: last will", runlog.Node(sess.id), zap.String("client", sess.id), zap.Error(failed))
		}
	}
	cl.Stop(err)
	c.disconnect()
	if sess == nil {
		s.refused("", c, err)
	} else {
		s.removeClient(sess)
		s.ended(sess, err)
		s.sessions.release(sess)
	}
	s.leaveLobby(c, true) // last: a connection that is not in conns has left nothing behind
}

var errPanic = errors.New("panic")

// guard calls fn. It turns a panic into an error, and emits an event about it.
func (s *Server) guard(c *conn, cl *mqtt.Client, fn func(*conn, *mqtt.Client) error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		err = fmt.Errorf("%w: %s", errPanic, panicDetail(r))
		s.log.Error("broker: a connection's goroutine panicked", zap.String("panic", panicDetail(r)),
			zap.ByteString("stack", debug.Stack()))
		ev := Event{Kind: Panicked, Remote: c.remote, Detail: err.Error()}
		if c.sess != nil {
			ev.ClientID = c.sess.id
		}
		s.emit(ev)
	}()
	return fn(c, cl)
}

// servePackets reads the CONNECT and then further packets until the client disconnects or fails.
func (s *Server) servePackets(c *conn, cl *mqtt.Client) error {
	if err := s.greet(c); err != nil {
		return err
	}
	h, err := readHead(c.in, false, &s.limits)
	if err != nil {
		return err
	}
	if err := s.handleConnect(c, cl, h); err != nil {
		return err
	}
	s.wg.Go(cl.WriteLoop) // ends with cl.Stop
	for !cl.Closed() {
		if err := c.SetDeadline(silence(cl.State.Keepalive)); err != nil {
			return err
		}
		if h, err = readHead(c.in, true, &s.limits); err != nil {
			return err
		}
		if err := s.process(c, cl, h); err != nil {
			return err
		}
	}
	return nil
}

// greet gives a connection its time until its CONNECT has come, and does the handshake if it has TLS.
//
//go:noinline
func (s *Server) greet(c *conn) error {
	c.in = bufio.NewReaderSize(c, readBuffer)
	if err := c.SetDeadline(time.Now().Add(s.limits.FirstReadTimeout)); err != nil {
		return err
	}
	t, ok := c.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	err := t.Handshake()
	door.Lift(t)
	return err
}

// silence returns the deadline for the next packet (MQTT 3.1.1, section 3.1.2.10); zero: none. keepAlive is in seconds.
func silence(keepAlive uint16) time.Time {
	if keepAlive == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(keepAlive) * time.Second * 3 / 2)
}

// process reads the rest of a packet and handles it.
//
//go:noinline
func (s *Server) process(c *conn, cl *mqtt.Client, h head) error {
	pk, err := readBody(c.in, h, cl.Properties.ProtocolVersion)
	if err != nil {
		return err
	}
	s.count.bytes.Add(int64(h.size()))
	switch pk.FixedHeader.Type {
	case packets.Subscribe:
		return s.subscribe(c.sess, pk)
	case packets.Unsubscribe:
		return s.unsubscribe(c.sess, pk)
	case packets.Publish:
		s.count.received.Add(1)
		if strings.HasPrefix(pk.TopicName, "$") { // mochi would not acknowledge it: the client would repeat it for ever
			s.deny(c.sess, pk.TopicName, "")
			pk.TopicName = refusedTopic
		}
	}
	return s.mq.InjectPacket(cl, pk)
}

// handleConnect reads the CONNECT, authenticates the client, creates its session and answers with CONNACK.
//
//go:noinline
func (s *Server) handleConnect(c *conn, cl *mqtt.Client, h head) error {
	pk, err := readBody(c.in, h, 0)
	if err != nil {
		return err
	}
	s.count.bytes.Add(int64(h.size()))
	cl.ParseConnect("tandem", pk)
	sess, code, err := s.newSession(c, cl, pk)
	if err != nil {
		if failed := s.mq.SendConnack(cl, code, false, nil); failed != nil {
			err = fmt.Errorf("%w; and it could not be told: %w", err, failed)
		}
		return err
	}
	c.sess = sess
	s.leaveLobby(c, false)
	// Sessions end with their connection: mochi replays a resumed one out of order and, when it is full, drops the
	// newest. Retained messages have what a client has missed. CONNACK says that there was no session.
	cl.Properties.Clean = true
	sess.will, cl.Properties.Will = cl.Properties.Will, mqtt.Will{}
	if sess.will.Flag != 0 {
		if _, ok := sess.grants.Publish(sess.will.TopicName); !ok {
			s.deny(sess, sess.will.TopicName, "as last will")
			sess.will = mqtt.Will{}
		}
	}
	s.mq.Clients.Add(cl)
	if err := s.mq.SendConnack(cl, packets.CodeSuccess, false, nil); err != nil {
		return fmt.Errorf("answer the CONNECT: %w", err)
	}
	sess.established = true
	s.emit(Event{Kind: Connected, ClientID: sess.id, Remote: c.remote})
	return nil
}

// newSession authenticates a client and returns its session, which has its client ID from then on; or the CONNACK code
// and the reason of a refusal.
func (s *Server) newSession(c *conn, cl *mqtt.Client, pk packets.Packet) (*session, packets.Code, error) {
	if code := pk.ConnectValidate(); code != packets.CodeSuccess {
		return nil, code, code
	}
	if pk.ProtocolVersion > 4 {
		return nil, packets.ErrUnsupportedProtocolVersion, fmt.Errorf("MQTT protocol version %d is not spoken "+
			"here, 3.1.1 is", pk.ProtocolVersion)
	}
	if pk.Connect.ClientIdentifier == "" && !pk.Connect.Clean {
		return nil, packets.ErrClientIdentifierNotValid, errors.New("a client ID is missing")
	}
	if cl.ID == mqtt.InlineClientId {
		return nil, packets.ErrClientIdentifierNotValid, fmt.Errorf("client ID %q is the broker's own", cl.ID)
	}
	who, err := s.authenticate(c, pk)
	if err != nil {
		return nil, refusal(err), err
	}
	sess := &session{id: cl.ID, who: who, grants: acl.Rules{Unit: s.unit}.For(who), conn: c, client: cl,
		done: make(chan struct{})}
	if err := s.sessions.claim(sess, s.limits.FirstReadTimeout, s.emit); err != nil {
		return nil, packets.ErrServerUnavailable, err
	}
	return sess, packets.CodeSuccess, nil
}

// refusal returns the code for a client that has not proved who it is. mochi makes "not authorized" of the code that
// would be the one for a wrong password, and that one of this.
func refusal(err error) packets.Code {
	switch {
	case errors.Is(err, errGuesses):
		return packets.ErrServerUnavailable
	case errors.Is(err, errWrong):
		return packets.ErrMalformedPassword
	}
	return packets.ErrBadUsernameOrPassword
}

// authenticate asks Config.Auth for the identity of a client.
func (s *Server) authenticate(c *conn, pk packets.Packet) (who acl.Identity, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("authentication panicked: %s", panicDetail(r))
			s.emit(Event{Kind: Panicked, ClientID: pk.Connect.ClientIdentifier, Remote: c.remote, Detail: err.Error()})
		}
	}()
	return s.auth(ConnectInfo{
		ClientID: pk.Connect.ClientIdentifier, Username: string(pk.Connect.Username), Password: pk.Connect.Password,
		Remote: c.RemoteAddr(), TLS: tlsState(c.Conn),
	})
}

// lastWill publishes the last will of a client whose connection ended without DISCONNECT. It does not when the broker
// is closing or the client has a newer session, because the will would be false. It is a publish like any other, but
// without an acknowledgement: if the intake refuses it, it is retained nevertheless, so that it can be found later.
func (s *Server) lastWill(c *conn, _ *mqtt.Client) error {
	sess := c.sess
	w := sess.will
	if w.Flag == 0 || s.closing.Load() || sess.takenOver.Load() {
		return nil
	}
	leaf, ok := sess.grants.Publish(w.TopicName)
	if !ok {
		return nil // handleConnect has emitted the event
	}
	taken := s.take(sess, Message{Topic: w.TopicName, Payload: w.Payload, ClientID: sess.id, Retain: w.Retain,
		Will: true})
	w.Retain = w.Retain && acl.Retained(leaf) && (leaf != topic.Reported || s.roomForKind(w.TopicName))
	if taken != nil && !w.Retain {
		return nil // take has emitted the event
	}
	return s.mq.Publish(w.TopicName, w.Payload, w.Retain, w.Qos)
}

// removeClient removes a client and its subscriptions from mochi.
func (s *Server) removeClient(sess *session) {
	cl := sess.client
	cl.ClearInflights()
	for _, f := range sess.filters {
		s.dropSubscription(sess, f)
	}
	sess.filters = nil
	if now, ok := s.mq.Clients.Get(cl.ID); ok && now == cl {
		s.mq.Clients.Delete(cl.ID)
	}
}
