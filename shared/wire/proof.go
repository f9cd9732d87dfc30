package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// Heard is the newest beacon that a node had heard when it said something: the message is not older than that.
type Heard struct {
	Epoch uint64    `json:"epoch"` // of the beacon; 0: none was heard
	Time  time.Time `json:"time"`  // of the beacon
}

// Before reports whether h is older than other: by epoch, then by time.
func (h Heard) Before(other Heard) bool {
	return h.Epoch < other.Epoch || h.Epoch == other.Epoch && h.Time.Before(other.Time)
}

// Proof shows that a message is from the node that holds a report key.
type Proof struct {
	Heard Heard
	MAC   [sha256.Size]byte // see Prove
}

// ReportKeySize is the length of a report key in bytes.
const ReportKeySize = 32

// maxProof is the greatest length of the members that Prove adds, in bytes.
const maxProof = 192

// Prove returns a message of a node with its proof: the two members "heard" and "proof" at the end of the object. The
// proof is HMAC-SHA-256 (RFC 2104) over the topic, the epoch and the time of heard, each ended by a line feed, and the
// message as it was.
func Prove(key []byte, topic string, message []byte, heard Heard) []byte {
	mac := proofSum(key, topic, message, heard)
	out := make([]byte, 0, len(message)+maxProof)
	out = append(out, message[:len(message)-1]...)
	out = append(out, heardMember...)
	out = strconv.AppendUint(out, heard.Epoch, 10)
	out = append(out, timeMember...)
	out = appendTime(out, heard.Time)
	out = append(out, proofMember...)
	out = base64.StdEncoding.AppendEncode(out, mac[:])
	return append(out, `"}`...)
}

// The texts around the values of a proof.
const (
	heardMember = `,"heard":{"epoch":`
	timeMember  = `,"time":"`
	proofMember = `"},"proof":"`
)

func appendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, time.RFC3339Nano) }

func proofSum(key []byte, topic string, message []byte, heard Heard) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, key)
	var head [256]byte
	b := append(head[:0], topic...)
	b = append(b, '\n')
	b = strconv.AppendUint(b, heard.Epoch, 10)
	b = append(b, '\n')
	b = appendTime(b, heard.Time)
	b = append(b, '\n')
	h.Write(b)
	h.Write(message)
	h.Sum(mac[:0])
	return mac
}

// SplitProof returns a message as it was before Prove, and its proof; nil if it has none. A message that ends in
// another way than Prove ends it has no proof, and is returned as it is. The message shares no memory with data if
// there is a proof.
func SplitProof(data []byte) (message []byte, p *Proof) {
	const tail = base64Size + len(`"}`)
	i := bytes.LastIndex(data[max(0, len(data)-maxProof):], []byte(heardMember))
	if i < 0 || !bytes.HasSuffix(data, []byte(`"}`)) {
		return data, nil
	}
	i += max(0, len(data)-maxProof)
	epoch, rest, ok := bytes.Cut(data[i+len(heardMember):], []byte(timeMember))
	if !ok {
		return data, nil
	}
	at, mac, ok := bytes.Cut(rest, []byte(proofMember))
	if !ok || len(mac) != tail {
		return data, nil
	}
	p = &Proof{}
	var err error
	if p.Heard.Epoch, err = strconv.ParseUint(string(epoch), 10, 64); err != nil ||
		strconv.FormatUint(p.Heard.Epoch, 10) != string(epoch) {
		return data, nil
	}
	var buf [64]byte
	if p.Heard.Time, err = time.Parse(time.RFC3339Nano, string(at)); err != nil ||
		string(appendTime(buf[:0], p.Heard.Time)) != string(at) {
		return data, nil
	}
	raw, err := strict64.AppendDecode(buf[:0], mac[:base64Size])
	if err != nil || len(raw) != len(p.MAC) {
		return data, nil
	}
	p.MAC = [sha256.Size]byte(raw)
	return append(append(make([]byte, 0, i+1), data[:i]...), '}'), p
}

var strict64 = base64.StdEncoding.Strict()

// base64Size is the length of a MAC in base64.
const base64Size = (sha256.Size + 2) / 3 * 4

// Verify reports whether the proof of a message on a topic was made with a key. It takes the same time for each wrong
// proof.
func (p *Proof) Verify(key []byte, topic string, message []byte) bool {
	want := proofSum(key, topic, message, p.Heard)
	return hmac.Equal(want[:], p.MAC[:])
}

// Since is what the sender of a message had heard; the zero Heard if p is nil.
func (p *Proof) Since() Heard {
	if p == nil {
		return Heard{}
	}
	return p.Heard
}

// BootNumber is the number of a boot that is called by it, a hyphen and 16 hex digits in lower case: of two boots of a
// node whose state was not lost in between, the later one has the higher number. It is 0 for any other name.
func BootNumber(boot string) uint64 {
	number, random, _ := strings.Cut(boot, "-")
	if len(random) != 16 || strings.Trim(random, "0123456789abcdef") != "" {
		return 0
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != number {
		return 0
	}
	return n
}
