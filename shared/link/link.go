// Package link owns the sessions of the controller and of node agents with a broker. It is the only
// importer of the MQTT client.
//
// A link connects, subscribes, and calls its Handler. When the session ends it calls the Handler
// again and, after a jittered and capped pause, starts another one with a new client. Sessions are
// clean: the link has no queue that survives a session. Retained messages, and requests to send again,
// recover what was lost. A completed Publish proves nothing about the other end.
//
// Two implementations: Dial, over MQTT 3.1.1, and NewLocal, inside the process of an embedded
// broker, whose intake no slow-consumer queue can drop from.
package link

import (
	"context"
	"errors"
)

// ErrDown is returned by Publish while no session is up, and when the session ends before the
// message could be handed to the broker.
var ErrDown = errors.New("no session with the broker")

// ErrRefused is in the error of Down when the broker is there and does not let this client in.
var ErrRefused = errors.New("refused")

// ErrUnavailable is in the error of Down, beside ErrRefused, when the broker says that it cannot serve now.
var ErrUnavailable = errors.New("not available")

// Message is one received publish. Payload belongs to the receiver.
type Message struct {
	Topic    string
	Payload  []byte
	Retained bool // sent by the broker because of a subscription, not because it was just published
}

// Handler receives the events of a link. Up and Down are called in turn, from one goroutine. Message is
// called from many goroutines at once, in any order, from the moment at which a filter is granted, so
// possibly before Up. The message is acknowledged to the broker when the call
// returns, so a receiver that must not lose it makes it durable first. A call may outlast its
// session. Every method may Publish, but Up and Down must not wait for what only another Handler
// call brings about.
type Handler interface {
	// Up begins a session: connected, and every filter granted. session counts the attempts of
	// this Run from 1, so it rises but may skip: a last will of an attempt that failed halfway
	// must not look like one of the session that followed.
	Up(session uint64)
	// Down ends the session that Up began, also when Run's ctx ends, or reports a connection
	// attempt that failed (session 0). err says why in words a person can act on.
	Down(session uint64, err error)
	// Message hands over one received message.
	Message(Message)
}

// Link is a connection to the broker that lasts while Run runs.
type Link interface {
	// Run keeps sessions going until ctx ends, then publishes the Goodbye messages of its
	// configuration, disconnects, and returns after every Handler call has returned. It is
	// called once; ending with ctx is no error.
	Run(ctx context.Context) error
	// Publish hands a QoS 1 message to the current session. It waits while the window of
	// unacknowledged messages is full, and returns when the message is on its way: ErrDown or
	// ctx's error if it is not. A topic with a wildcard, or a packet larger than the link's limit,
	// is an error of its own. The payload must not be changed afterwards. Safe for concurrent use.
	Publish(ctx context.Context, topic string, payload []byte, retain bool) error
}

// Retainer is a Link that can look up what the broker retains, at no cost: the local one.
type Retainer interface {
	// Retained returns the retained payload of a topic.
	Retained(topic string) (payload []byte, ok bool)
}

// Subscriber is a Link whose subscriptions can change during a session: the dialled one.
type Subscriber interface {
	// Subscribe asks for more filters in the current session only and returns when the broker
	// has granted them.
	Subscribe(ctx context.Context, filters ...string) error
	// Unsubscribe ends them.
	Unsubscribe(ctx context.Context, filters ...string) error
}
