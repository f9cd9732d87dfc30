package env

import (
	"context"
	"net"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"tandem.internal/broker/server"
	"tandem.internal/shared/link/linktest"
)

// Unit is the unit's name.
const Unit = "u1"

// password is everybody's at the external broker.
const password = "open sesame"

// Broker is a broker of its own, as a large site has.
type Broker struct {
	e *Env

	mu   sync.Mutex
	pipe *linktest.Pipe // where clients are sent
	now  *server.Server
}

func newBroker(e *Env) *Broker { return &Broker{e: e} }

// Start starts an empty broker.
func (b *Broker) Start() {
	b.e.Helper()
	b.e.Note("broker starts")
	pipe := linktest.NewPipe()
	l, err := pipe.Listen()
	if err != nil {
		b.e.Fatal(err)
	}
	s, err := server.New(server.Config{
		Unit: Unit, Listeners: []net.Listener{l}, Limits: server.Collectors(),
		Log: b.e.log("broker").With(zap.String("unit", Unit)),
		Passwords: map[string]string{"controller": password, "cloud/c1": password, "cloud/c2": password,
			"operator/o1": password},
	})
	if err != nil {
		b.e.Fatal(err)
	}
	if err := s.Start(); err != nil {
		b.e.Fatal(err)
	}
	b.mu.Lock()
	b.pipe, b.now = pipe, s
	b.mu.Unlock()
}

// Stop stops the broker; what it retained is gone.
func (b *Broker) Stop() {
	b.mu.Lock()
	s := b.now
	b.pipe, b.now = nil, nil
	b.mu.Unlock()
	if s == nil {
		return
	}
	b.e.Note("broker stops")
	if err := s.Close(); err != nil {
		b.e.Errorf("close the broker: %v", err)
	}
}

// Wipe restarts the broker with nothing in it.
func (b *Broker) Wipe() {
	b.e.Helper()
	b.Stop()
	b.Start()
}

// Swap sends whoever connects from now on to another, empty broker, cuts everybody, and then
// stops the old one.
func (b *Broker) Swap() {
	b.e.Helper()
	b.mu.Lock()
	old := b.now
	b.mu.Unlock()
	b.Start()
	b.e.Note("everybody is sent to the other broker")
	for _, n := range b.e.nodes {
		n.road.Cut()
	}
	b.e.Controller.road.Cut()
	if old != nil {
		if err := old.Close(); err != nil {
			b.e.Errorf("close the old broker: %v", err)
		}
	}
}

// Retained returns what the broker retains on a topic.
func (b *Broker) Retained(topic string) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == nil {
		return nil, false
	}
	return b.now.Retained(topic)
}

func (b *Broker) dial(ctx context.Context) (net.Conn, error) {
	b.mu.Lock()
	pipe := b.pipe
	b.mu.Unlock()
	if pipe == nil {
		return nil, syscall.ECONNREFUSED
	}
	return pipe.Dial(ctx)
}

// Dial opens a bare connection to the unit's broker, for whoever does not want to speak MQTT.
func (e *Env) Dial(ctx context.Context) (net.Conn, error) { return e.dial(ctx) }

// dial connects a node to the unit's broker, wherever it is now.
func (e *Env) dial(ctx context.Context) (net.Conn, error) {
	if e.Broker != nil {
		return e.Broker.dial(ctx)
	}
	if e.Controller.Machine.Dead() {
		return nil, syscall.ECONNREFUSED
	}
	return e.Controller.pipe.Dial(ctx)
}

// Publish speaks as the broker itself, past all rules of access: what a hostile or confused
// broker could do.
func (b *Broker) Publish(topic string, payload []byte, retain bool) {
	b.e.Helper()
	b.mu.Lock()
	s := b.now
	b.mu.Unlock()
	if err := s.Publish(topic, payload, retain); err != nil {
		b.e.Fatal(err)
	}
}
