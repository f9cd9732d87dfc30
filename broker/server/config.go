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

// GCPercent is the garbage collector's setting for a process that is only a broker, unless $GOGC is set. Live memory is
// small, about 12 KB a client, and the messages of a burst are garbage at once. When 10,000 clients connect at the same
// time, the setting saves a seventh of the processor time.
const GCPercent = 400

// Config is the configuration of a broker.
type Config struct {
	// Unit is the name of the unit whose topics the broker serves. Required.
	Unit string

	// Listeners are the listeners to serve; there may be none. If New succeeds, the broker owns them, and Close closes
	// them.
	Listeners []net.Listener

	// Auth returns the identity of a client. An error refuses the connection; an event has it, and the client does not
	// get it. Auth is called in the client's goroutine and has Limits.FirstReadTimeout.
	//
	// Nil: the identity is the user name, which the client ID must equal (acl.IdentityOf). Nothing proves it: over TCP
	// any process that reaches the listener can claim to be any node, so the listener has to be on loopback or behind
	// TLS with client certificates. Roles other than node need a password from Passwords.
	Auth func(ConnectInfo) (acl.Identity, error)

	// Verify is called before Auth. It returns the identity that the client's certificate proves, such as "node/n1"; ""
	// if it proves none; or an error, which refuses the connection. If it proves one, client ID and user name must be
	// that, and Auth is not called. Nil: no certificate proves an identity.
	Verify func(ConnectInfo) (proved string, err error)

	// Passwords are passwords by user name, for the default Auth. "controller", "cloud/x" and "operator/x" need one;
	// "node/x" needs it if there is an entry. After ten wrong ones from one address, or a hundred for one user, further
	// ones are refused unseen, but for two a minute, or one a second. Nil: only nodes can connect.
	Passwords map[string]string

	// Log gets events and errors for the administrator. Nil: nothing is logged.
	Log *zap.Logger

	// Limits are the limits of clients. The zero value suits a controller's embedded broker.
	Limits Limits

	// OnEvent gets every event, in order, one call at a time, from a goroutine of the broker. It must not block: events
	// wait meanwhile, and when 1,024 wait, further ones are discarded and counted in Stats.EventsLost. It may call the
	// Server, but not Close. Nil: events are only logged.
	OnEvent func(Event)
}

// ConnectInfo is what is known about a client from its CONNECT and its connection.
type ConnectInfo struct {
	ClientID string
	Username string
	Password []byte
	Remote   net.Addr
	TLS      *tls.ConnectionState // nil without TLS
}

// Limits are the limits of one client, or of all. In each field zero means the default in its comment; a negative value
// is an error.
type Limits struct {
	// MaxPacket is the largest packet in bytes; a client that sends a larger one is disconnected. Default
	// wire.MaxPacket, in which every message of wire.MaxPayload fits.
	MaxPacket int

	// MaxConnect is the largest CONNECT in bytes. A longer one, or another first packet, ends the connection before
	// memory is allocated for it. Default 16 KiB: enough for names, a token and a last will.
	MaxConnect int

	// PendingPerClient is the most messages in one client's queue; a further one is dropped and reported. Default 64: a
	// node has one document of each kind, and a place takes 8 bytes for each client. A client that subscribes to many
	// nodes needs more, see Collectors.
	PendingPerClient int

	// PendingBytes is the most buffered bytes for a client that reads too slowly; with more it is disconnected.
	// Retained messages for one SUBSCRIBE that exceed it are dropped and reported. Default 4 MiB, 16 of the largest
	// packets.
	PendingBytes int

	// Inflight is the most unacknowledged QoS 1 messages to a client; a further one is dropped and reported. All
	// retained messages for one SUBSCRIBE count at once, because acknowledgements are read only after they are written.
	// Default 64.
	Inflight int

	// ReceiveMaximum is the most QoS 2 messages of one client that are not completed. Default 64.
	ReceiveMaximum int

	// FirstReadTimeout is the most time until a connection has sent its CONNECT, with TLS, from when it is served.
	// Default 5 s: enough for slow networks, and short enough that idle connections are few.
	FirstReadTimeout time.Duration

	// WriteTimeout is the most time for writing 16 KiB to a client; after that it is disconnected. Default 5 s. Nothing
	// else waits meanwhile: the bytes are buffered, up to PendingBytes.
	WriteTimeout time.Duration

	// MaxSilence is the most time without a packet from a client that has a longer keep-alive or none; others have 1.5
	// times their keep-alive. Default 1 h: a client that has failed is noticed, and one without a keep-alive has to
	// reconnect.
	MaxSilence time.Duration

	// Strangers is the most connections that are served at once before their CONNECT is accepted; of these,
	// StrangersEach come from one IPv4 address or one IPv6 network of 64 bits. Further ones wait for a place, at next
	// to no memory, and the networks take turns. Defaults 256 and 64: with TLS one can cost 100 KiB.
	Strangers     int
	StrangersEach int

	// MaxClients is the most connections; further ones are closed. Default 50,000, which is usually more than the file
	// descriptors of a process.
	MaxClients int

	// MaxSubscriptions is the most filters of one client. Default 2,048: a controller has four for each of 256 shards.
	MaxSubscriptions int

	// ExtraKinds is the most retained reports of a node of kinds that the contract does not have, so that a faulty node
	// cannot fill the memory. Default 16.
	ExtraKinds int
}

// Bounds on connections that wait to be served: how many; how long those that are served are not asked to make room;
// and how long one waits. Nobody who comes in earnest waits longer: it tries again.
const (
	maxWaiting        = 8192
	strangersPatience = 2 * time.Second
	longestWait       = 30 * time.Second
)

// Collectors returns the limits for a broker to which a controller connects over a socket: with one SUBSCRIBE it gets
// the retained messages of tens of thousands of nodes. They take 16 KiB more memory for each client, and up to 64 MiB
// for one that does not read.
func Collectors() Limits {
	return Limits{PendingPerClient: 2048, PendingBytes: 64 << 20, Inflight: 60_000, MaxSubscriptions: 4096}
}

// withDefaults returns l with defaults in place of zeros, or an error.
func (l Limits) withDefaults() (Limits, error) {
	counts := []*int{&l.MaxPacket, &l.MaxConnect, &l.PendingPerClient, &l.PendingBytes, &l.Inflight, &l.ReceiveMaximum,
		&l.MaxClients, &l.MaxSubscriptions, &l.ExtraKinds, &l.Strangers,
		&l.StrangersEach}
	for i, def := range []int{wire.MaxPacket, 16 << 10, 64, 4 << 20, 64, 64, 50_000, 2048, 16, 256, 64} {
		if *counts[i] = cmp.Or(*counts[i], def); *counts[i] < 0 {
			return l, fmt.Errorf("negative limit %d", *counts[i])
		}
	}
	times := []*time.Duration{&l.FirstReadTimeout, &l.WriteTimeout, &l.MaxSilence}
	for i, def := range []time.Duration{5 * time.Second, 5 * time.Second, time.Hour} {
		if *times[i] = cmp.Or(*times[i], def); *times[i] < 0 {
			return l, fmt.Errorf("negative limit %s", *times[i])
		}
	}
	if l.Inflight > 65535 || l.ReceiveMaximum > 65535 {
		return l, errors.New("more messages in flight than MQTT has packet IDs")
	}
	return l, nil
}

// validate returns what is wrong with c.
func (c Config) validate() error {
	if !topic.ValidName(c.Unit) {
		return fmt.Errorf("bad unit name %.80q", c.Unit)
	}
	for _, l := range c.Listeners {
		if l == nil {
			return errors.New("nil listener")
		}
	}
	for name, password := range c.Passwords {
		if _, err := acl.IdentityOf(name, name); err != nil {
			return fmt.Errorf("password entry: %w", err)
		}
		if password == SamplePassword {
			return fmt.Errorf("the password of %s is still that of the sample, which everybody knows", name)
		}
	}
	return nil
}
