// Package jointoken owns the one-time token with which a node joins a unit, and the messages between the node and the
// join door.
//
// A token has the name of the node, a secret, and the fingerprint of the unit's CA, so the node need not trust the
// network between it and the controller. It is one word with a checksum: a token that is cut off or mistyped is an
// error before the node sends anything.
//
// The package is pure. It does not know which tokens are valid. Only Token.Text and JoinRequest contain the secret;
// formatted output of the other types does not.
//
//tandem:pure
package jointoken

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"tandem.internal/shared/wire"
)

// Prefix is the beginning of every token, by which people and secret scanners recognize it.
const Prefix = "tdm1."

// MaxText is the longest token's length in bytes.
const MaxText = len(Prefix) + (maxRaw*8+5)/6

const (
	format    = 1
	ofBatch   = 2 // the format of a token of a batch: the name is that of the batch
	maxName   = 63
	secretLen = 16
	minRaw    = 1 + 1 + 1 + secretLen + sha256.Size + crc32.Size
	maxRaw    = minRaw - 1 + maxName
)

// Secret is 128 random bits that only the issuer and the holder of a token know.
type Secret [secretLen]byte

// Hash returns the SHA-256 of the secret in hexadecimal: the form in which the controller stores it. All bits of a
// secret are random, so a slower hash would not protect it better.
func (s Secret) Hash() string {
	sum := sha256.Sum256(s[:])
	return hex.EncodeToString(sum[:])
}

// String returns a text without the secret.
func (Secret) String() string { return "(secret)" }

// Format writes a text without the secret for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(secret)") }

// MarshalText returns a text without the secret, also for JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Fingerprint is the SHA-256 of a CA certificate in DER.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the fingerprint of a certificate in DER.
func FingerprintOf(der []byte) Fingerprint { return sha256.Sum256(der) }

// String returns "sha256:" and 64 hexadecimal digits.
func (f Fingerprint) String() string { return wire.HashPrefix + hex.EncodeToString(f[:]) }

// ID is the beginning of the fingerprint, 16 hexadecimal digits: what people and attributes call a CA.
func (f Fingerprint) ID() string { return hex.EncodeToString(f[:8]) }

// BelievedName is the name for which a client asks in the TLS handshake with a controller (RFC 6066, section 3), to say
// which CA it believes: a controller that has several shows a certificate of that one. The certificate's name is
// ServerName all the same.
func BelievedName(ca Fingerprint) string {
	return "ca-" + hex.EncodeToString(ca[:16]) + ".tandem.internal"
}

// KeyedName is BelievedName of a node whose certificate is of a CA that does not count any more: the join door takes it
// for who has the key of the certificate, if the unit has certified that key.
func KeyedName(ca Fingerprint) string {
	return "key-" + hex.EncodeToString(ca[:16]) + ".tandem.internal"
}

// Token is a join token: of one node, or of a batch, with which each of some nodes joins under a name of its own.
type Token struct {
	Node   string // the node; of a batch empty, until the node that joins has set it
	Batch  string // the batch; "": it is of one node
	Secret Secret
	CA     Fingerprint
}

// New returns a token for a node, with a secret read from random.
func New(node string, ca Fingerprint, random io.Reader) (Token, error) {
	if !wire.ValidName(node) {
		return Token{}, fmt.Errorf("%.80q is not a node ID", node)
	}
	return Token{Node: node, CA: ca}.drawn(random)
}

// NewBatch returns a token of a batch, with a secret read from random.
func NewBatch(batch string, ca Fingerprint, random io.Reader) (Token, error) {
	if !wire.ValidName(batch) {
		return Token{}, fmt.Errorf("%.80q cannot name a batch", batch)
	}
	return Token{Batch: batch, CA: ca}.drawn(random)
}

func (t Token) drawn(random io.Reader) (Token, error) {
	if _, err := io.ReadFull(random, t.Secret[:]); err != nil {
		return Token{}, fmt.Errorf("make a secret: %w", err)
	}
	return t, nil
}

// Text returns the token as people copy it, with the secret. It panics unless the name of the node or the batch is
// valid.
func (t Token) Text() string {
	name, is := t.Node, byte(format)
	if t.Batch != "" {
		name, is = t.Batch, ofBatch
	}
	if !wire.ValidName(name) {
		panic("jointoken: a token for no node")
	}
	b := make([]byte, 0, maxRaw)
	b = append(b, is, byte(len(name)))
	b = append(b, name...)
	b = append(b, t.Secret[:]...)
	b = append(b, t.CA[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return Prefix + base64.RawURLEncoding.EncodeToString(b)
}

// String returns a text without the secret.
func (t Token) String() string {
	if t.Batch != "" {
		return fmt.Sprintf("token of the batch %q of %s", t.Batch, t.CA)
	}
	return fmt.Sprintf("token for node %q of %s", t.Node, t.CA)
}

// GoString returns a text without the secret.
func (t Token) GoString() string { return t.String() }

// ErrFormat is wrapped by every error of Parse. The error does not contain the text.
var ErrFormat = errors.New("this is not a whole join token")

// Parse reads a token. It ignores white space around it. The error wraps ErrFormat.
func Parse(text string) (Token, error) {
	bad := func(why string) (Token, error) { return Token{}, fmt.Errorf("%w: %s", ErrFormat, why) }
	text = strings.TrimSpace(text)
	if text == "" {
		return bad("it is empty")
	}
	rest, ok := strings.CutPrefix(text, Prefix)
	switch {
	case !ok:
		return bad("it does not begin with " + Prefix)
	case len(text) > MaxText:
		return bad("it is too long; was it pasted twice?")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || strings.ContainsAny(rest, "\r\n") { // the decoder skips line ends
		return bad("it has a character that tokens do not have, or lacks one")
	}
	if len(b) > 0 && b[0] != format && b[0] != ofBatch {
		return bad(fmt.Sprintf("format %d is newer than this program", b[0]))
	}
	if len(b) < minRaw || len(b) != minRaw-1+int(b[1]) {
		return bad("a part of it is missing, or too much is there")
	}
	body, sum := b[:len(b)-crc32.Size], b[len(b)-crc32.Size:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) {
		return bad("a character is wrong")
	}
	var t Token
	rest2 := body[2:]
	name := string(rest2[:b[1]])
	rest2 = rest2[b[1]:]
	copy(t.Secret[:], rest2)
	copy(t.CA[:], rest2[secretLen:])
	if !wire.ValidName(name) {
		return bad("it names no node")
	}
	if b[0] == ofBatch {
		t.Batch = name
	} else {
		t.Node = name
	}
	return t, nil
}
