package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
	"tandem.internal/testenv/fleet"
)

// lean is the floor that shares nothing with the product but bbolt: raw connections with a goroutine each, as much
// of MQTT 3.1.1 as the bare clients speak, and PUBACKs that the committer writes after the commit. It knows no
// wills, no keep-alive and no sessions, and publishes a document into the one connection that it is for.
type lean struct {
	listener net.Listener
	commit   *committer // nil: nothing is durable
	readers  sync.WaitGroup

	mu    sync.Mutex
	conns map[string]*leanConn         // by node
	kept  map[string]map[string][]byte // retained documents: node, topic, payload
	open  map[net.Conn]struct{}        // nil: closed
}

// leanConn is one node's connection.
type leanConn struct {
	net.Conn
	mu   sync.Mutex // writing
	next uint16     // packet ID of the next PUBLISH
	out  []byte     // of the write under way
}

// Types of MQTT 3.1.1's packets (section 2.2.1), with the flags that they must have.
const (
	mqttConnect     = 0x10
	mqttConnack     = 0x20
	mqttPublish     = 0x30
	mqttPuback      = 0x40
	mqttSubscribe   = 0x82
	mqttSuback      = 0x90
	mqttPingreq     = 0xc0
	mqttPingresp    = 0xd0
	mqttDisconnect  = 0xe0
	mqttRetain      = 0x01 // a flag of PUBLISH
	mqttQoS1        = 0x02 // a flag of PUBLISH
	maxLeanPacket   = 1 << 20
	leanWriteWithin = 10 * time.Second
)

func newLean(cfg hostConfig, l net.Listener) (role, error) {
	f := &lean{listener: l, conns: map[string]*leanConn{}, kept: map[string]map[string][]byte{},
		open: map[net.Conn]struct{}{}}
	if cfg.Durable {
		var err error
		if f.commit, err = newCommitter(filepath.Join(cfg.Dir, "floor.db")); err != nil {
			return nil, err
		}
	}
	f.readers.Go(f.accept)
	return f, nil
}

func (f *lean) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		f.mu.Lock()
		over := f.open == nil
		if !over {
			f.open[c] = struct{}{}
			f.readers.Go(func() { f.serve(&leanConn{Conn: c}) })
		}
		f.mu.Unlock()
		if over {
			_ = c.Close() // nobody uses it
		}
	}
}

// serve reads one connection until it ends.
func (f *lean) serve(c *leanConn) {
	node := ""
	defer func() {
		_ = c.Close() // the peer may have closed it
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, c.Conn)
		if f.conns[node] == c {
			delete(f.conns, node)
		}
	}()
	r := bufio.NewReaderSize(c, 2048)
	var body []byte
	for {
		first, err := r.ReadByte()
		if err != nil {
			return
		}
		n, err := binary.ReadUvarint(r) // MQTT's remaining length has the same form
		if err != nil || n > maxLeanPacket {
			return
		}
		if uint64(cap(body)) < n {
			body = make([]byte, n)
		}
		body = body[:n]
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		switch first &^ 0x0f {
		case mqttConnect:
			if node, err = leanNode(body); err == nil {
				err = c.write([]byte{mqttConnack, 2, 0, 0})
			}
		case mqttSubscribe &^ 0x0f:
			err = f.subscribe(node, c, body)
		case mqttPublish:
			err = f.take(c, first, body)
		case mqttPingreq:
			err = c.write([]byte{mqttPingresp, 0})
		case mqttPuback: // QoS 1's sender would now forget the message
		case mqttDisconnect:
			return
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

var errMalformed = errors.New("not what a bare client sends")

// field cuts a string with its length in two bytes off a packet.
func field(b []byte) (s, rest []byte, err error) {
	if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
		return nil, nil, errMalformed
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return b[2:n], b[n:], nil
}

// leanNode is the node that a CONNECT is from: its client ID is node/ID.
func leanNode(body []byte) (string, error) {
	_, rest, err := field(body) // protocol name
	if err != nil || len(rest) < 4 {
		return "", errMalformed
	}
	id, _, err := field(rest[4:]) // level, flags, keep-alive
	_, name, ok := strings.Cut(string(id), "/")
	if err != nil || !ok {
		return "", errMalformed
	}
	return name, nil
}

// subscribe grants every filter and sends the node's retained documents, as if each filter were for these.
func (f *lean) subscribe(node string, c *leanConn, body []byte) error {
	if len(body) < 2 {
		return errMalformed
	}
	answer := []byte{mqttSuback, 2, body[0], body[1]}
	for rest := body[2:]; len(rest) > 0; {
		_, after, err := field(rest)
		if err != nil || len(after) < 1 {
			return errMalformed
		}
		answer, rest = append(answer, 1), after[1:]
		answer[1]++
	}
	if err := c.write(answer); err != nil {
		return err
	}
	f.mu.Lock()
	f.conns[node] = c
	kept := make(map[string][]byte, len(f.kept[node]))
	for name, payload := range f.kept[node] {
		kept[name] = payload
	}
	f.mu.Unlock()
	for name, payload := range kept {
		if err := c.publish(name, payload, mqttRetain); err != nil {
			return err
		}
	}
	return nil
}

// take acknowledges a PUBLISH of QoS 1, a status when it is durable; see [isStatus].
func (f *lean) take(c *leanConn, first byte, body []byte) error {
	name, rest, err := field(body)
	if err != nil || first&mqttQoS1 == 0 || len(rest) < 2 {
		return errMalformed
	}
	ack := []byte{mqttPuback, 2, rest[0], rest[1]}
	payload := rest[2:]
	if f.commit == nil || !isStatus(string(name), payload) {
		return c.write(ack)
	}
	value := append([]byte(nil), payload...)
	f.commit.after(value, func(err error) {
		if err == nil {
			err = c.write(ack)
		}
		if err != nil {
			_ = c.Close() // its reader ends and says so
		}
	})
	return nil
}

func (c *leanConn) write(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(b)
}

// send writes within a bounded time: a node that does not read shall not hold up the committer for ever.
func (c *leanConn) send(b []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(leanWriteWithin)); err != nil {
		return err
	}
	_, err := c.Conn.Write(b)
	return err
}

// publish sends a message with QoS 1 in one write.
func (c *leanConn) publish(name string, payload []byte, flags byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next++; c.next == 0 {
		c.next = 1
	}
	b := append(c.out[:0], mqttPublish|mqttQoS1|flags)
	b = binary.AppendUvarint(b, uint64(2+len(name)+2+len(payload)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint16(b, c.next)
	c.out = append(b, payload...)
	return c.send(c.out)
}

func (f *lean) do(op string, args json.RawMessage) (any, error) {
	if op != "publish" {
		return nil, fmt.Errorf("the lean floor does not know %q", op)
	}
	var b burst
	if err := json.Unmarshal(args, &b); err != nil {
		return nil, err
	}
	for i := range b.Nodes {
		node := fleet.Name(i)
		at := topic.ForNode(unitName, node)
		name := at.Desired(wire.KindConfig)
		payload := make([]byte, b.Size)
		if b.Request {
			name = at.Request()
		}
		f.mu.Lock()
		c := f.conns[node]
		if !b.Request {
			if f.kept[node] == nil {
				f.kept[node] = map[string][]byte{}
			}
			f.kept[node][name] = payload
		}
		f.mu.Unlock()
		if c == nil {
			continue // it gets what is retained when it comes back
		}
		if err := c.publish(name, payload, 0); err != nil {
			return nil, fmt.Errorf("%s: %w", node, err)
		}
	}
	return nil, nil
}

func (f *lean) addr() net.Addr { return f.listener.Addr() }
func (f *lean) commits() int64 { return f.commit.commits() }

func (f *lean) close() error {
	err := f.listener.Close()
	f.mu.Lock()
	open := f.open
	f.open = nil
	for c := range open {
		_ = c.Close() // its reader ends
	}
	f.mu.Unlock()
	f.readers.Wait()
	if f.commit != nil {
		err = errors.Join(err, f.commit.close())
	}
	return err
}
