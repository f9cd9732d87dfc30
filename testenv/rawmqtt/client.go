// Package rawmqtt owns an MQTT 3.1.1 client that says what it is told to, right or wrong, because a
// client library would not send what an attacker does. Tests of what brokers refuse use it.
//
// It guarantees to tell exactly what the broker answered, and to end every wait. It must not mend,
// repeat or reconnect anything.
package rawmqtt

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Patience is how long a client waits for what must happen.
const Patience = time.Minute

// Message is one that the client has received.
type Message struct {
	Topic, Payload string
	Retained       bool
}

// Will is a last will, of QoS 1.
type Will struct {
	Topic, Payload string
	Retain         bool
}

// Hello is what a client says of itself in CONNECT.
type Hello struct {
	ClientID, User string // no user name is sent if it is empty
	Password       string // goes with User; "": none is sent
	Will           *Will
	Name           string // of the protocol; "": MQTT
	Level          byte   // of the protocol; 0: 4, which is MQTT 3.1.1
}

// Refused is a CONNACK that says no; it is an error.
type Refused byte

func (r Refused) Error() string { return fmt.Sprintf("refused by CONNACK: %d", byte(r)) }

// Client is one session.
type Client struct {
	conn net.Conn

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced with every packet
	messages []Message
	answers  map[uint16][]byte // body of PUBACK or SUBACK, by packet ID
	id       uint16
	err      error // why the connection has ended
}

// Dial connects over TLS and begins a session.
func Dial(address string, config *tls.Config, h Hello) (*Client, error) {
	conn, err := Open(address, config)
	if err != nil {
		return nil, err
	}
	return New(conn, h)
}

// Open connects over TLS and says nothing yet.
func Open(address string, config *tls.Config) (net.Conn, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: Patience}, Config: config}
	return d.Dial("tcp", address)
}

// New begins a session on a connection, which is closed if there will be none.
func New(conn net.Conn, h Hello) (*Client, error) {
	c := &Client{conn: conn, changed: make(chan struct{}), answers: map[uint16][]byte{}}
	r := bufio.NewReader(conn)
	err := conn.SetReadDeadline(time.Now().Add(Patience))
	if err == nil {
		err = c.Write(Connect(h))
	}
	var head byte
	var body []byte
	if err == nil {
		head, body, err = read(r)
	}
	switch {
	case err != nil:
	case head != 0x20 || len(body) != 2:
		err = fmt.Errorf("not a CONNACK: %x %x", head, body)
	case body[1] != 0:
		err = Refused(body[1])
	default:
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go c.listen(r)
	return c, nil
}

// Connect is a CONNECT packet for a clean session. It asks for no keep-alive: some clients listen for minutes and say
// nothing, and a broker would end their sessions.
func Connect(h Hello) []byte {
	name, level := h.Name, h.Level
	if name == "" {
		name = "MQTT"
	}
	if level == 0 {
		level = 4
	}
	flags := byte(0x02)
	body := Text(nil, name)
	at := len(body) + 1
	body = append(body, level, 0, 0, 0)
	if level == 5 {
		body = append(body, 0) // no properties
	}
	body = Text(body, h.ClientID)
	if w := h.Will; w != nil {
		flags |= 0x04 | 0x08
		if w.Retain {
			flags |= 0x20
		}
		if level == 5 {
			body = append(body, 0)
		}
		body = Text(Text(body, w.Topic), w.Payload)
	}
	if h.User != "" {
		flags |= 0x80
		body = Text(body, h.User)
	}
	if h.Password != "" {
		flags |= 0x40
		body = Text(body, h.Password)
	}
	body[at] = flags
	return Packet(0x10, body)
}

// Packet puts a head and a length before a body.
func Packet(head byte, body []byte) []byte {
	return append(binary.AppendUvarint([]byte{head}, uint64(len(body))), body...)
}

// Text appends a string with its length, as it stands.
func Text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// Write sends bytes as they are.
func (c *Client) Write(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// maxPacket is more than any broker here would send.
const maxPacket = 16 << 20

func read(r *bufio.Reader) (head byte, body []byte, err error) {
	if head, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(r)
	if err == nil && n > maxPacket {
		err = fmt.Errorf("a packet of %d bytes", n)
	}
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, n)
	_, err = io.ReadFull(r, body)
	return head, body, err
}

// listen reads until the connection ends.
func (c *Client) listen(r *bufio.Reader) {
	for {
		head, body, err := read(r)
		if err == nil && head>>4 == 3 {
			err = c.take(head, body)
		}
		c.mu.Lock()
		if len(body) >= 2 && (head>>4 == 4 || head>>4 == 9) {
			c.answers[binary.BigEndian.Uint16(body)] = body[2:]
		}
		c.err = err
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *Client) take(head byte, body []byte) error {
	qos := head >> 1 & 3
	least := 2
	if qos > 0 {
		least = 4
	}
	if len(body) < least || len(body) < least+int(binary.BigEndian.Uint16(body)) {
		return errors.New("short PUBLISH")
	}
	n := 2 + int(binary.BigEndian.Uint16(body))
	name, rest := string(body[2:n]), body[n:]
	if qos > 0 {
		if err := c.Write(Packet(0x40, rest[:2])); err != nil {
			return err
		}
		rest = rest[2:]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, Message{name, string(rest), head&1 == 1})
	return nil
}

// Until waits until ok, which is called with everything heard so far.
func (c *Client) Until(what string, ok func([]Message) bool) error {
	return c.within(Patience, what, ok)
}

var errLate = errors.New("in vain")

func (c *Client) within(patience time.Duration, what string, ok func([]Message) bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		c.mu.Lock()
		found, err, changed := ok(c.messages), c.err, c.changed
		c.mu.Unlock()
		switch {
		case found:
			return nil
		case err != nil:
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("waited %v for %s, %w", patience, what, errLate)
		}
	}
}

// Finds waits for what the broker keeps, and subscribes to filter each second for it: nats-server
// passes a message on, and acknowledges it, before all who subscribe are sure to get it.
func (c *Client) Finds(filter, what string, ok func([]Message) bool) error {
	return c.Insists(what, func() error {
		code, err := c.Subscribe(0, filter)
		if err == nil && code == Failure {
			err = fmt.Errorf("subscription to %s is refused", filter)
		}
		return err
	}, ok)
}

// Insists does something each second until a message comes of it.
func (c *Client) Insists(what string, do func() error, ok func([]Message) bool) error {
	for end := time.Now().Add(Patience); ; {
		if err := do(); err != nil {
			return err
		}
		if err := c.within(time.Second, what, ok); !errors.Is(err, errLate) || time.Now().After(end) {
			return err
		}
	}
}

// Hears waits for a message.
func (c *Client) Hears(topic, payload string) error {
	return c.Until(fmt.Sprintf("%q on %s", payload, topic),
		func(all []Message) bool { return Has(all, topic, payload) })
}

// FindsMessage is Finds for one message.
func (c *Client) FindsMessage(filter, topic, payload string) error {
	return c.Finds(filter, fmt.Sprintf("%q on %s", payload, topic),
		func(all []Message) bool { return Has(all, topic, payload) })
}

// Has reports whether a message is among others.
func Has(all []Message, topic, payload string) bool {
	for _, m := range all {
		if m.Topic == topic && m.Payload == payload {
			return true
		}
	}
	return false
}

// Heard is everything so far.
func (c *Client) Heard() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Message(nil), c.messages...)
}

// answer waits for the answer to a packet, or for the end of the connection.
func (c *Client) answer(id uint16) (body []byte, err error) {
	err = c.Until("an answer", func([]Message) bool {
		b, ok := c.answers[id] // under the lock of Until
		body = b
		return ok
	})
	return body, err
}

// Publish sends with QoS 1 and waits for the PUBACK, which says nothing about permission.
func (c *Client) Publish(topic, payload string, retain bool) error {
	head := byte(0x32)
	if retain {
		head |= 1
	}
	c.id++
	if err := c.Write(Packet(head, append(binary.BigEndian.AppendUint16(Text(nil, topic), c.id),
		payload...))); err != nil {
		return err
	}
	_, err := c.answer(c.id)
	return err
}

// Send sends with QoS 0 and does not wait.
func (c *Client) Send(topic, payload string) error {
	return c.Write(Packet(0x30, append(Text(nil, topic), payload...)))
}

// Failure is the code of a SUBACK that says no.
const Failure = 0x80

// Subscribe returns the broker's answer: the QoS granted, or Failure.
func (c *Client) Subscribe(qos byte, filter string) (code byte, err error) {
	c.id++
	if err := c.Write(Packet(0x82, append(Text(binary.BigEndian.AppendUint16(nil, c.id), filter), qos))); err != nil {
		return 0, err
	}
	body, err := c.answer(c.id)
	if err == nil && len(body) != 1 {
		err = fmt.Errorf("a SUBACK of %x", body)
	}
	if err != nil {
		return 0, err
	}
	return body[0], nil
}

// Ended waits until the broker has ended the session; the error says that it has not.
func (c *Client) Ended() error {
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		c.mu.Lock()
		err, changed := c.err, c.changed
		c.mu.Unlock()
		if err != nil {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("after %v the session goes on", Patience)
		}
	}
}

// Drop ends the connection without a word, so that the will speaks.
func (c *Client) Drop() {
	if t, ok := c.conn.(*tls.Conn); ok {
		_ = t.NetConn().Close() // the abrupt end is the point
	} else {
		_ = c.conn.Close()
	}
	_ = c.Until("the end", func([]Message) bool { return false })
}

// Leave says goodbye.
func (c *Client) Leave() {
	_ = c.Write(Packet(0xe0, nil)) // the server may have ended it already
	c.Drop()
}
