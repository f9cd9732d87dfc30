package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/mochi-mqtt/server/v2/packets"
)

// head is the fixed header of a packet (MQTT 3.1.1, section 2.2).
type head struct {
	first  byte // type and flags
	length int  // of what follows, in bytes
}

func (h head) kind() byte { return h.first >> 4 }

// size returns the size of the packet in bytes.
func (h head) size() int {
	n := 2 + h.length
	for rest := h.length >> 7; rest > 0; rest >>= 7 {
		n++
	}
	return n
}

// Errors about what a client sends; each ends its connection.
var (
	errLength   = errors.New("malformed packet length")
	errFlags    = errors.New("a packet with flags that it cannot have")
	errKind     = errors.New("a packet that clients do not send")
	errFields   = errors.New("a packet whose fields do not fit its length")
	errText     = errors.New("a text that is no UTF-8, or has a NUL")
	errPacketID = errors.New("a packet without an ID")
	errLevel    = errors.New("a CONNECT of another protocol or version")
)

// flagsOf are the flags of the packets that clients send, but for PUBLISH (MQTT 3.1.1, section 2.2.2).
var flagsOf = map[byte]byte{packets.Connect: 0, packets.Puback: 0, packets.Pubrec: 0, packets.Pubrel: 2,
	packets.Pubcomp: 0, packets.Subscribe: 2, packets.Unsubscribe: 2, packets.Pingreq: 0, packets.Disconnect: 0}

// readHead reads a fixed header. Nothing is allocated for a packet that is longer than the limits allow, or that
// clients do not send at this place: CONNECT is the first, and no other.
func readHead(r io.ByteReader, connected bool, l *Limits) (h head, err error) {
	if h.first, err = r.ReadByte(); err != nil {
		return h, err
	}
	if !connected && h.first != packets.Connect<<4 {
		return h, errNoConnect
	}
	if h.kind() == packets.Publish {
		if qos := h.first >> 1 & 3; qos == 3 || qos == 0 && h.first&8 != 0 {
			return h, errFlags
		}
	} else if flags, ok := flagsOf[h.kind()]; !ok {
		return h, errKind
	} else if h.first&15 != flags {
		return h, errFlags
	}
	for shift := 0; ; shift += 7 {
		b, err := r.ReadByte()
		if err != nil {
			return h, err
		}
		h.length |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
		if shift == 21 {
			return h, errLength
		}
	}
	switch h.kind() {
	case packets.Connect:
		if connected {
			return h, packets.ErrProtocolViolationSecondConnect
		}
		if h.length > l.MaxConnect {
			return h, fmt.Errorf("a CONNECT of %d bytes, more than %d", h.length, l.MaxConnect)
		}
	case packets.Publish, packets.Subscribe, packets.Unsubscribe:
		if h.length+1 > l.MaxPacket {
			return h, fmt.Errorf("%w: of %d bytes, and at most %d are taken", packets.ErrPacketTooLarge,
				h.length+1, l.MaxPacket)
		}
	case packets.Pingreq, packets.Disconnect:
		if h.length != 0 {
			return h, errLength
		}
	default: // acknowledgements
		if h.length != 2 {
			return h, errLength
		}
	}
	return h, nil
}

// readBody reads what follows a fixed header, checks it, and only then has mochi decode it.
func readBody(r *bufio.Reader, h head, version byte) (packets.Packet, error) {
	body := make([]byte, h.length)
	if _, err := io.ReadFull(r, body); err != nil {
		return packets.Packet{}, err
	}
	err := check(h, body)
	if errors.Is(err, errLevel) { // it is answered by its name and version alone
		f := fields{rest: body}
		name := f.bytes()
		return packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: f.byte(),
			Connect: packets.ConnectParams{ProtocolName: name}}, nil
	}
	if err != nil {
		return packets.Packet{}, err
	}
	return decoded(h, body, version)
}

// decoded has mochi decode a packet that check has passed.
func decoded(h head, body []byte, version byte) (packets.Packet, error) {
	pk := packets.Packet{ProtocolVersion: version}
	if err := pk.FixedHeader.Decode(h.first); err != nil {
		return pk, err
	}
	pk.FixedHeader.Remaining = h.length
	var err error
	switch h.kind() { // PINGREQ and DISCONNECT have no fields
	case packets.Connect:
		err = pk.ConnectDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Puback:
		err = pk.PubackDecode(body)
	case packets.Pubrec:
		err = pk.PubrecDecode(body)
	case packets.Pubrel:
		err = pk.PubrelDecode(body)
	case packets.Pubcomp:
		err = pk.PubcompDecode(body)
	case packets.Subscribe:
		err = pk.SubscribeDecode(body)
	case packets.Unsubscribe:
		err = pk.UnsubscribeDecode(body)
	}
	return pk, err
}

// check returns what is wrong with the fields of a packet (MQTT 3.1.1, section 3).
func check(h head, body []byte) error {
	f := fields{rest: body}
	switch h.kind() {
	case packets.Connect:
		return f.connect()
	case packets.Publish:
		f.text()
		if h.first>>1&3 > 0 {
			f.id()
		}
		return f.err // the rest is the payload
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		f.id()
	case packets.Subscribe, packets.Unsubscribe:
		f.id()
		for more := true; more && f.err == nil; more = len(f.rest) > 0 { // at least one
			f.text()
			if h.kind() == packets.Subscribe && f.byte() > 2 && f.err == nil {
				return errFlags
			}
		}
	}
	return f.end()
}

// fields takes fields off a packet. After the first that is wrong it has nothing more.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
	f.rest = nil
}

func (f *fields) take(n int) []byte {
	if n > len(f.rest) {
		f.fail(errFields)
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) number() int {
	if b := f.take(2); b != nil {
		return int(b[0])<<8 | int(b[1])
	}
	return 0
}

func (f *fields) bytes() []byte { return f.take(f.number()) }

// text takes a text off (section 1.5.3).
func (f *fields) text() {
	if b := f.bytes(); !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		f.fail(errText)
	}
}

// id takes a packet ID off (section 2.3.1).
func (f *fields) id() {
	if f.number() == 0 {
		f.fail(errPacketID)
	}
}

// end returns what was wrong, or that something is left.
func (f *fields) end() error {
	if f.err == nil && len(f.rest) > 0 {
		return errFields
	}
	return f.err
}

// connect checks the fields of CONNECT (section 3.1). What is of another version is errLevel, with the rest unread.
func (f *fields) connect() error {
	name := string(f.bytes())
	level := f.byte()
	if f.err == nil && (name != "MQTT" || level != 4) && (name != "MQIsdp" || level != 3) {
		return errLevel
	}
	flags := f.byte()
	has := func(bit int) bool { return flags>>bit&1 != 0 }
	f.number() // keep-alive
	f.text()   // client ID
	if has(2) {
		f.text()
		f.bytes() // the last will's payload
	}
	if has(7) {
		f.text()
	}
	if has(6) {
		f.bytes() // the password
	}
	willQoS := flags >> 3 & 3
	if f.err == nil && (has(0) || willQoS == 3 || !has(2) && (willQoS != 0 || has(5)) || has(6) && !has(7)) {
		return errFlags
	}
	return f.end()
}
