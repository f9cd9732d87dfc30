package fault

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Packet is one MQTT packet as it is on the line.
type Packet []byte

// The packet types that the faults tell apart (MQTT 3.1.1, section 2.2.1).
const (
	typeConnect = 1
	typePublish = 3
)

// maxPacket bounds what readPacket sets memory aside for: more than any side of a test accepts.
const maxPacket = 64 << 20

func (p Packet) kind() byte { return p[0] >> 4 }

// Topic returns the topic of a PUBLISH, "" for everything else.
func (p Packet) Topic() string {
	if p.kind() != typePublish {
		return ""
	}
	rest := p[1:]
	for len(rest) > 0 && rest[0]&0x80 != 0 {
		rest = rest[1:]
	}
	if len(rest) < 3 {
		return ""
	}
	n := int(binary.BigEndian.Uint16(rest[1:]))
	if rest = rest[3:]; len(rest) < n {
		return ""
	}
	return string(rest[:n])
}

// again returns a copy that says it is one, as a sender marks what it sends a second time.
func (p Packet) again() Packet {
	c := append(Packet(nil), p...)
	c[0] |= 0x08 // DUP
	return c
}

// readPacket reads one whole packet.
func readPacket(r *bufio.Reader) (Packet, error) {
	first, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	p := Packet{first}
	size := 0
	for shift := 0; ; shift += 7 {
		if shift > 21 {
			return nil, errors.New("remaining length of more than four bytes")
		}
		b, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		p = append(p, b)
		size |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
	}
	if size > maxPacket {
		return nil, fmt.Errorf("a packet of %d bytes", size)
	}
	head := len(p)
	p = append(p, make([]byte, size)...)
	if _, err := io.ReadFull(r, p[head:]); err != nil {
		return nil, err
	}
	return p, nil
}
