package brokersacl

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

type message struct {
	topic, payload string
	retained       bool
}

// client is an MQTT 3.1.1 client that says what it is told to, right or wrong.
type client struct {
	conn net.Conn

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced with every packet
	messages []message
	answers  map[uint16][]byte // body of PUBACK or SUBACK, by packet ID
	id       uint16
	err      error // why the connection has ended
}

// will is a last will.
type will struct {
	topic, payload string
	retain         bool
}

// errRefused is a CONNACK that says no.
var errRefused = errors.New("refused by CONNACK")

func dial(address string, config *tls.Config, clientID, user string, w *will) (*client, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: config}
	conn, err := d.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, changed: make(chan struct{}), answers: map[uint16][]byte{}}
	flags := byte(0x02) // clean session
	body := append(text(nil, "MQTT"), 4, 0, 0, 60)
	body = text(body, clientID)
	if w != nil {
		flags |= 0x04 | 0x08 // QoS 1
		if w.retain {
			flags |= 0x20
		}
		body = text(text(body, w.topic), w.payload)
	}
	if user != "" {
		flags |= 0x80
		body = text(body, user)
	}
	body[7] = flags
	r := bufio.NewReader(conn)
	err = conn.SetReadDeadline(time.Now().Add(patience))
	if err == nil {
		err = c.write(0x10, body)
	}
	var head byte
	if err == nil {
		head, body, err = read(r)
	}
	switch {
	case err != nil:
	case head != 0x20 || len(body) != 2:
		err = fmt.Errorf("not a CONNACK: %x %x", head, body)
	case body[1] != 0:
		err = fmt.Errorf("%w: %d", errRefused, body[1])
	default:
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go c.listen(r)
	return c, nil
}

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func (c *client) write(head byte, body []byte) error {
	b := binary.AppendUvarint([]byte{head}, uint64(len(body)))
	if err := c.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(append(b, body...))
	return err
}

func read(r *bufio.Reader) (head byte, body []byte, err error) {
	if head, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, n)
	_, err = io.ReadFull(r, body)
	return head, body, err
}

// listen reads until the connection ends.
func (c *client) listen(r *bufio.Reader) {
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

func (c *client) take(head byte, body []byte) error {
	if len(body) < 2 {
		return errors.New("short PUBLISH")
	}
	n := 2 + int(binary.BigEndian.Uint16(body))
	name, rest := string(body[2:n]), body[n:]
	if head>>1&3 > 0 {
		if err := c.write(0x40, rest[:2]); err != nil {
			return err
		}
		rest = rest[2:]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, message{name, string(rest), head&1 == 1})
	return nil
}

// until waits until ok, which is called with everything heard so far.
func (c *client) until(what string, ok func([]message) bool) error {
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
			return fmt.Errorf("waited %v for %s", patience, what)
		}
	}
}

// hears waits for a message.
func (c *client) hears(topic, payload string) error {
	return c.until(fmt.Sprintf("%q on %s", payload, topic), func(all []message) bool { return has(all, topic, payload) })
}

func has(all []message, topic, payload string) bool {
	for _, m := range all {
		if m.topic == topic && m.payload == payload {
			return true
		}
	}
	return false
}

// heard is everything so far.
func (c *client) heard() []message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]message(nil), c.messages...)
}

// answer waits for the answer to a packet, or for the end of the connection.
func (c *client) answer(id uint16) (body []byte, err error) {
	err = c.until("an answer", func([]message) bool {
		b, ok := c.answers[id] // under the lock of until
		body = b
		return ok
	})
	return body, err
}

// publish sends with QoS 1 and waits for the PUBACK, which says nothing about permission.
func (c *client) publish(topic, payload string, retain bool) error {
	head := byte(0x32)
	if retain {
		head |= 1
	}
	c.id++
	if err := c.write(head, append(binary.BigEndian.AppendUint16(text(nil, topic), c.id), payload...)); err != nil {
		return err
	}
	_, err := c.answer(c.id)
	return err
}

// send sends with QoS 0 and does not wait.
func (c *client) send(topic, payload string) error {
	return c.write(0x30, append(text(nil, topic), payload...))
}

// subscribe returns whether the server agreed.
func (c *client) subscribe(qos byte, filter string) (bool, error) {
	c.id++
	if err := c.write(0x82, append(text(binary.BigEndian.AppendUint16(nil, c.id), filter), qos)); err != nil {
		return false, err
	}
	body, err := c.answer(c.id)
	return err == nil && len(body) == 1 && body[0] <= 2, err
}

// drop ends the connection without a word, so that the will speaks.
func (c *client) drop() {
	if t, ok := c.conn.(*tls.Conn); ok {
		_ = t.NetConn().Close() // the abrupt end is the point
	}
	_ = c.until("the end", func([]message) bool { return false })
}

// leave says goodbye.
func (c *client) leave() {
	_ = c.write(0xe0, nil) // the server may have ended it already
	c.drop()
}

func mustSubscribe(t testing.TB, c *client, filters ...string) {
	t.Helper()
	for _, f := range filters {
		if ok, err := c.subscribe(0, f); err != nil || !ok {
			t.Fatalf("subscription to %s: %v %v", f, ok, err)
		}
	}
}
