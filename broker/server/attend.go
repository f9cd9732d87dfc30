package server

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"go.uber.org/zap"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
)

// serve owns a connection from its first byte until nothing of it is left. It does what mochi's
// EstablishConnection would do, whose frames hold whole packets while it waits for the next one:
// what an idle client's goroutine has on its stack here fits 4 KiB rather than 16. So the frames
// of serve, guard and attend must stay small; what needs room is in functions of its own.
func (s *Server) serve(c *conn) {
	defer s.wg.Done()
	cl := s.mq.NewClient(c, "tandem", "", false)
	s.leaves(c, cl, s.guard(c, cl, s.attend))
}

// leaves clears away what is left of a connection that ended because of err.
//
//go:noinline
func (s *Server) leaves(c *conn, cl *mqtt.Client, err error) {
	sess := c.sess
	if err != nil && sess != nil && sess.established {
		if failed := s.guard(c, cl, s.lastWill); failed != nil {
			s.log.Warn("broker: last will", zap.String("client", sess.id), zap.Error(failed))
		}
	}
	cl.Stop(err)
	c.hangUp()
	if sess == nil {
		s.refused("", c, err)
	} else {
		s.forget(sess)
		s.ended(sess, err)
		s.sessions.release(sess)
	}
	s.mu.Lock() // last: whoever finds the connection gone finds nothing of it
	delete(s.conns, c)
	delete(s.strangers, c)
	s.mu.Unlock()
}

var errPanic = errors.New("panic")

// guard turns a panic into an error and emits an event.
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

// attend lets the client in and serves its packets until it says goodbye or fails.
func (s *Server) attend(c *conn, cl *mqtt.Client) error {
	var head packets.FixedHeader
	if err := cl.ReadFixedHeader(&head); err != nil {
		return err
	}
	if err := s.join(c, cl, &head); err != nil {
		return err
	}
	s.wg.Go(cl.WriteLoop) // ends with cl.Stop
	for !cl.Closed() {
		if err := c.SetDeadline(silence(cl.State.Keepalive)); err != nil {
			return err
		}
		head = packets.FixedHeader{}
		if err := cl.ReadFixedHeader(&head); err != nil {
			return err
		}
		if err := s.process(c, cl, &head); err != nil {
			return err
		}
	}
	return nil
}

// silence is when a client will have been silent for too long (MQTT 3.1.1, 3.1.2.10); zero: never.
func silence(keepAlive uint16) time.Time {
	if keepAlive == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(keepAlive) * time.Second * 3 / 2)
}

// process reads the rest of a packet and does what it asks for.
//
//go:noinline
func (s *Server) process(c *conn, cl *mqtt.Client, head *packets.FixedHeader) error {
	pk, err := cl.ReadPacket(head)
	if err != nil {
		return err
	}
	switch pk.FixedHeader.Type {
	case packets.Connect:
		return packets.ErrProtocolViolationSecondConnect
	case packets.Subscribe:
		return s.subscribe(c.sess, pk)
	case packets.Unsubscribe:
		return s.unsubscribe(c.sess, pk)
	case packets.Publish:
		s.count.received.Add(1)
		if strings.HasPrefix(pk.TopicName, "$") { // mochi would not acknowledge it, and the client repeat it for ever
			s.deny(c.sess, pk.TopicName, "")
			pk.TopicName = refusedTopic
		}
	}
	return s.mq.InjectPacket(cl, pk)
}

// join reads the CONNECT and answers it: it authenticates the client, ends what held its ID, and
// makes its session.
//
//go:noinline
func (s *Server) join(c *conn, cl *mqtt.Client, head *packets.FixedHeader) error {
	if head.Type != packets.Connect {
		return errNoConnect
	}
	pk, err := cl.ReadPacket(head)
	if err != nil {
		return err
	}
	cl.ParseConnect("tandem", pk)
	sess, code, err := s.invite(c, cl, pk)
	if err != nil {
		if failed := s.mq.SendConnack(cl, code, false, nil); failed != nil {
			err = fmt.Errorf("%w; and it could not be told: %w", err, failed)
		}
		return err
	}
	c.sess = sess
	s.known(c)
	// Sessions end with their connection: a resumed one is replayed out of order and, when full,
	// keeps the oldest. Retained state carries what a client missed. CONNACK says "no session".
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

// invite returns the session of an accepted client, which then holds its client ID, or the CONNACK code and
// the reason for the refusal.
func (s *Server) invite(c *conn, cl *mqtt.Client, pk packets.Packet) (*session, packets.Code, error) {
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
		return nil, packets.ErrBadUsernameOrPassword, err
	}
	sess := &session{id: cl.ID, who: who, grants: acl.Rules{Unit: s.unit}.For(who), conn: c, client: cl,
		done: make(chan struct{})}
	if err := s.sessions.claim(sess, s.limits.FirstReadTimeout, s.emit); err != nil {
		return nil, packets.ErrServerUnavailable, err
	}
	return sess, packets.CodeSuccess, nil
}

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

// lastWill publishes the will of a client that disconnected without DISCONNECT, unless the will would be
// false: when the broker closes, or when a newer session of the client has taken over. It is a publish like
// any other, except that nobody waits for an acknowledgement: a will that the intake refuses is retained all
// the same, to be found later.
func (s *Server) lastWill(c *conn, _ *mqtt.Client) error {
	sess := c.sess
	w := sess.will
	if w.Flag == 0 || s.closing.Load() || sess.takenOver.Load() {
		return nil
	}
	leaf, ok := sess.grants.Publish(w.TopicName)
	if !ok {
		return nil // join emitted the event
	}
	taken := s.take(sess, Message{Topic: w.TopicName, Payload: w.Payload, ClientID: sess.id, Retain: w.Retain,
		Will: true})
	w.Retain = w.Retain && acl.Retained(leaf) && (leaf != topic.Reported || s.roomForKind(w.TopicName))
	if taken != nil && !w.Retain {
		return nil // take emitted the event
	}
	return s.mq.Publish(w.TopicName, w.Payload, w.Retain, w.Qos)
}

// forget takes a client and its subscriptions away.
func (s *Server) forget(sess *session) {
	cl := sess.client
	cl.ClearInflights()
	for _, f := range sess.filters {
		s.leave(sess, f)
	}
	sess.filters = nil
	if now, ok := s.mq.Clients.Get(cl.ID); ok && now == cl {
		s.mq.Clients.Delete(cl.ID)
	}
}
