package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"go.uber.org/zap"

	"tandem.internal/shared/pulse"
)

const (
	goodbyeTimeout    = time.Second
	disconnectTimeout = time.Second
	refused           = 0x80 // SUBACK code (MQTT 3.1.1, section 3.9.3)
)

// session is one MQTT session: one connection and one paho client, never used again.
type session struct {
	d      *Dialled
	id     uint64
	conn   *conn
	client mqtt.Client
	began  mqtt.Token      // token of client.Connect
	stop   <-chan struct{} // closed when Run's ctx ends
	log    *zap.Logger

	failed sync.Once
	err    error         // why the session failed; read it only after down is closed
	down   chan struct{} // closed when the session has failed or is left

	window chan struct{} // holds a value for each unacknowledged publish
	flight chan inflight // publishes in the order in which they were sent
	reaped chan struct{} // closed when the reaper has ended

	mu     sync.Mutex
	closed bool           // no publish or Message call may begin any more
	users  sync.WaitGroup // calls in progress that use client
}

// inflight is a publish that the broker has not acknowledged yet.
type inflight struct {
	token mqtt.Token
	until time.Time
}

// connect returns session id, connected and with every filter granted. If it fails, nothing of the session
// is left.
func (d *Dialled) connect(ctx context.Context, id uint64) (*session, error) {
	limited, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	nc, err := d.open(limited)
	if err != nil {
		return nil, err
	}
	s := &session{
		d: d, id: id, stop: ctx.Done(), log: d.cfg.Log,
		down:   make(chan struct{}),
		window: make(chan struct{}, d.cfg.Window),
		flight: make(chan inflight, d.cfg.Window),
		reaped: make(chan struct{}),
	}
	s.conn = newConn(nc, &d.cfg, s.fail)
	s.client = mqtt.NewClient(s.options())
	go s.reap()
	d.beat.Beat()
	err = s.handshake(limited)
	for some := range slices.Chunk(d.cfg.Filters, maxFilters) {
		if err == nil {
			d.beat.Beat()
			err = s.subscribe(ctx, some)
		}
	}
	d.beat.Beat()
	if err == nil {
		return s, nil
	}
	s.fail(err)
	s.close()
	return nil, s.err // the first failure, of which err may be a consequence
}

// options configures paho for one session, without reconnects.
func (s *session) options() *mqtt.ClientOptions {
	cfg := &s.d.cfg
	o := mqtt.NewClientOptions()
	o.Servers = []*url.URL{{Scheme: "tcp", Host: "broker"}} // not looked at: the connection is open
	o.SetClientID(cfg.ClientID).SetUsername(cfg.Username).SetPassword(cfg.Password)
	o.SetProtocolVersion(4) // or each refusal is tried again as MQTT 3.1
	o.SetCleanSession(true).SetStore(noStore{})
	o.SetAutoReconnect(false).SetConnectRetry(false)
	o.SetOrderMatters(false) // or a Message call that waits stops the acknowledgements
	o.SetAutoAckDisabled(true)
	o.SetKeepAlive(cfg.KeepAlive)
	o.SetPingTimeout(365 * 24 * time.Hour)  // conn bounds silence
	o.SetConnectTimeout(cfg.ConnectTimeout) // handshake does it
	o.SetWriteTimeout(2 * cfg.WriteTimeout) // conn does it, sooner
	o.SetDefaultPublishHandler(s.deliver)
	o.SetConnectionLostHandler(func(_ mqtt.Client, err error) { s.fail(err) })
	o.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return s.conn, nil })
	if cfg.Will != nil {
		if w := cfg.Will(s.id); w != nil {
			o.SetBinaryWill(w.Topic, w.Payload, 1, w.Retain)
		}
	}
	return o
}

// handshake sends CONNECT and waits for CONNACK.
func (s *session) handshake(ctx context.Context) error {
	token := s.client.Connect().(*mqtt.ConnectToken)
	s.began = token
	select {
	case <-token.Done():
		if token.Error() != nil {
			return s.d.explainConnect(token)
		}
		return nil
	case <-s.down:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("%s does not answer the MQTT CONNECT: %w", s.d.where(), ctx.Err())
	}
}

// fail ends the session; only the first reason counts.
func (s *session) fail(err error) {
	s.failed.Do(func() {
		s.err = err
		s.conn.discard()
		close(s.down)
	})
}

// enter begins a call that uses the client, unless the session is being closed. It ends with
// s.users.Done.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.users.Add(1)
	}
	return !s.closed
}

// deliver is called by paho in a goroutine for each message. The message is acknowledged when
// the Handler has returned; if the session has ended by then, it is not.
func (s *session) deliver(_ mqtt.Client, m mqtt.Message) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.d.calls.Add(1)
	s.mu.Unlock()
	defer s.d.calls.Done()
	s.d.handler.Message(Message{Topic: m.Topic(), Payload: m.Payload(), Retained: m.Retained()})
	m.Ack()
}

// publish hands a message to the client and returns the token of its acknowledgement.
func (s *session) publish(ctx context.Context, p Publication, stop <-chan struct{}) (mqtt.Token, error) {
	select {
	case <-s.down:
		return nil, ErrDown
	case <-stop:
		return nil, ErrDown
	default:
	}
	select {
	case s.window <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.down:
		return nil, ErrDown
	case <-stop:
		return nil, ErrDown
	}
	if !s.enter() {
		<-s.window
		return nil, ErrDown
	}
	defer s.users.Done()
	size := publishSize(p.Topic, p.Payload)
	if err := s.conn.reserve(ctx, size, s.down, stop); err != nil {
		<-s.window
		return nil, err
	}
	token := s.client.Publish(p.Topic, 1, p.Retain, p.Payload)
	s.conn.unreserve(size)
	select {
	case <-token.Done():
		if err := token.Error(); err != nil {
			<-s.window
			s.fail(fmt.Errorf("cannot publish: %w", err))
			return nil, ErrDown
		}
	default:
	}
	s.flight <- inflight{token, time.Now().Add(s.d.cfg.AckTimeout)} // has room: the window is held
	return token, nil
}

// reap waits for the acknowledgements in the order of the publishes and opens the window. It ends
// when the session does.
func (s *session) reap() {
	defer close(s.reaped)
	beat := s.d.cfg.Watch.Start("link acks", 0)
	defer beat.End()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		beat.Beat()
		select {
		case f := <-s.flight:
			if !s.acknowledged(f, timer, beat) {
				return
			}
			<-s.window
		case <-s.down:
			return
		case <-beat.C:
		}
	}
}

// acknowledged waits until a publish is acknowledged; false: the session has ended, or ends because it
// is not.
func (s *session) acknowledged(f inflight, timer *time.Timer, beat *pulse.Pulse) bool {
	select {
	case <-f.token.Done():
		return true
	default:
	}
	timer.Reset(time.Until(f.until))
	for {
		select {
		case <-f.token.Done():
			return true
		case <-s.down:
			return false
		case <-timer.C:
			s.fail(fmt.Errorf("the broker did not acknowledge a publish within %v", s.d.cfg.AckTimeout))
			return false
		case <-beat.C:
			beat.Beat()
		}
	}
}

// subscribe asks for filters and returns when all are granted.
func (s *session) subscribe(ctx context.Context, filters []string) error {
	qos := byte(0)
	if s.d.cfg.SubscribeQoS == AtLeastOnce {
		qos = 1
	}
	for chunk := range slices.Chunk(filters, maxFilters) {
		asked := make(map[string]byte, len(chunk))
		for _, f := range chunk {
			asked[f] = qos
		}
		token, err := s.ask(ctx, "SUBSCRIBE", func() mqtt.Token { return s.client.SubscribeMultiple(asked, nil) })
		if err != nil {
			return err
		}
		granted := token.(*mqtt.SubscribeToken).Result()
		for _, f := range chunk {
			code, ok := granted[f]
			if !ok || code >= refused {
				return fmt.Errorf("the broker refuses the subscription to %q (client %q, user %q)",
					f, s.d.cfg.ClientID, s.d.cfg.Username)
			}
			if code < qos {
				s.log.Warn("subscription granted with a lower QoS", zap.String("filter", f), zap.Uint8("qos", code))
			}
		}
	}
	return nil
}

// unsubscribe ends filters.
func (s *session) unsubscribe(ctx context.Context, filters []string) error {
	for chunk := range slices.Chunk(filters, maxFilters) {
		if _, err := s.ask(ctx, "UNSUBSCRIBE",
			func() mqtt.Token { return s.client.Unsubscribe(chunk...) }); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request and waits for its acknowledgement. A broker that stays silent fails the
// session.
func (s *session) ask(ctx context.Context, what string, send func() mqtt.Token) (mqtt.Token, error) {
	if !s.enter() {
		return nil, ErrDown
	}
	token := send()
	s.users.Done()
	timer := time.NewTimer(s.d.cfg.AckTimeout)
	defer timer.Stop()
	select {
	case <-token.Done():
		return token, token.Error()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.down:
		return nil, ErrDown
	case <-s.stop:
		return nil, ErrDown
	case <-timer.C:
		s.fail(fmt.Errorf("the broker did not acknowledge %s within %v", what, s.d.cfg.AckTimeout))
		return nil, ErrDown
	}
}

// leave ends the session. It reports whether the session ended because ctx did: then the broker has
// acknowledged the goodbye messages, or it publishes the will.
func (s *session) leave(ctx context.Context) (stopped bool) {
	select {
	case <-s.down:
	default:
		stopped = true
		if err := s.goodbye(); err != nil {
			s.log.Warn("goodbye not acknowledged, the will speaks instead", zap.Uint64("session", s.id), zap.Error(err))
			s.fail(err)
		}
	}
	s.close()
	return stopped
}

// goodbye publishes the Goodbye messages and waits until the broker has acknowledged them.
func (s *session) goodbye() error {
	if s.d.cfg.Goodbye == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	var tokens []mqtt.Token
	for _, p := range s.d.cfg.Goodbye(s.id) {
		token, err := s.publish(ctx, p, nil)
		if err != nil {
			return err
		}
		tokens = append(tokens, token)
	}
	for _, token := range tokens {
		select {
		case <-token.Done():
			if err := token.Error(); err != nil {
				return err
			}
		case <-s.down:
			return s.err
		case <-ctx.Done():
			return errors.New("no PUBACK in time")
		}
	}
	return nil
}

// close stops the client and waits until nothing of the session runs any more, except for
// Message calls. A session that has not failed ends in good order, with a DISCONNECT.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.users.Wait() // none waits for the broker: reserve ends with s.down or s.stop
	select {
	case <-s.down: // failed: nothing to be written; let paho find out
		s.conn.release()
	default:
	}
	<-s.began.Done()
	if s.began.Error() == nil { // else paho waits for a connection that never was
		s.client.Disconnect(uint(disconnectTimeout / time.Millisecond))
	}
	s.fail(ErrDown) // in good order; releases the reaper and the connection
	s.conn.release()
	<-s.conn.done
	<-s.reaped
}
