package env

import (
	"context"
	"errors"
	"sync"
	"testing/synctest"
	"time"

	"tandem.internal/shared/link"
)

// Client is somebody else at the broker: the cloud side, an operator's tool, or a node that does
// not behave.
type Client struct {
	e    *Env
	link *link.Dialled
	stop func()

	mu    sync.Mutex
	ups   int
	heard []link.Message
}

// Client connects as a user ("cloud/c1", "node/n7") and subscribes. It is gone when the test ends.
func (e *Env) Client(user string, filters ...string) *Client {
	e.Helper()
	c := &Client{e: e}
	cfg := link.Config{
		OpenConn: e.dial, ClientID: user, Username: user, Filters: filters, Rand: e.rand(), MaxPacket: 64 << 20,
		Backoff: link.Backoff{Max: time.Second},
	}
	if e.Broker != nil {
		cfg.Password = password
	}
	l, err := link.Dial(cfg, c)
	if err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	c.link = l
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.Errorf("%s: %v", user, err)
		}
	})
	e.Cleanup(c.stop)
	e.Until(time.Minute, user+" is connected", func() bool { return c.Sessions() > 0 })
	return c
}

// Close disconnects the client.
func (c *Client) Close() { c.stop() }

// Up, Down and Message make the client a link.Handler.
func (c *Client) Up(uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ups++
}

// Down notes nothing: a client that does not behave is cut off, and comes again.
func (c *Client) Down(uint64, error) {}

// Message keeps what came.
func (c *Client) Message(m link.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, m)
}

// Sessions is how often the client has connected.
func (c *Client) Sessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ups
}

// Heard returns what came since the last call.
func (c *Client) Heard() []link.Message {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := c.heard
	c.heard = nil
	return heard
}

// Insist sends a message as soon as there is a session, and does not care what becomes of it.
func (c *Client) Insist(topic string, payload []byte) {
	for range 100 {
		if err := c.Publish(topic, payload, true); !errors.Is(err, link.ErrDown) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.e.Wrong("no session for ten seconds")
}

// Publish sends a message, or fails to.
func (c *Client) Publish(topic string, payload []byte, retain bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.link.Publish(ctx, topic, payload, retain)
}
