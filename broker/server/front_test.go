package server

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"tandem.internal/shared/wire"
)

// session311 are packets of a client, as they are on the wire.
var session311 = []string{
	"\x10\x13\x00\x04MQTT\x04\x02\x00\x3c\x00\x07node/n1",
	"\x10\x2b\x00\x04MQTT\x04\xee\x00\x3c\x00\x07node/n1\x00\x03a/b\x00\x04down\x00\x07node/n1\x00\x02pw",
	"\x82\x08\x00\x01\x00\x03a/#\x01", "\xa2\x07\x00\x02\x00\x03a/#", "\x30\x05\x00\x01thi",
	"\x3b\x07\x00\x01t\x00\x03hi",
	"\x40\x02\x00\x01", "\x50\x02\x00\x01", "\x62\x02\x00\x01", "\x70\x02\x00\x01", "\xc0\x00", "\xe0\x00",
}

// take reads one packet as a connection does.
func take(data string) (packets.Packet, error) {
	l, err := Limits{}.withDefaults()
	if err != nil {
		return packets.Packet{}, err
	}
	r := bufio.NewReader(strings.NewReader(data))
	h, err := readHead(r, data == "" || data[0]>>4 != packets.Connect, &l)
	if err != nil {
		return packets.Packet{}, err
	}
	return readBody(r, h, 4)
}

// What MQTT 3.1.1 allows is taken; what it does not, is refused before mochi decodes it.
func TestFront(t *testing.T) {
	for _, data := range session311 {
		if _, err := take(data); err != nil {
			t.Errorf("%q: %v", data, err)
		}
	}
	for data, want := range map[string]error{
		"\x20\x02\x00\x00":                   errKind,
		"\x90\x03\x00\x01\x00":               errKind,
		"\xd0\x00":                           errKind,
		"\xf0\x00":                           errKind,
		"\x00\x00":                           errKind,
		"\x36\x05\x00\x01thi":                errFlags,
		"\x38\x05\x00\x01thi":                errFlags,
		"\x80\x08\x00\x01\x00\x03a/#\x01":    errFlags,
		"\xc1\x00":                           errFlags,
		"\x60\x02\x00\x01":                   errFlags,
		"\xc0\x01\x00":                       errLength,
		"\x40\x03\x00\x01\x00":               errLength,
		"\x40\xff\xff\xff\xff\x01":           errLength,
		"\x30\xff\xff\xff\x7f":               packets.ErrPacketTooLarge,
		"\x40\x02\x00\x00":                   errPacketID,
		"\x82\x08\x00\x00\x00\x03a/#\x01":    errPacketID,
		"\x82\x02\x00\x01":                   errFields,
		"\x82\x08\x00\x01\x00\x03a/#\x03":    errFlags,
		"\x82\x07\x00\x01\x00\x03a/#":        errFields,
		"\x82\x08\x00\x01\x00\x03\xff/#\x01": errText,
		"\xa2\x07\x00\x01\x00\x03a\x00b":     errText,
		"\x30\x02\x00\x05":                   errFields,
		"\xa2\x08\x00\x01\x00\x03a/#x":       errFields,
		"\x30\x03\x00\x01\xc0":               errText,
		"\x10\x14\x00\x04MQTT\x04\x02\x00\x3c\x00\x07node/n1x":          errFields,
		"\x10\x13\x00\x04MQTT\x04\x03\x00\x3c\x00\x07node/n1":           errFlags,
		"\x10\x13\x00\x04MQTT\x04\x22\x00\x3c\x00\x07node/n1":           errFlags,
		"\x10\x17\x00\x04MQTT\x04\x42\x00\x3c\x00\x07node/n1\x00\x02pw": errFlags, // a password without a user name
		"\x10\x13\x00\x04MQTT\x04\x02\x00\x3c\x00\x07node/n\xff":        errText,
		"\x10\x05\x00\x04MQT": errFields,
	} {
		if _, err := take(data); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", data, err, want)
		}
	}
	// Of another version only the name and the number are looked at, whatever follows.
	pk, err := take("\x10\x0b\x00\x04MQTT\x05\x02\x00\x3c\xff")
	if err != nil || pk.ProtocolVersion != 5 || string(pk.Connect.ProtocolName) != "MQTT" {
		t.Errorf("%+v %v", pk, err)
	}
}

// FuzzFront: what the reader takes, mochi decodes without a panic and without an error; nothing longer than the limit
// is read.
func FuzzFront(f *testing.F) {
	for _, data := range session311 {
		f.Add([]byte(data))
	}
	f.Add([]byte("\x10\x0b\x00\x04MQTT\x05\x02\x00\x3c\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Limits{}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(bytes.NewReader(data))
		for connected := false; ; connected = true {
			h, err := readHead(r, connected, &l)
			if err != nil {
				return
			}
			if h.length > wire.MaxPacket || (h.kind() == packets.Connect) == connected {
				t.Fatalf("taken: %+v", h)
			}
			body := make([]byte, min(h.length, len(data)))
			n, _ := r.Read(body)
			if n < h.length || check(h, body) != nil {
				return
			}
			pk, err := decoded(h, body, 4)
			if err != nil {
				t.Fatalf("%x %x: mochi does not decode it: %v", h.first, body, err)
			}
			_ = pk.ConnectValidate()
			_ = pk.PublishValidate(0)
			_ = pk.SubscribeValidate()
			_ = pk.UnsubscribeValidate()
		}
	})
}
