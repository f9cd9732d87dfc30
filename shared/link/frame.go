package link

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

var errProtocol = errors.New("the broker breaks the protocol")

func protocol(format string, a ...any) error {
	return fmt.Errorf("%w: %s", errProtocol, fmt.Sprintf(format, a...))
}

// inspect looks at the next packet before paho does and returns its size. paho would allocate
// whatever a length field says (up to 256 MiB), panic on a SUBACK with more codes than there
// were filters, take an unknown CONNACK code for success, and leave publishers hanging for as
// long as WriteTimeout after a packet that it cannot decode.
func (c *conn) inspect() (int, error) {
	var b []byte
	var err error
	body, head := 0, 2
	for {
		if b, err = c.in.Peek(head); err != nil {
			return 0, err
		}
		last := b[head-1]
		body |= int(last&0x7f) << (7 * (head - 2))
		if last&0x80 == 0 {
			break
		}
		if head++; head > 5 {
			return 0, protocol("a length of more than four bytes")
		}
	}
	kind, flags := b[0]>>4, b[0]&0x0f
	name := packets.PacketNames[kind]
	if head+body > c.limit {
		return 0, protocol("a %s packet of %d bytes, more than the limit of %d", name, head+body, c.limit)
	}
	want := -1 // body size
	switch kind {
	case packets.Connack, packets.Puback, packets.Unsuback:
		want = 2
	case packets.Pingresp:
		want = 0
	case packets.Suback, packets.Publish:
		if body < 2 {
			return 0, protocol("a %s packet of %d bytes", name, head+body)
		}
	default:
		return 0, protocol("a packet of type %d", kind)
	}
	if want >= 0 && body != want {
		return 0, protocol("a %s packet with %d bytes instead of %d", name, body, want)
	}
	if body == 0 {
		return head, nil
	}
	if b, err = c.in.Peek(head + 2); err != nil {
		return 0, err
	}
	field := binary.BigEndian.Uint16(b[head:]) // packet ID, or topic length
	switch kind {
	case packets.Connack:
		if code := b[head+1]; code > packets.ErrRefusedNotAuthorised {
			return 0, protocol("CONNACK code %d", code)
		}
	case packets.Suback:
		c.mu.Lock()
		n, ok := c.subs[field]
		delete(c.subs, field)
		c.mu.Unlock()
		if !ok || body != 2+n {
			return 0, protocol("a SUBACK with %d codes for %d filters", body-2, n)
		}
	case packets.Publish:
		qos := flags >> 1 & 3
		need := 2 + int(field)
		if qos > 0 {
			need += 2
		}
		if qos > 1 || field == 0 || body < need {
			return 0, protocol("a malformed PUBLISH (QoS %d, topic of %d bytes, body of %d)", qos, field, body)
		}
	}
	return head + body, nil
}

// subscribeFilters returns the packet ID and the number of filters if p is a SUBSCRIBE packet.
func subscribeFilters(p []byte) (id uint16, n int, ok bool) {
	if len(p) == 0 || p[0]>>4 != packets.Subscribe {
		return 0, 0, false
	}
	i := 1
	for p[i]&0x80 != 0 {
		i++
	}
	id = binary.BigEndian.Uint16(p[i+1:])
	for rest := p[i+3:]; len(rest) > 0; n++ {
		rest = rest[2+int(binary.BigEndian.Uint16(rest))+1:]
	}
	return id, n, true
}
