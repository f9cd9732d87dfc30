package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// GCPercent is the collector's setting that suits a process which is a broker only, unless $GOGC
// says otherwise. What is alive is small, some 12 KB a client, and the messages of a burst are garbage
// at once: with 10,000 clients coming back at the same time it saves a seventh of the processor time.
const GCPercent = 400

// Config says what a broker serves and to whom.
type Config struct {
	// Unit is the unit whose topics exist here. Required.
	Unit string

	// Listeners are where clients come in; none is fine for a broker that only publishes to
	// itself. New takes them over when it succeeds: Close closes them.
	Listeners []net.Listener

	// Auth decides who a client is; an error refuses the connection and is reported, never sent.
	// It runs in the client's goroutine within FirstReadTimeout. Nil: the user name and the equal
	// client ID are the identity (acl.IdentityOf). That is a claim, not proof: over plain TCP any
	// local process can claim any node, so listen on loopback or put TLS with client certificates
	// in front. The other roles are let in only with a password from Passwords.
	Auth func(ConnectInfo) (acl.Identity, error)

	// Verify looks at a client before Auth does: it returns who the client has proved to be by its
	// certificate, "node/n1", "" if it has proved nothing, or an error to refuse it. Client ID and
	// user name must both be what was proved, and Auth is not asked then. It runs like Auth. Nil:
	// nobody proves anything.
	Verify func(ConnectInfo) (proved string, err error)

	// Passwords by user name, for the default Auth: needed for "controller", "cloud/x" and
	// "operator/x", asked of "node/x" where there is an entry. Nil: nodes only.
	Passwords map[string]string

	// Log takes what an administrator should see. Nil: nothing is logged.
	Log *zap.Logger

	// Limits bound what a client can cost. The zero value is a good choice for a controller's
	// embedded broker.
	Limits Limits

	// OnEvent receives every event, one call at a time and in order, from the broker's own
	// goroutine. It must not block: while it does, events queue up, and beyond 1,024 they are
	// counted in Stats.EventsLost instead. It may call the server, except for Close. Nil: none.
	OnEvent func(Event)
}

// ConnectInfo is what a client says of itself in CONNECT, and where it comes from.
type ConnectInfo struct {
	ClientID string
	Username string
	Password []byte
	Remote   net.Addr
	TLS      *tls.ConnectionState // nil without TLS
}

// Limits bound what one client, or all of them, can cost the broker. In every field zero means
// the default that its comment names and explains; negative values are an error.
type Limits struct {
	// MaxPacket is the largest packet in bytes. Default wire.MaxPacket + 1 KiB: both ends refuse
	// above wire.MaxPacket with a clear error, and the broker's limit, which can only cut the
	// connection, stands just behind.
	MaxPacket int

	// MaxConnect is the largest CONNECT in bytes; a longer one, or anything else in its place, is
	// cut before memory is set aside for it. Default 16 KiB: names, a token and a last will.
	MaxConnect int

	// PendingPerClient is how many messages wait in one client's queue; the next is dropped and
	// reported. Default 64: a node has one document of each kind, and each slot costs 8 bytes of
	// every client. A client that collects from many nodes needs more, see Collectors.
	PendingPerClient int

	// PendingBytes is how much may wait for a client that reads slower than it is written to;
	// beyond it the client is cut. What one SUBSCRIBE finds retained beyond it is dropped and
	// reported. Default 4 MiB, 16 of the largest packets.
	PendingBytes int

	// Inflight is how many QoS 1 messages a client may leave unacknowledged; the next is dropped
	// and reported. Retained messages that a SUBSCRIBE matches count at once, for the client's
	// acknowledgements are read only after them. Default 64.
	Inflight int

	// ReceiveMaximum is how many QoS 2 messages of one client may be open. Default 64.
	ReceiveMaximum int

	// FirstReadTimeout is how long a connection may take to complete its CONNECT, TLS included.
	// Default 10 s: slow links make it, idle connections do not pile up.
	FirstReadTimeout time.Duration

	// WriteTimeout is how long 16 KiB may take on their way to a client before it is cut. Default
	// 5 s. Nobody waits for it: a write that cannot go out at once waits in PendingBytes.
	WriteTimeout time.Duration

	// MaxSilence bounds how long a client may send nothing, for those that ask for a longer
	// keep-alive or for none; others are cut after 1.5 times their keep-alive. Default 1 h: a
	// client that left without a word is noticed, and one without keep-alive pays a reconnect.
	MaxSilence time.Duration

	// MaxClients is how many connections there may be; more are closed as they come. Default
	// 50,000, more than one process has file descriptors for as a rule.
	MaxClients int

	// MaxSubscriptions is how many filters one client may hold. Default 2,048: a controller holds
	// four for each of 256 shards.
	MaxSubscriptions int

	// ExtraKinds is how many retained reports of kinds that the wire does not name a node may
	// have, so that a faulty one cannot fill the memory with them. Default 16.
	ExtraKinds int
}

// Collectors returns the limits for a broker that a controller joins over a socket: room for
// what tens of thousands of nodes have retained, asked for in one go. It costs 16 KiB more memory
// for each client, and lets one that stops reading hold 64 MiB until it is cut.
func Collectors() Limits {
	return Limits{PendingPerClient: 2048, PendingBytes: 64 << 20, Inflight: 60_000, MaxSubscriptions: 4096}
}

func (l Limits) withDefaults() (Limits, error) {
	counts := []*int{&l.MaxPacket, &l.MaxConnect, &l.PendingPerClient, &l.PendingBytes, &l.Inflight, &l.ReceiveMaximum,
		&l.MaxClients, &l.MaxSubscriptions, &l.ExtraKinds}
	for i, def := range []int{wire.MaxPacket + 1<<10, 16 << 10, 64, 4 << 20, 64, 64, 50_000, 2048, 16} {
		if *counts[i] = cmp.Or(*counts[i], def); *counts[i] < 0 {
			return l, fmt.Errorf("negative limit %d", *counts[i])
		}
	}
	times := []*time.Duration{&l.FirstReadTimeout, &l.WriteTimeout, &l.MaxSilence}
	for i, def := range []time.Duration{10 * time.Second, 5 * time.Second, time.Hour} {
		if *times[i] = cmp.Or(*times[i], def); *times[i] < 0 {
			return l, fmt.Errorf("negative limit %s", *times[i])
		}
	}
	if l.Inflight > 65535 || l.ReceiveMaximum > 65535 {
		return l, errors.New("more messages in flight than MQTT has packet IDs")
	}
	return l, nil
}

func (c Config) validate() error {
	if !topic.ValidName(c.Unit) {
		return fmt.Errorf("bad unit name %.80q", c.Unit)
	}
	for _, l := range c.Listeners {
		if l == nil {
			return errors.New("nil listener")
		}
	}
	for name := range c.Passwords {
		if _, err := acl.IdentityOf(name, name); err != nil {
			return fmt.Errorf("password entry: %w", err)
		}
	}
	return nil
}
