// Package link owns the sessions of the controller and of node agents with a broker. It is the only
// importer of the MQTT client.
//
// A link connects, subscribes, and calls its Handler. When a session ends, the link calls the Handler again and
// starts another session after a random pause of limited length. Sessions are clean (MQTT 3.1.1, section 3.1.2.4):
// no queue survives a session. Retained messages, and requests to send again, recover what was lost. A Publish that
// has returned does not mean that a receiver has the message.
//
// There are two implementations: Dial, over MQTT 3.1.1, and NewLocal, in the process of an embedded broker.
package link

import (
	"context"
	"errors"
)

// ErrDown is returned by Publish while no session is up, and when the session ends before the message was sent.
var ErrDown = errors.New("no session with the broker")

// ErrRefused is wrapped by the error of Handler.Down when the broker has refused the CONNECT of this client.
var ErrRefused = errors.New("refused")

// ErrUnavailable is wrapped, beside ErrRefused, when the reason is CONNACK code 3, server unavailable (MQTT 3.1.1,
// section 3.2.2.3).
var ErrUnavailable = errors.New("not available")

// Message is one received publish. The receiver may keep and change Payload.
type Message struct {
	Topic    string
	Payload  []byte
	Retained bool // sent by the broker because of a subscription, not because it was just published
	TooLong  int  // above 0: the payload had so many bytes, did not fit a packet of Config.MaxPacket, and is not here
}

// Handler receives the events of a link.
//
// Up and Down are called by one goroutine. Message is called by many goroutines at once, in any order, as soon as the
// broker has granted a filter, which may be before Up. The message is acknowledged to the broker when Message returns:
// a receiver that must not lose it saves it before. A call of Message may last longer than its session.
//
// Every method may call Publish. Up and Down must not wait for another call of the Handler.
type Handler interface {
	// Up reports that a session has begun: it is connected, and every filter is granted. session is the number of
	// the attempt, counted from 1 in this Run. Attempts that fail are counted too, so that the last will of a
	// failed attempt differs from that of the next session.
	Up(session uint64)
	// Down reports that the session of the last Up has ended, for whatever reason, or that an attempt to connect
	// has failed (session 0). err is the reason, in words for people.
	Down(session uint64, err error)
	// Message receives one message.
	Message(Message)
}

// Link is a connection to the broker that lasts while Run runs.
type Link interface {
	// Run opens one session after the other until ctx ends. Then it publishes the Goodbye messages of its
	// configuration, disconnects, and returns nil after every Handler call has returned. It is called once; a
	// second call is an error.
	Run(ctx context.Context) error
	// Publish sends a message with QoS 1 in the current session. It waits while the window of unacknowledged
	// messages is full, and does not wait for the acknowledgement. If the message was not sent, the error is
	// ErrDown, ctx's error, or one about a topic or size that is not allowed. The payload must not be changed
	// afterwards. Publish is safe for concurrent use.
	Publish(ctx context.Context, topic string, payload []byte, retain bool) error
}

// Retainer is a Link that can look up retained messages in the broker: Local.
type Retainer interface {
	// Retained returns the retained payload of a topic.
	Retained(topic string) (payload []byte, ok bool)
}

// Cutter is a Link whose session its user may end: Dialled.
type Cutter interface{ Cut(why error) }

// Subscriber is a Link whose subscriptions can change during a session: Dialled.
type Subscriber interface {
	// Subscribe adds filters to the current session only, and returns when the broker has granted them.
	Subscribe(ctx context.Context, filters ...string) error
	// Unsubscribe ends the subscriptions to filters in the current session.
	Unsubscribe(ctx context.Context, filters ...string) error
}
