// Package publishertest signs as a publisher does, for tests. That the program minisign takes such signatures, and
// writes such, is shown by the tests of package publisher.
package publishertest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"testing"

	"tandem.internal/shared/publisher"
)

// Signer is a publisher's pair of keys.
type Signer struct {
	id  []byte
	key ed25519.PrivateKey
}

// New makes a pair of keys of a number; the same number makes the same.
func New(number byte) Signer {
	return Signer{bytes.Repeat([]byte{number}, 8),
		ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))}
}

// As returns the signer with the ID of another key, as somebody would have it who takes another's name.
func (s Signer) As(o Signer) Signer { s.id = o.id; return s }

func (s Signer) encode(algorithm string, b []byte) string {
	return base64.StdEncoding.EncodeToString(append(append([]byte(algorithm), s.id...), b...))
}

// Public is the public key as --publisher-key takes it.
func (s Signer) Public() string { return s.encode("Ed", s.key.Public().(ed25519.PublicKey)) }

// Keys are the key as a node has it.
func (s Signer) Keys(t testing.TB) publisher.Keys {
	t.Helper()
	k, err := publisher.ParseKey(s.Public())
	if err != nil {
		t.Fatal(err)
	}
	return publisher.Keys{k}
}

// Sign returns the signature of a file as a resource's "minisign" has it.
func (s Signer) Sign(file []byte) string { return s.SignAs(file, "for a test") }

// SignAs is Sign with a trusted comment.
func (s Signer) SignAs(file []byte, comment string) string {
	h := publisher.NewHash()
	h.Write(file)
	sig := ed25519.Sign(s.key, h.Sum(nil))
	global := ed25519.Sign(s.key, append(bytes.Clone(sig), comment...))
	return s.encode("ED", sig) + "\ntrusted comment: " + comment + "\n" + base64.StdEncoding.EncodeToString(global)
}
