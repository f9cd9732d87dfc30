package attack

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/broker/acl"
	"tandem.internal/shared/topic"
	"tandem.internal/testenv/rawmqtt"
)

// The outcomes that more than one attempt comes to.
const (
	discarded = "acknowledged and discarded" // at the embedded broker: and told as denied-publish
	closed    = "the connection was closed"
	denied    = "SUBACK 128"
	silent    = "granted, and nothing is heard" // mosquitto asks its rules at each delivery instead
	unsaid    = "a session; the will is never said"
	itself    = "a session as itself; as the other it is discarded"
)

// try is an attempt that is being made.
type try struct {
	*unit
	t      *testing.T
	poison string
	number byte // in the table
	since  int  // how much of the log was there before it
	marks  int
	later  []func() // what is left to see when the configuration has arrived
}

// why puts the end of a connection, or the failure of a handshake, into words.
func why(err error) string {
	var op *net.OpError
	var refused rawmqtt.Refused
	switch {
	case errors.As(err, &refused):
		return fmt.Sprintf("CONNACK %d", byte(refused))
	case errors.As(err, &op) && op.Op == "remote error":
		return op.Err.Error() // a TLS alert: "tls: expired certificate"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return closed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "nothing came of it in time"
	}
	return err.Error()
}

// handshake shows certificates and says nothing: in TLS 1.3 the other side judges them afterwards,
// and its alert would be lost if something that it does not read came after them.
func (a *try) handshake(at string, conf *tls.Config) string {
	c, err := rawmqtt.Open(at, conf)
	if err != nil {
		return why(err)
	}
	defer c.Close()
	if err = c.SetReadDeadline(time.Now().Add(5 * time.Second)); err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "TLS LETS IT IN"
	}
	return why(err)
}

// hello connects with somebody's certificate under names of its choice.
func (a *try) hello(id string, h rawmqtt.Hello) (*rawmqtt.Client, string) {
	c, err := rawmqtt.Dial(a.at, a.as(id), h)
	if err != nil {
		return nil, why(err)
	}
	a.t.Cleanup(c.Leave)
	return c, ""
}

// as is somebody's honest session, for dishonest use.
func (a *try) session(id string) *rawmqtt.Client {
	a.t.Helper()
	c, bad := a.hello(id, rawmqtt.Hello{ClientID: id, User: id})
	if bad != "" {
		a.t.Fatalf("%s: %s", id, bad)
	}
	return c
}

// mark shows that everything which the client has sent before it has been dealt with.
func (a *try) mark(c *rawmqtt.Client, name string) error {
	a.marks++
	text := fmt.Sprintf("mark %s %d", a.t.Name(), a.marks)
	err := c.Publish(name, text, false)
	for _, w := range a.witnesses {
		if err == nil {
			err = w.Hears(name, text)
		}
	}
	return err
}

// heard says where the witnesses have heard the poison, "" if nowhere.
func (a *try) heard() string {
	for _, w := range a.witnesses {
		for _, m := range w.Heard() {
			if strings.Contains(m.Payload, a.poison) {
				return "DELIVERED ON " + m.Topic
			}
		}
	}
	return ""
}

// told waits until the embedded broker has told of a refusal; others tell nobody but their log.
func (a *try) told(event, client, name string) bool {
	if a.kind != embedded {
		return true
	}
	name = strings.ToValidUTF8(name[:min(len(name), acl.MaxFilter)], "�")
	return eventually(func() bool {
		for _, e := range a.Logs.All()[a.since:] {
			if e.Message != "broker: "+event {
				continue
			}
			m := e.ContextMap()
			if m["client"] == client && (name == "" || strings.HasPrefix(fmt.Sprint(m["topic"]), name)) {
				return true
			}
		}
		return false
	})
}

// says publishes the poison on a topic as somebody, once plain and once to be kept.
func (a *try) says(id, name string) string {
	c := a.session(id)
	for _, retain := range []bool{false, true} {
		if err := c.Publish(name, a.poison, retain); err != nil {
			if bad := a.heard(); bad != "" {
				return bad
			}
			return why(err)
		}
	}
	return a.verdict(c, id, name)
}

// own is a topic that an identity may write, which says nothing to anybody.
func own(id string) string {
	switch role, name, _ := strings.Cut(id, "/"); role {
	case "node":
		return of(name).Reply()
	case "cloud":
		return topic.ForInbox(unitName, "nothing")
	}
	return "" // an operator has none
}

// verdict is what came of a publish on a topic.
func (a *try) verdict(c *rawmqtt.Client, id, name string) string {
	if mine := own(id); mine != "" {
		if err := a.mark(c, mine); err != nil {
			return "the session did not survive: " + why(err)
		}
	}
	if bad := a.heard(); bad != "" {
		return bad
	}
	if !a.told("denied-publish", id, name) {
		return "acknowledged and discarded, and nobody was told"
	}
	return discarded
}

// rules are those of the unit, to tell what may be heard.
var rules = acl.Rules{Unit: unitName}

// listens subscribes as somebody; when the configuration has arrived, nothing may have been heard
// that is not its own.
func (a *try) listens(who acl.Identity, filter string) string {
	c := a.session(who.String())
	code, err := c.Subscribe(1, filter)
	if err != nil {
		return why(err)
	}
	a.later = append(a.later, func() {
		if _, err := c.Subscribe(0, topic.ForController(unitName)); err != nil {
			a.t.Error(err)
		}
		for _, m := range c.Heard() {
			if !rules.For(who).Subscribe(m.Topic) {
				a.t.Errorf("subscribed to %.80q, it hears %.80q", filter, m.Topic)
			}
		}
	})
	if code == rawmqtt.Failure {
		if !a.told("denied-subscribe", who.String(), filter) {
			return "SUBACK 128, and nobody was told"
		}
		return denied
	}
	return silent
}

// wills says a last will as somebody, and dies.
func (a *try) wills(id, name string) string {
	c, bad := a.hello(id, rawmqtt.Hello{ClientID: id, User: id, Will: &rawmqtt.Will{Topic: name, Payload: a.poison,
		Retain: true}})
	if bad != "" {
		return bad
	}
	c.Drop()
	if !a.told("disconnected", id, "") {
		return "the broker has not noticed its end"
	}
	// A second will, which is allowed, is heard after the first one would have been.
	a.marks++
	live, text := own(id), fmt.Sprintf("mark %s %d", a.t.Name(), a.marks)
	c, bad = a.hello(id, rawmqtt.Hello{ClientID: id, User: id, Will: &rawmqtt.Will{Topic: live, Payload: text}})
	if bad != "" {
		return bad
	}
	c.Drop()
	for _, w := range a.witnesses {
		if err := w.Hears(live, text); err != nil {
			return why(err)
		}
	}
	if bad := a.heard(); bad != "" {
		return bad
	}
	if !a.told("denied-publish", id, name) {
		return "discarded, and nobody was told"
	}
	return unsaid
}

// retained reports whether a topic has something retained.
func retained(name string) func([]rawmqtt.Message) bool {
	return func(all []rawmqtt.Message) bool {
		for _, m := range all {
			if m.Topic == name && m.Retained && m.Payload != "" {
				return true
			}
		}
		return false
	}
}
