package link_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"tandem.internal/shared/link"
	"tandem.internal/shared/link/linktest"
)

// server is a small MQTT 3.1.1 broker for tests: QoS 1 from clients, QoS 0 or 1 to them, retained messages, wills and
// wildcards, but no limits and no persistent sessions. It is a linktest.Rig over net.Pipe.
type server struct {
	t *testing.T

	// set before the first connection, or under mu
	connack  byte                                   // CONNACK code
	mute     map[byte]bool                          // packet types that are not answered
	onPacket func(c *peer, p packets.ControlPacket) // sees every packet first
	backoff  link.Backoff                           // of the links that Link makes

	mu       sync.Mutex
	peers    map[string]*peer
	retained map[string][]byte
	apart    map[string]bool
	refused  map[string]bool
	frozen   map[string]bool
	thawed   chan struct{}
	wg       sync.WaitGroup
}

// peer is the server's end of one connection.
type peer struct {
	srv     *server
	nc      net.Conn
	id      string
	will    *link.Publication
	connect *packets.ConnectPacket
	filters map[string]byte
	nextID  uint16
	queue   []packets.ControlPacket
	wake    chan struct{}
	gone    chan struct{}
	once    sync.Once
	acks    int // PUBACKs received
}

func newServer(t *testing.T) *server {
	return &server{
		t: t, mute: map[byte]bool{},
		peers: map[string]*peer{}, retained: map[string][]byte{},
		apart: map[string]bool{}, refused: map[string]bool{}, frozen: map[string]bool{}, thawed: make(chan struct{}),
	}
}

// open returns a function for link.Config.OpenConn of the client with an ID.
func (s *server) open(id string) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		s.mu.Lock()
		apart := s.apart[id]
		s.mu.Unlock()
		if apart {
			return nil, errors.New("partitioned by the test")
		}
		client, end := net.Pipe()
		s.serve(end)
		return client, nil
	}
}

// serve starts the two goroutines of a connection.
func (s *server) serve(nc net.Conn) {
	p := &peer{srv: s, nc: nc, filters: map[string]byte{}, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	s.wg.Go(p.read)
	s.wg.Go(p.write)
}

func (p *peer) end(will bool) {
	p.once.Do(func() {
		close(p.gone)
		if err := p.nc.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			p.srv.t.Logf("closing a connection: %v", err)
		}
		s := p.srv
		s.mu.Lock()
		if s.peers[p.id] == p {
			delete(s.peers, p.id)
		}
		s.mu.Unlock()
		if w := p.will; w != nil && will {
			s.route(w.Topic, w.Payload, w.Retain)
		}
	})
}

func (p *peer) push(cp packets.ControlPacket) {
	p.srv.mu.Lock()
	p.queue = append(p.queue, cp)
	p.srv.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peer) write() {
	w := bufio.NewWriterSize(p.nc, 16<<10)
	for {
		p.srv.mu.Lock()
		batch := p.queue
		p.queue = nil
		p.srv.mu.Unlock()
		for _, cp := range batch {
			if raw, ok := cp.(rawPacket); ok {
				if _, err := w.Write(raw); err != nil {
					return
				}
			} else if err := cp.Write(w); err != nil {
				return
			}
		}
		if err := w.Flush(); err != nil {
			return
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-p.wake:
		case <-p.gone:
			return
		}
	}
}

// rawPacket is bytes that the server sends as they are.
type rawPacket []byte

func (rawPacket) Write(io.Writer) error    { return errors.New("raw") }
func (rawPacket) Unpack(io.Reader) error   { return errors.New("raw") }
func (rawPacket) String() string           { return "raw" }
func (rawPacket) Details() packets.Details { return packets.Details{} }

func (p *peer) read() {
	r := bufio.NewReaderSize(p.nc, 16<<10)
	will := true
	defer func() { p.end(will) }()
	for {
		cp, err := packets.ReadPacket(r)
		if err != nil {
			return
		}
		if f := p.srv.onPacket; f != nil {
			f(p, cp)
		}
		switch m := cp.(type) {
		case *packets.ConnectPacket:
			if !p.accept(m) {
				will = false
				return
			}
		case *packets.DisconnectPacket:
			will = false
			return
		case *packets.PublishPacket:
			if !p.waitThaw() {
				return
			}
			p.srv.route(m.TopicName, m.Payload, m.Retain)
			ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
			ack.MessageID = m.MessageID
			p.answer(packets.Publish, ack)
		case *packets.SubscribePacket:
			p.subscribe(m)
		case *packets.UnsubscribePacket:
			p.srv.mu.Lock()
			for _, f := range m.Topics {
				delete(p.filters, f)
			}
			p.srv.mu.Unlock()
			ack := packets.NewControlPacket(packets.Unsuback).(*packets.UnsubackPacket)
			ack.MessageID = m.MessageID
			p.answer(packets.Unsubscribe, ack)
		case *packets.PingreqPacket:
			p.answer(packets.Pingreq, packets.NewControlPacket(packets.Pingresp))
		case *packets.PubackPacket:
			p.srv.mu.Lock()
			p.acks++
			p.srv.mu.Unlock()
		}
	}
}

// answer sends an answer, unless the server is set not to answer such packets.
func (p *peer) answer(to byte, cp packets.ControlPacket) {
	p.srv.mu.Lock()
	mute := p.srv.mute[to]
	p.srv.mu.Unlock()
	if !mute {
		p.push(cp)
	}
}

func (p *peer) waitThaw() bool {
	for {
		p.srv.mu.Lock()
		frozen, thawed := p.srv.frozen[p.id], p.srv.thawed
		p.srv.mu.Unlock()
		if !frozen {
			return true
		}
		select {
		case <-thawed:
		case <-p.gone:
			return false
		}
	}
}

func (p *peer) accept(m *packets.ConnectPacket) bool {
	s := p.srv
	ack := packets.NewControlPacket(packets.Connack).(*packets.ConnackPacket)
	s.mu.Lock()
	ack.ReturnCode = s.connack
	old := s.peers[m.ClientIdentifier]
	if ack.ReturnCode == 0 {
		p.id, p.connect = m.ClientIdentifier, m
		s.peers[p.id] = p
		if m.WillFlag {
			p.will = &link.Publication{Topic: m.WillTopic, Payload: m.WillMessage, Retain: m.WillRetain}
		}
	}
	s.mu.Unlock()
	if old != nil && ack.ReturnCode == 0 {
		old.end(true)
	}
	if ack.ReturnCode != 0 {
		if err := ack.Write(p.nc); err != nil { // and close
			s.t.Logf("CONNACK: %v", err)
		}
		return false
	}
	p.answer(packets.Connect, ack)
	return true
}

func (p *peer) subscribe(m *packets.SubscribePacket) {
	s := p.srv
	ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	ack.MessageID = m.MessageID
	var kept []string
	s.mu.Lock()
	for i, f := range m.Topics {
		if s.refused[f] {
			ack.ReturnCodes = append(ack.ReturnCodes, 0x80)
			continue
		}
		ack.ReturnCodes = append(ack.ReturnCodes, m.Qoss[i])
		p.filters[f] = m.Qoss[i]
		for _, topic := range slices.Sorted(maps.Keys(s.retained)) {
			if linktest.Match(f, topic) {
				kept = append(kept, topic)
			}
		}
	}
	s.mu.Unlock()
	p.answer(packets.Subscribe, ack)
	for _, topic := range kept {
		s.mu.Lock()
		payload := s.retained[topic]
		s.mu.Unlock()
		p.send(topic, payload, true)
	}
}

// send delivers one message with the highest QoS of the filters that match.
func (p *peer) send(topic string, payload []byte, retain bool) {
	m := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	m.TopicName, m.Payload, m.Retain = topic, payload, retain
	p.srv.mu.Lock()
	for f, q := range p.filters {
		if linktest.Match(f, topic) {
			m.Qos = max(m.Qos, q)
		}
	}
	if m.Qos > 0 {
		if p.nextID++; p.nextID == 0 {
			p.nextID = 1
		}
		m.MessageID = p.nextID
	}
	p.srv.mu.Unlock()
	p.push(m)
}

func (s *server) route(topic string, payload []byte, retain bool) {
	s.mu.Lock()
	if retain && len(payload) > 0 {
		s.retained[topic] = payload
	} else if retain {
		delete(s.retained, topic)
	}
	var to []*peer
	for _, p := range s.peers {
		for f := range p.filters {
			if linktest.Match(f, topic) {
				to = append(to, p)
				break
			}
		}
	}
	s.mu.Unlock()
	for _, p := range to {
		p.send(topic, payload, false)
	}
}
