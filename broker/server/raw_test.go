package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"go.uber.org/goleak"

	"tandem.internal/shared/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the longest wait; only a test that fails waits so long.
const patience = time.Minute

// rawClient sends and reads MQTT packets one by one, so that a test can do what no library does.
type rawClient struct {
	t    testing.TB
	nc   net.Conn
	r    *bufio.Reader
	user string
	v    byte
	id   uint16
}

func rawDial(t testing.TB, addr net.Addr) *rawClient {
	t.Helper()
	nc, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return rawOver(t, nc)
}

func rawOver(t testing.TB, nc net.Conn) *rawClient {
	t.Cleanup(func() { _ = nc.Close() })
	return &rawClient{t: t, nc: nc, r: bufio.NewReader(nc), v: 4}
}

type connectOption func(*packets.Packet)

func withWill(name, payload string, retain bool) connectOption {
	return func(pk *packets.Packet) {
		pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload, pk.Connect.WillRetain = true, name,
			[]byte(payload), retain
	}
}

func withPassword(p string) connectOption {
	return func(pk *packets.Packet) { pk.Connect.PasswordFlag, pk.Connect.Password = true, []byte(p) }
}

// connect sends CONNECT and returns the code of CONNACK.
func (c *rawClient) connect(user string, opts ...connectOption) packets.Packet {
	c.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: c.v,
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), Clean: true, Keepalive: 60, ClientIdentifier: user, UsernameFlag: true,
			Username: []byte(user)}}
	for _, o := range opts {
		o(&pk)
	}
	c.user = user
	c.send(pk)
	ack, err := c.read()
	if err != nil {
		c.t.Fatalf("%s: no CONNACK: %v", user, err)
	}
	return ack
}

func (c *rawClient) mustConnect(user string, opts ...connectOption) *rawClient {
	c.t.Helper()
	if ack := c.connect(user, opts...); ack.FixedHeader.Type != packets.Connack || ack.ReasonCode != 0 {
		c.t.Fatalf("%s: refused with %d", user, ack.ReasonCode)
	}
	return c
}

func encode(pk packets.Packet) ([]byte, error) {
	var buf bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectEncode(&buf)
	case packets.Publish:
		err = pk.PublishEncode(&buf)
	case packets.Puback:
		err = pk.PubackEncode(&buf)
	case packets.Subscribe:
		err = pk.SubscribeEncode(&buf)
	case packets.Unsubscribe:
		err = pk.UnsubscribeEncode(&buf)
	case packets.Pingreq:
		err = pk.PingreqEncode(&buf)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&buf)
	default:
		err = fmt.Errorf("type %d", pk.FixedHeader.Type)
	}
	return buf.Bytes(), err
}

func (c *rawClient) send(pk packets.Packet) {
	c.t.Helper()
	pk.ProtocolVersion = c.v
	b, err := encode(pk)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(b)
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("%s: write: %v", c.user, err)
	}
}

// read returns the next packet.
func (c *rawClient) read() (packets.Packet, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return packets.Packet{}, err
	}
	return readPacket(c.r, c.v)
}

func readPacket(r *bufio.Reader, version byte) (packets.Packet, error) {
	pk := packets.Packet{ProtocolVersion: version}
	b, err := r.ReadByte()
	if err != nil {
		return pk, err
	}
	if err := pk.FixedHeader.Decode(b); err != nil {
		return pk, err
	}
	if pk.FixedHeader.Remaining, _, err = packets.DecodeLength(r); err != nil {
		return pk, err
	}
	body := make([]byte, pk.FixedHeader.Remaining)
	for n := 0; n < len(body); {
		m, err := r.Read(body[n:])
		if err != nil {
			return pk, err
		}
		n += m
	}
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Puback:
		err = pk.PubackDecode(body)
	case packets.Suback:
		err = pk.SubackDecode(body)
	case packets.Unsuback:
		err = pk.UnsubackDecode(body)
	}
	return pk, err
}

// next reads until it gets a packet of the type. It acknowledges publishes in between.
func (c *rawClient) next(kind byte) packets.Packet {
	c.t.Helper()
	for {
		pk, err := c.read()
		if err != nil {
			c.t.Fatalf("%s: waiting for %s: %v", c.user, packets.PacketNames[kind], err)
		}
		if pk.FixedHeader.Type == packets.Publish && pk.FixedHeader.Qos == 1 {
			c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: pk.PacketID})
		}
		if pk.FixedHeader.Type == kind {
			return pk
		}
	}
}

// gone reads until the broker has closed the connection.
func (c *rawClient) gone() {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				c.t.Fatalf("%s: still connected", c.user)
			}
			return
		}
	}
}

func (c *rawClient) publish(name string, payload []byte, retain bool) uint16 {
	c.t.Helper()
	c.id++
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: retain},
		PacketID: c.id, TopicName: name, Payload: payload})
	return c.id
}

// report publishes and waits for the PUBACK.
func (c *rawClient) report(name string, payload string, retain bool) {
	c.t.Helper()
	id := c.publish(name, []byte(payload), retain)
	if ack := c.next(packets.Puback); ack.PacketID != id {
		c.t.Fatalf("PUBACK for %d, want %d", ack.PacketID, id)
	}
}

// subscribe subscribes and returns the codes of SUBACK.
func (c *rawClient) subscribe(filters ...string) []byte {
	c.t.Helper()
	c.id++
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: c.id}
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: f, Qos: 1})
	}
	c.send(pk)
	return c.next(packets.Suback).ReasonCodes
}

func (c *rawClient) ping() {
	c.t.Helper()
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	c.next(packets.Pingresp)
}

// recorder records events, and a test can wait for one.
type recorder struct {
	mu   sync.Mutex
	all  []Event
	more chan struct{}
}

func newRecorder() *recorder { return &recorder{more: make(chan struct{}, 1)} }

func (r *recorder) on(ev Event) {
	r.mu.Lock()
	r.all = append(r.all, ev)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *recorder) of(kind EventKind) (found []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range r.all {
		if ev.Kind == kind {
			found = append(found, ev)
		}
	}
	return found
}

func (r *recorder) wait(t testing.TB, kind EventKind) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if found := r.of(kind); len(found) > 0 {
			return found[0]
		}
		select {
		case <-r.more:
		case <-ctx.Done():
			t.Fatalf("no %s event, only %+v", kind, r.all)
		}
	}
}

type testServer struct {
	*Server
	events *recorder
}

// serve starts a broker for unit u1 on a loopback port.
func serve(t testing.TB, cfg Config, intake func(Message)) *testServer {
	t.Helper()
	return serveErr(t, cfg, func(m Message) error {
		if intake != nil {
			intake(m)
		}
		return nil
	})
}

func serveErr(t testing.TB, cfg Config, intake func(Message) error) *testServer {
	t.Helper()
	s := newUnstarted(t, cfg)
	s.IntakeErr(intake)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func newUnstarted(t testing.TB, cfg Config) *testServer {
	t.Helper()
	if cfg.Listeners == nil {
		cfg.Listeners = []net.Listener{loopback(t)}
	}
	cfg.Unit = "u1"
	rec := newRecorder()
	cfg.OnEvent = rec.on
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &testServer{s, rec}
}

func loopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *testServer) dial(t testing.TB) *rawClient { t.Helper(); return rawDial(t, s.Addr()) }

func node(i int) string         { return fmt.Sprintf("n%d", i) }
func of(name string) topic.Node { return topic.ForNode("u1", name) }

var passwords = map[string]string{"controller": "c-secret", "cloud/eu": "e-secret", "operator/ann": "a-secret"}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		time.Sleep(time.Millisecond) // polled: what is asked of has no event
	}
}
