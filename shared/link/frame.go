package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

var errProtocol = errors.New("the broker breaks the protocol")

// protocolError returns an error that wraps errProtocol.
func protocolError(format string, a ...any) error {
	return fmt.Errorf("%w: %s", errProtocol, fmt.Sprintf(format, a...))
}

// checkNextPacket checks the next packet from the broker before paho reads it, and returns its size in bytes; 0 means
// that it was read past. An error wraps errProtocol or ErrRefused, or is one of reading. Without this check paho
//   - allocates as much as a length field says, up to 256 MiB;
//   - panics on a SUBACK with more codes than the SUBSCRIBE had filters;
//   - takes an unknown CONNACK code for success;
//   - lets publishers wait for WriteTimeout after a packet that it cannot decode.
func (c *conn) checkNextPacket() (int, error) {
	var b []byte
	var err error
	bodySize, headSize := 0, 2
	for {
		if b, err = c.in.Peek(headSize); err != nil {
			return 0, err
		}
		last := b[headSize-1]
		bodySize |= int(last&0x7f) << (7 * (headSize - 2))
		if last&0x80 == 0 {
			break
		}
		if headSize++; headSize > 5 {
			return 0, protocolError("a length of more than four bytes")
		}
	}
	packetType, flags := b[0]>>4, b[0]&0x0f
	name := packets.PacketNames[packetType]
	if n := headSize + bodySize; packetType == packets.Publish && n > c.limit {
		return 0, c.skipPublish(headSize, bodySize, flags)
	}
	if headSize+bodySize > c.limit {
		return 0, protocolError("a %s packet of %d bytes, more than the limit of %d", name, headSize+bodySize, c.limit)
	}
	want := -1 // size of the body in bytes; -1: it varies
	switch packetType {
	case packets.Puback, packets.Unsuback:
		want = 2
	case packets.Pingresp:
		want = 0
	case packets.Connack, packets.Suback, packets.Publish:
		if bodySize < 2 {
			return 0, protocolError("a %s packet of %d bytes", name, headSize+bodySize)
		}
	default:
		return 0, protocolError("a packet of type %d", packetType)
	}
	if want >= 0 && bodySize != want {
		return 0, protocolError("a %s packet with %d bytes instead of %d", name, bodySize, want)
	}
	if bodySize == 0 {
		return headSize, nil
	}
	if b, err = c.in.Peek(headSize + 2); err != nil {
		return 0, err
	}
	first := binary.BigEndian.Uint16(b[headSize:]) // packet ID, length of the topic, or CONNACK flags and code
	switch packetType {
	case packets.Connack:
		if code := b[headSize+1]; code > packets.ErrRefusedNotAuthorised { // MQTT 5 has such codes, and longer packets
			return 0, unknownRefusal(c.name, code)
		}
		if bodySize != 2 {
			return 0, protocolError("a CONNACK packet with %d bytes instead of 2", bodySize)
		}
	case packets.Suback:
		c.mu.Lock()
		n, ok := c.subs[first]
		delete(c.subs, first)
		c.mu.Unlock()
		if !ok || bodySize != 2+n {
			return 0, protocolError("a SUBACK with %d codes for %d filters", bodySize-2, n)
		}
	case packets.Publish:
		if _, err := publishHead(flags, int(first), bodySize); err != nil {
			return 0, err
		}
	}
	return headSize + bodySize, nil
}

// publishHead returns how many bytes of a PUBLISH's body are before the payload, or an error about the packet.
func publishHead(flags byte, topicSize, bodySize int) (int, error) {
	qos := flags >> 1 & 3
	size := 2 + topicSize
	if qos > 0 {
		size += 2
	}
	if qos > 1 || topicSize == 0 || bodySize < size {
		return 0, protocolError("a malformed PUBLISH (QoS %d, topic of %d bytes, body of %d)", qos, topicSize, bodySize)
	}
	return size, nil
}

// skipPublish reads past a PUBLISH that is larger than the limit, of which it keeps no more than the topic, and passes
// on what is known of it. To end the session instead would not help, however large it is: a retained message comes
// again in the next one. Acknowledgements behind it are not late for that (patience).
func (c *conn) skipPublish(headSize, bodySize int, flags byte) error {
	c.skips(true)
	defer c.skips(false)
	if _, err := c.in.Discard(headSize); err != nil {
		return err
	}
	var two [2]byte
	if _, err := io.ReadFull(c.in, two[:]); err != nil {
		return err
	}
	name := make([]byte, binary.BigEndian.Uint16(two[:]))
	size, err := publishHead(flags, len(name), bodySize)
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(c.in, name); err != nil {
		return err
	}
	ack := func() {}
	if size > 2+len(name) { // QoS 1
		if _, err := io.ReadFull(c.in, two[:]); err != nil {
			return err
		}
		ack = func() { _, _ = c.Write([]byte{packets.Puback << 4, 2, two[0], two[1]}) } // conn.Write returns no error
	}
	if _, err := c.in.Discard(bodySize - size); err != nil {
		return err
	}
	c.skipped(Message{Topic: string(name), TooLong: bodySize - size, Retained: flags&1 == 1}, ack)
	return nil
}

// subscribeFilters returns the packet ID and the number n of filters if p is a SUBSCRIBE packet, which paho made.
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
