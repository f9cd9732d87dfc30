package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	mqtt "github.com/mochi-mqtt/server/v2"
	"go.uber.org/zap"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/door"
	"tandem.internal/shared/wire"
)

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("the broker is closed")

// Message is one publish of a node or a cloud side.
type Message struct {
	Topic    string
	Payload  []byte // the receiver may keep it, but not change it
	ClientID string
	Retain   bool // the sender asked for it to be retained
	Will     bool // it is the last will of a client that ended without a DISCONNECT
}

// Server is one MQTT broker. Its methods are safe for concurrent use.
type Server struct {
	unit     string
	limits   Limits
	auth     func(ConnectInfo) (acl.Identity, error)
	log      *zap.Logger
	mq       *mqtt.Server
	events   *events
	sessions registry
	retained retained
	intake   func(Message) error // set before Start
	count    counters
	full     throttle // of events about connections above Limits.MaxClients
	refusals flood    // of events about clients that were refused

	stop    chan struct{}  // closed by Close
	wg      sync.WaitGroup // accept loops, connections, flushers
	closing atomic.Bool
	closed  chan struct{} // closed when Close is done

	mu        sync.Mutex
	started   bool
	listeners []net.Listener
	conns     map[*conn]struct{}
	lobby     door.Lobby[*conn] // those of conns that are not authenticated yet
}

// counters are counts since New; Stats has their meanings.
type counters struct {
	received, deniedPublishes, deniedSubscribes, refused, stalled, taken, intakeFailures, bytes atomic.Int64
}

// New returns a broker that does not serve yet. Publish may be called already. The error is about cfg.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("broker configuration: %w", err)
	}
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("broker configuration: %w", err)
	}
	s := &Server{
		unit: cfg.Unit, limits: limits, auth: cfg.Auth, log: cfg.Log,
		stop: make(chan struct{}), closed: make(chan struct{}),
		sessions:  registry{byID: map[string]*session{}},
		listeners: cfg.Listeners, conns: map[*conn]struct{}{},
		lobby: door.Lobby[*conn]{Each: limits.StrangersEach, Max: limits.Strangers, Waiting: maxWaiting,
			Patience: strangersPatience, Longest: longestWait},
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if s.auth == nil {
		s.auth = defaultAuth(cfg.Passwords)
	}
	s.auth = proved(cfg.Verify, s.auth)
	s.events = newEvents(s.log, cfg.OnEvent)
	s.mq = mqtt.New(&mqtt.Options{
		Capabilities: capabilities(limits), InlineClient: true, Logger: newDropLog(s),
		ClientNetReadBufferSize: 16, // the least there is: mochi reads nothing, see front.go
	})
	if err := s.mq.AddHook(&hook{Server: s}, nil); err != nil {
		return nil, fmt.Errorf("attach to the MQTT server: %w", err)
	}
	go s.events.run()
	return s, nil
}

// readBuffer is the size in bytes of each client's read buffer. A node's report fits; more would cost memory for each
// idle node.
const readBuffer = 1 << 10

// capabilities returns the limits as mochi has them.
func capabilities(l Limits) *mqtt.Capabilities {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumMessageExpiryInterval = 0 // no expiry; the default deletes retained messages after a day
	c.MaximumPacketSize = uint32(l.MaxPacket)
	c.MaximumClientWritesPending = int32(l.PendingPerClient)
	c.MaximumInflight = uint16(l.Inflight)
	c.ReceiveMaximum = uint16(l.ReceiveMaximum)
	c.SharedSubAvailable = 0
	c.TopicAliasMaximum = 0
	// MaximumClients stays unlimited: the accept loop counts connections before anything is read.
	return c
}

// Intake sets the function that gets every message of a node or cloud side: reported, live, event, reply and inbox, and
// last wills. The broker calls fn before it retains, acknowledges or delivers the message: for one client in order, for
// several clients at once. fn may block: the PUBACK waits, so what fn writes to disk is durable when the client gets
// it. If fn panics, the message is not acknowledged. Intake panics after Start.
func (s *Server) Intake(fn func(Message)) {
	s.IntakeErr(func(m Message) error { fn(m); return nil })
}

// IntakeErr is Intake with a function that can fail. After an error the message is neither retained nor acknowledged,
// and the client is disconnected, so that it sends the message again.
func (s *Server) IntakeErr(fn func(Message) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		panic("broker: Intake after Start")
	}
	s.intake = fn
}

// Start begins to serve the listeners. The error is ErrClosed, or says that Start was called before.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing.Load():
		return ErrClosed
	case s.started:
		return errors.New("the broker was started before")
	}
	s.started = true
	// mochi's Serve is not called. It would serve mochi's listeners, and each second copy all clients and retained
	// messages to find expired ones, of which there are none here.
	for _, l := range s.listeners {
		s.wg.Go(func() { s.accept(l) })
	}
	return nil
}

// Close closes the listeners and all connections, and returns when all goroutines of the broker have ended. It does not
// publish last wills, because the clients have not failed.
func (s *Server) Close() error {
	if s.closing.Swap(true) {
		<-s.closed
		return nil
	}
	defer close(s.closed)
	close(s.stop)
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	var errs []error
	for _, l := range s.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close %s: %w", l.Addr(), err))
		}
	}
	for _, c := range conns {
		c.disconnect()
	}
	s.wg.Wait()
	if err := s.mq.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close the MQTT server: %w", err))
	}
	s.events.close()
	return errors.Join(errs...)
}

// Addr returns the address of the first listener, nil without one.
func (s *Server) Addr() net.Addr {
	if len(s.listeners) == 0 {
		return nil
	}
	return s.listeners[0].Addr()
}

// Publish publishes a message as the broker's own client, without access rules and intake. Subscribers get it with
// their QoS, at most 1. With retain, an empty payload removes the retained message. When Publish returns, the message
// is retained and in every subscriber's queue. It waits for no subscriber: if a queue is full, the message is dropped
// for that subscriber, and an event is emitted. The payload must not be changed afterwards. The error is ErrClosed, or
// a *wire.Error if the topic is not valid (invalid-argument) or the message is too large (too-large).
func (s *Server) Publish(name string, payload []byte, retain bool) error {
	switch {
	case s.closing.Load():
		return ErrClosed
	case name == "", len(name) > acl.MaxFilter, strings.ContainsAny(name, "+#\x00"), !utf8.ValidString(name):
		return wire.New(wire.CodeInvalidArgument, "", fmt.Sprintf("%.80q cannot be a topic", name))
	case len(payload)+len(name)+16 > s.limits.MaxPacket:
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("%d bytes on %s do not fit a "+
			"packet of %d", len(payload), name, s.limits.MaxPacket))
	}
	s.count.received.Add(1)
	if err := s.mq.Publish(name, payload, retain, 1); err != nil {
		return fmt.Errorf("publish on %s: %w", name, err)
	}
	return nil
}

// Retained returns the retained payload of a topic, which must not be changed.
func (s *Server) Retained(name string) ([]byte, bool) {
	return s.retained.get(name)
}

// Disconnect closes the connection of a client, if it has one, and publishes its last will. why is the detail of the
// Disconnected event.
func (s *Server) Disconnect(clientID, why string) {
	if c := s.sessions.get(clientID); c != nil {
		c.end(why)
	}
}

// Stats are current numbers (the first four) and counts since New.
type Stats struct {
	Clients       int // authenticated connections
	Connections   int // all connections
	Retained      int
	Subscriptions int

	Received         int64 // messages
	Sent             int64 // messages
	BytesReceived    int64
	BytesSent        int64
	Taken            int64 // messages that the intake took
	IntakeFailures   int64
	Dropped          int64 // messages that clients did not get because their queues were full
	DeniedPublishes  int64
	DeniedSubscribes int64
	Refused          int64 // connections
	Stalled          int64 // clients disconnected because they did not read
	Takeovers        int64
	EventsLost       int64 // events that were discarded because OnEvent was too slow
}

// Stats returns the current numbers.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	conns := len(s.conns)
	s.mu.Unlock()
	i := s.mq.Info
	return Stats{
		Clients: s.sessions.len(), Connections: conns, Retained: s.retained.len(),
		Subscriptions: int(atomic.LoadInt64(&i.Subscriptions)),
		Received:      s.count.received.Load(), Sent: atomic.LoadInt64(&i.MessagesSent),
		BytesReceived: s.count.bytes.Load(), BytesSent: atomic.LoadInt64(&i.BytesSent),
		Taken: s.count.taken.Load(), IntakeFailures: s.count.intakeFailures.Load(),
		Dropped:         atomic.LoadInt64(&i.MessagesDropped) + atomic.LoadInt64(&i.InflightDropped),
		DeniedPublishes: s.count.deniedPublishes.Load(), DeniedSubscribes: s.count.deniedSubscribes.Load(),
		Refused: s.count.refused.Load(), Stalled: s.count.stalled.Load(), Takeovers: s.sessions.count.Load(),
		EventsLost: s.events.lost.Load(),
	}
}

// emit queues an event for Config.OnEvent and the log.
func (s *Server) emit(ev Event) { s.events.emit(ev) }

// emitThrough emits an event unless t holds it back.
func (s *Server) emitThrough(t *throttle, ev Event) {
	if ev, ok := t.pass(ev); ok {
		s.emit(ev)
	}
}
