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

// session is one MQTT session. It has its own connection and its own paho client, which no other session uses.
type session struct {
	d            *Dialled
	id           uint64
	conn         *conn
	client       mqtt.Client
	connectToken mqtt.Token      // of client.Connect
	stop         <-chan struct{} // closed when Run's ctx ends
	log          *zap.Logger

	failed sync.Once
	err    error         // why the session failed; read it only after down is closed
	down   chan struct{} // closed when the session has failed or was ended

	window   chan struct{}       // holds a value for each unacknowledged publish
	unacked  chan unackedPublish // unacknowledged publishes, in the order in which they were sent
	acksDone chan struct{}       // closed when awaitAcks has returned

	mu          sync.Mutex
	closed      bool           // no call that uses client, and no Message call, may begin any more
	clientCalls sync.WaitGroup // calls in progress that use client
}

// unackedPublish is a publish that the broker has not acknowledged yet.
type unackedPublish struct {
	token    mqtt.Token
	deadline time.Time // of the acknowledgement
}

// connect opens session id: it connects and subscribes to every filter. If it fails, it has closed everything that it
// opened.
func (d *Dialled) connect(ctx context.Context, id uint64) (*session, error) {
	limited, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	nc, err := d.open(limited)
	if err != nil {
		return nil, err
	}
	s := &session{
		d: d, id: id, stop: ctx.Done(), log: d.cfg.Log,
		down:     make(chan struct{}),
		window:   make(chan struct{}, d.cfg.Window),
		unacked:  make(chan unackedPublish, d.cfg.Window),
		acksDone: make(chan struct{}),
	}
	s.conn = newConn(nc, &d.cfg, s.fail, s.skipped)
	s.client = mqtt.NewClient(s.options())
	go s.awaitAcks()
	d.beat.Beat()
	err = s.handshake(limited)
	for chunk := range slices.Chunk(d.cfg.Filters, maxFilters) {
		if err == nil {
			d.beat.Beat()
			err = s.subscribe(ctx, d.beat, chunk)
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
	o.Servers = []*url.URL{{Scheme: "tcp", Host: "broker"}} // not used: s.conn is open already
	o.SetClientID(cfg.ClientID).SetUsername(cfg.Username).SetPassword(cfg.Password)
	o.SetProtocolVersion(4) // otherwise paho answers each refusal with an attempt as MQTT 3.1
	o.SetCleanSession(true).SetStore(noStore{})
	o.SetAutoReconnect(false).SetConnectRetry(false)
	o.SetOrderMatters(false) // otherwise a Message call that waits delays all acknowledgements
	o.SetAutoAckDisabled(true)
	o.SetKeepAlive(cfg.KeepAlive)
	o.SetPingTimeout(365 * 24 * time.Hour)  // conn limits silence
	o.SetConnectTimeout(cfg.ConnectTimeout) // handshake has the limit
	o.SetWriteTimeout(2 * cfg.WriteTimeout) // conn has a shorter limit
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
	s.connectToken = token
	select {
	case <-token.Done():
		if token.Error() != nil {
			return s.d.explainConnect(token)
		}
		return nil
	case <-s.down:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("%s does not answer the MQTT CONNECT: %w", s.d.cfg.brokerName(), ctx.Err())
	}
}

// fail ends the session with a reason. Further calls do nothing.
func (s *session) fail(err error) {
	s.failed.Do(func() {
		s.err = err
		s.conn.discard()
		close(s.down)
	})
}

// beginCall reports whether the session is open, and then counts a call that uses the client. The caller ends it with
// s.clientCalls.Done.
func (s *session) beginCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.clientCalls.Add(1)
	}
	return !s.closed
}

// publish sends a message with QoS 1 and returns the token of its acknowledgement. It waits for the window and for
// room in the write buffer. It returns ErrDown when the session has ended or stop is closed, or ctx's error.
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
	if !s.beginCall() {
		<-s.window
		return nil, ErrDown
	}
	defer s.clientCalls.Done()
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
	s.unacked <- unackedPublish{token, time.Now().Add(s.d.cfg.AckTimeout)} // has room, because s.window had
	return token, nil
}

// awaitAcks waits for the acknowledgements in the order of the publishes and frees their places in the window. It
// returns when the session ends.
func (s *session) awaitAcks() {
	defer close(s.acksDone)
	beat := s.d.cfg.Watch.Start("link acks", 0)
	defer beat.End()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		beat.Beat()
		select {
		case p := <-s.unacked:
			if !s.awaitAck(p, timer, beat) {
				return
			}
			<-s.window
		case <-s.down:
			return
		case <-beat.C:
		}
	}
}

// awaitAck waits until the broker has acknowledged a publish. It returns false if the session ends before; after the
// deadline it ends the session itself.
func (s *session) awaitAck(p unackedPublish, timer *time.Timer, beat *pulse.Pulse) bool {
	select {
	case <-p.token.Done():
		return true
	default:
	}
	timer.Reset(time.Until(p.deadline))
	for {
		select {
		case <-p.token.Done():
			return true
		case <-s.down:
			return false
		case <-timer.C:
			if more := s.conn.patience(s.d.cfg.AckTimeout); more > 0 {
				timer.Reset(more)
				continue
			}
			s.fail(fmt.Errorf("the broker did not acknowledge a publish within %v", s.d.cfg.AckTimeout))
			return false
		case <-beat.C:
			beat.Beat()
		}
	}
}

// subscribe subscribes to filters and returns when the broker has granted all. A refused filter is an error.
func (s *session) subscribe(ctx context.Context, beat *pulse.Pulse, filters []string) error {
	qos := byte(0)
	if s.d.cfg.SubscribeQoS == AtLeastOnce {
		qos = 1
	}
	for chunk := range slices.Chunk(filters, maxFilters) {
		requested := make(map[string]byte, len(chunk))
		for _, f := range chunk {
			requested[f] = qos
		}
		token, err := s.request(ctx, beat, "SUBSCRIBE",
			func() mqtt.Token { return s.client.SubscribeMultiple(requested, nil) })
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

// unsubscribe ends the subscriptions to filters.
func (s *session) unsubscribe(ctx context.Context, filters []string) error {
	for chunk := range slices.Chunk(filters, maxFilters) {
		if _, err := s.request(ctx, pulse.None(), "UNSUBSCRIBE",
			func() mqtt.Token { return s.client.Unsubscribe(chunk...) }); err != nil {
			return err
		}
	}
	return nil
}

// request calls send and waits until the broker has acknowledged the packet of that name. After AckTimeout it ends
// the session and returns ErrDown. beat is that of the caller's goroutine.
func (s *session) request(ctx context.Context, beat *pulse.Pulse, packet string,
	send func() mqtt.Token) (mqtt.Token, error) {
	if !s.beginCall() {
		return nil, ErrDown
	}
	token := send()
	s.clientCalls.Done()
	timer := time.NewTimer(s.d.cfg.AckTimeout)
	defer timer.Stop()
	for {
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
			if more := s.conn.patience(s.d.cfg.AckTimeout); more > 0 {
				timer.Reset(more)
				continue
			}
			s.fail(fmt.Errorf("the broker did not acknowledge %s within %v", packet, s.d.cfg.AckTimeout))
			return nil, ErrDown
		case <-beat.C:
			beat.Beat()
		}
	}
}

// end closes the session. If it has not failed, end publishes the goodbye messages first and returns true; without
// their acknowledgement it leaves out the DISCONNECT, so that the broker publishes the will.
func (s *session) end() (stopped bool) {
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

// close stops the client and waits until all goroutines of the session have ended, except for Message calls. It sends
// a DISCONNECT if the session has not failed.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.clientCalls.Wait() // soon: no call waits for the broker longer than s.down or s.stop are open
	select {
	case <-s.down: // failed: nothing can be written, and paho may notice
		s.conn.release()
	default:
	}
	<-s.connectToken.Done()
	if s.connectToken.Error() == nil { // otherwise paho waits for a connection that never existed
		s.client.Disconnect(uint(disconnectTimeout / time.Millisecond))
	}
	s.fail(ErrDown) // no failure: it stops awaitAcks and closes the connection
	s.conn.release()
	<-s.conn.done
	<-s.acksDone
}
