package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/pulse"
	"tandem.internal/shared/wire"
)

// Publication is a message that the link itself sends: a last will or a goodbye message.
type Publication struct {
	Topic   string
	Payload []byte
	Retain  bool
}

// QoS is the MQTT quality of service of a dialled link's subscriptions. Publishes always have QoS 1.
type QoS int8

const (
	// AtLeastOnce is MQTT's QoS 1: the broker keeps a message until the Handler has returned.
	AtLeastOnce QoS = 1
	// AtMostOnce is MQTT's QoS 0. It is for brokers where a QoS 1 subscription is expensive, such as NATS, where
	// each one is a stream consumer. Retained messages, and requests to send again, recover what is lost.
	AtMostOnce QoS = -1
)

// Backoff is the pause between attempts to connect, with full jitter: before attempt n after the last good session,
// the link pauses a random time between 0 and min(Max, Min·2ⁿ). A session that was up for at least that long, or for
// 5 s, is a good one: n is 0 again. So two clients with the same ID, each of which ends the other's session, slow down.
type Backoff struct {
	Min time.Duration // zero means 250 ms
	Max time.Duration // zero means 30 s, or Min if that is longer
	// Refused is Max while the broker answers and refuses the CONNECT, with n counted from the first refusal. Zero
	// means Max.
	Refused time.Duration
}

// refused returns the back-off after a refusal.
func (b Backoff) refused() Backoff { return Backoff{Min: b.Min, Max: max(b.Max, b.Refused)} }

// goodSession is for how long a session is up at most until it counts as a good one.
const goodSession = 5 * time.Second

// good reports whether a session that was up for so long, after attempt n, was a good one.
func (b Backoff) good(up time.Duration, n int) bool { return up >= min(b.ceiling(n), goodSession) }

// ceiling returns the longest pause before attempt n, counted from 0.
func (b Backoff) ceiling(n int) time.Duration {
	c := b.Min
	for ; n > 0 && c < b.Max; n-- {
		c *= 2
	}
	return min(c, b.Max)
}

// Config describes a dialled link. Only ClientID and one of Broker and OpenConn must be set.
type Config struct {
	// Broker is a URL: tcp:// or mqtt:// (port 1883 unless given), tls://, mqtts:// or ssl://
	// (port 8883), or unix:///path. It may be empty if OpenConn is set. It carries no
	// credentials.
	Broker string
	// ClientID is the MQTT client ID, unique at the broker. It must not be empty: the broker would choose another ID
	// for each session.
	ClientID string
	// Username and Password are the credentials. Empty means none; a password needs a user name.
	Username string
	Password string
	// TLS is used for the schemes with TLS. Nil means the system's roots; an empty ServerName
	// means Broker's host.
	TLS *tls.Config
	// OpenConn opens the connection below MQTT (and below TLS, if Broker's scheme has it). Nil
	// means to dial Broker. It must honour ctx.
	OpenConn func(ctx context.Context) (net.Conn, error)

	// Filters are subscribed to in each session before Up, at most 256 a packet. Nil means none.
	Filters []string
	// SubscribeQoS is the QoS of every subscription. Zero means AtLeastOnce.
	SubscribeQoS QoS
	// Will returns the last will of one session. It is called before each attempt to connect, on Run's goroutine.
	// Nil, or a nil result, means no will.
	Will func(session uint64) *Publication
	// Goodbye returns the messages to publish when Run's ctx ends while a session is up. If the broker does not
	// acknowledge them within a second, the link closes the connection without a DISCONNECT, so that the broker
	// publishes the will. Nil means no messages.
	Goodbye func(session uint64) []Publication

	// Window is the number of publishes that may be unacknowledged. Zero means 64.
	Window int
	// BufferSize is the size in bytes of the read buffer and of what may wait to be written
	// before Publish waits too. Zero means 4096, which suits a node; a controller takes 64 KiB.
	BufferSize int
	// MaxPacket is the largest MQTT packet in bytes, in both directions. A larger Publish is refused. A larger PUBLISH
	// from the broker is read past, up to MQTT's 268,435,455 bytes: the Handler gets a Message with TooLong. Any other
	// packet that is larger ends the session. Zero means wire.MaxPacket.
	MaxPacket int

	// Backoff is the pause between attempts to connect.
	Backoff Backoff
	// Rand draws the pauses of Backoff; only Run's goroutine uses it. Nil means the source of math/rand/v2.
	Rand *rand.Rand
	// KeepAlive is how long the connection may be silent before a ping; whole seconds, at least
	// 1. Twice this time without a byte from the broker ends the session. Zero means 30 s.
	KeepAlive time.Duration
	// ConnectTimeout bounds opening the connection, TLS and MQTT's CONNECT. Zero means 10 s.
	ConnectTimeout time.Duration
	// WriteTimeout bounds one write to the network; past it the session ends. Zero means 5 s.
	WriteTimeout time.Duration
	// AckTimeout bounds the wait for a PUBACK, SUBACK or UNSUBACK; past it the session ends.
	// Zero means 30 s.
	AckTimeout time.Duration

	// Watch watches the link's loops: "link", which is Run's, and in each session "link writer" and "link acks". A
	// loop that waits for the broker counts as alive. The goroutines of the MQTT client are not watched: if they
	// hang, acknowledgements stop and the session ends. Nil means no watch.
	Watch pulse.Watch
	// Log gets warnings that no Handler call reports. Nil means no log.
	Log *zap.Logger
}

// maxFilters is the number of filters in one SUBSCRIBE or UNSUBSCRIBE packet.
const maxFilters = 256

// withDefaults returns c with defaults in the place of zeros, or an error about the first field that is wrong.
func (c Config) withDefaults() (Config, error) {
	bad := func(format string, a ...any) (Config, error) {
		return Config{}, fmt.Errorf("link configuration: "+format, a...)
	}
	if c.ClientID == "" {
		return bad("the client ID is empty")
	}
	if c.Broker == "" && c.OpenConn == nil {
		return bad("no broker is given")
	}
	if c.Username == "" && c.Password != "" {
		return bad("a password needs a user name")
	}
	if c.Window < 0 || c.BufferSize < 0 || c.MaxPacket < 0 || c.Backoff.Min < 0 || c.Backoff.Max < 0 ||
		c.KeepAlive < 0 || c.ConnectTimeout < 0 || c.WriteTimeout < 0 || c.AckTimeout < 0 {
		return bad("a size or time is negative")
	}
	switch c.SubscribeQoS {
	case 0:
		c.SubscribeQoS = AtLeastOnce
	case AtLeastOnce, AtMostOnce:
	default:
		return bad("subscriptions have QoS AtLeastOnce or AtMostOnce, not %d", c.SubscribeQoS)
	}
	for _, f := range c.Filters {
		if err := CheckFilter(f); err != nil {
			return bad("%w", err)
		}
	}
	setDefault(&c.Window, 64)
	if c.Window > 60_000 { // packet IDs are 16 bits, and subscriptions need some
		return bad("the window of %d exceeds 60000", c.Window)
	}
	setDefault(&c.BufferSize, 4096)
	setDefault(&c.MaxPacket, wire.MaxPacket)
	setDefault(&c.Backoff.Min, 250*time.Millisecond)
	setDefault(&c.Backoff.Max, max(30*time.Second, c.Backoff.Min))
	if c.Backoff.Min > c.Backoff.Max {
		return bad("the shortest back-off %v exceeds the longest %v", c.Backoff.Min, c.Backoff.Max)
	}
	setDefault(&c.KeepAlive, 30*time.Second)
	if c.KeepAlive%time.Second != 0 || c.KeepAlive > 65535*time.Second {
		return bad("the keep-alive %v is not a number of whole seconds up to 65535", c.KeepAlive)
	}
	setDefault(&c.ConnectTimeout, 10*time.Second)
	setDefault(&c.WriteTimeout, 5*time.Second)
	setDefault(&c.AckTimeout, 30*time.Second)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c, nil
}

func setDefault[T int | time.Duration](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}

// pause returns a random pause before attempt n of a back-off, counted from 0.
func (c *Config) pause(b Backoff, n int) time.Duration {
	if c.Rand == nil {
		return rand.N(b.ceiling(n) + 1)
	}
	return time.Duration(c.Rand.Int64N(int64(b.ceiling(n)) + 1))
}

var errRunTwice = errors.New("link: Run was called twice")
