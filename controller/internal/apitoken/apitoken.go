// Package apitoken owns the secret of an operator's token, and the text in which people hand it on. Controller and
// operator's program read that text alike.
//
// It guarantees that a text that was cut short or mistyped is told from a whole one, and that nothing but Text shows a
// secret. It must not know which tokens there are: package tokens does.
package apitoken

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

const (
	// Prefix begins every token, so that people and secret scanners know one when they see it.
	Prefix    = "tdo1."
	secretLen = 32
	rawLen    = secretLen + crc32.Size
	textLen   = len(Prefix) + rawLen*8/6
)

// Secret is the secret of a token: 256 random bits.
type Secret [secretLen]byte

// New makes a secret from the system's random source, which does not fail.
func New() Secret {
	var s Secret
	_, _ = rand.Read(s[:]) // documented never to fail
	return s
}

// Text is the token as people copy it. The checksum at its end tells a token that was cut short or
// mistyped from a whole one that the controller does not know.
func (s Secret) Text() string {
	b := binary.BigEndian.AppendUint32(s[:], crc32.ChecksumIEEE(s[:]))
	return Prefix + base64.RawURLEncoding.EncodeToString(b)
}

// Hash is the form in which a secret is kept. A slow hash, as for passwords, would make each request
// slow and protect nothing: all bits of a secret are random, so an attacker with the hash would have
// to try 2^255 secrets.
func (s Secret) Hash() [sha256.Size]byte { return sha256.Sum256(s[:]) }

// String does not show the secret, whatever prints it.
func (Secret) String() string { return "(secret)" }

// Format does not show the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(secret)") }

// MarshalText does not show the secret in JSON or a log either.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// ErrFormat is in every error of Parse. The text itself never is.
var ErrFormat = errors.New("this is not a whole token")

// Parse reads a token. White space around it, which copying adds, is left out.
func Parse(text string) (s Secret, err error) {
	bad := func(why string) (Secret, error) { return Secret{}, fmt.Errorf("%w: %s", ErrFormat, why) }
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, Prefix)
	switch {
	case text == "":
		return bad("it is empty")
	case strings.HasPrefix(text, "tdm"):
		return bad("it is one with which a node joins; an operator's begins with " + Prefix)
	case !ok:
		return bad("it does not begin with " + Prefix)
	case len(text) < textLen:
		return bad("a part of it is missing")
	case len(text) > textLen:
		return bad("it is too long; was it pasted twice?")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(b) != rawLen { // the decoder skips line ends
		return bad("it has a character that tokens do not have")
	}
	if crc32.ChecksumIEEE(b[:secretLen]) != binary.BigEndian.Uint32(b[secretLen:]) {
		return bad("a character is wrong")
	}
	copy(s[:], b)
	return s, nil
}
