package fleet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/shared/wire"
)

// readBuffer holds a document of the usual size, so that it costs one read.
const readBuffer = 2048

// conn is one MQTT 3.1.1 connection. One goroutine reads; any may write.
type conn struct {
	nc net.Conn
	r  *bufio.Reader

	mu     sync.Mutex // writing
	lastID uint16
}

func newConn(nc net.Conn) *conn { return &conn{nc: nc, r: bufio.NewReaderSize(nc, readBuffer)} }

var (
	payloads = sync.Pool{New: func() any { b := make([]byte, 0, readBuffer); return &b }}
	outgoing = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// read reads one packet into pk. The payload lives in buf, which is grown when it is too small.
func (c *conn) read(pk *packets.Packet, buf *[]byte) error {
	first, err := c.r.ReadByte()
	if err != nil {
		return err
	}
	*pk = packets.Packet{ProtocolVersion: 4}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return err
	}
	n, _, err := packets.DecodeLength(c.r)
	if err != nil {
		return err
	}
	if n > 2*wire.MaxPacket {
		return fmt.Errorf("a packet of %d bytes", n)
	}
	pk.FixedHeader.Remaining = n
	if cap(*buf) < n {
		*buf = make([]byte, 0, n)
	}
	b := (*buf)[:n]
	if _, err := io.ReadFull(c.r, b); err != nil {
		return err
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		return pk.PublishDecode(b)
	case packets.Puback:
		return pk.PubackDecode(b)
	case packets.Connack:
		return pk.ConnackDecode(b)
	case packets.Suback:
		return pk.SubackDecode(b)
	case packets.Pingresp:
		return nil
	}
	return fmt.Errorf("a packet of type %d for a client", pk.FixedHeader.Type)
}

// message is a publish that is to be sent.
type message struct {
	topic   string
	payload []byte
	retain  bool
}

// send writes an acknowledgement (ack 0: none) and messages of QoS 1 with a single write and
// returns the packet ID of the last message.
func (c *conn) send(ack uint16, all ...message) (last uint16, err error) {
	buf := outgoing.Get().(*bytes.Buffer)
	buf.Reset()
	defer outgoing.Put(buf)
	if ack != 0 {
		pk := packets.Packet{ProtocolVersion: 4, FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: ack}
		if err := pk.PubackEncode(buf); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range all {
		if c.lastID++; c.lastID == 0 {
			c.lastID = 1
		}
		pk := packets.Packet{
			ProtocolVersion: 4, FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: all[i].retain},
			PacketID: c.lastID, TopicName: all[i].topic, Payload: all[i].payload,
		}
		if err := pk.PublishEncode(buf); err != nil {
			return 0, err
		}
	}
	_, err = c.nc.Write(buf.Bytes())
	return c.lastID, err
}

// control writes one packet that is no publish.
func (c *conn) control(encode func(*bytes.Buffer) error) error {
	var buf bytes.Buffer
	if err := encode(&buf); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.nc.Write(buf.Bytes())
	return err
}

// connect sends CONNECT and waits for the broker's yes. The keep-alive is off: silence is what a
// light node is best at.
func (c *conn) connect(user string, will message) error {
	pk := packets.Packet{
		ProtocolVersion: 4, FixedHeader: packets.FixedHeader{Type: packets.Connect},
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), Clean: true, ClientIdentifier: user, UsernameFlag: true,
			Username: []byte(user),
			WillFlag: true, WillTopic: will.topic, WillPayload: will.payload, WillRetain: will.retain, WillQos: 1,
		},
	}
	if err := c.control(pk.ConnectEncode); err != nil {
		return err
	}
	var in packets.Packet
	var buf []byte
	if err := c.read(&in, &buf); err != nil {
		return err
	}
	if in.FixedHeader.Type != packets.Connack || in.ReasonCode != 0 {
		return fmt.Errorf("refused by the broker: packet type %d, code %d", in.FixedHeader.Type, in.ReasonCode)
	}
	return nil
}

// subscribe asks for filters with QoS 1; the answer comes to the reader.
func (c *conn) subscribe(filters ...string) error {
	pk := packets.Packet{ProtocolVersion: 4, FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1},
		PacketID: 1}
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: f, Qos: 1})
	}
	return c.control(pk.SubscribeEncode)
}
