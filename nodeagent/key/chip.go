package key

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
)

// Chip makes keys and uses them. What it gives to be kept is all that it needs again; it has no state of its own on the
// disk. It belongs to one goroutine.
type Chip interface {
	// Name says what it is: keys of one kind of chip are no good to another.
	Name() string
	// Make makes an ECDSA key on P-256.
	Make() (pub *ecdsa.PublicKey, kept []byte, err error)
	// Sign signs a SHA-256 digest; the signature is in ASN.1.
	Sign(kept, digest []byte) (signature []byte, err error)
	// Seal and Unseal keep a secret.
	Seal(secret []byte) (kept []byte, err error)
	Unseal(kept []byte) (secret []byte, err error)
}

// Files is the chip of a machine that has none: it gives the keys themselves to be kept.
type Files struct{}

// Name is "file".
func (Files) Name() string { return "file" }

// Make makes a key.
func (Files) Make() (*ecdsa.PublicKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	kept, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return &key.PublicKey, kept, nil
}

// Sign signs.
func (Files) Sign(kept, digest []byte) ([]byte, error) {
	any, err := x509.ParsePKCS8PrivateKey(kept)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be read: %w", err)
	}
	key, ok := any.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is none of ECDSA")
	}
	return ecdsa.SignASN1(rand.Reader, key, digest)
}

// Seal returns the secret.
func (Files) Seal(secret []byte) ([]byte, error) { return secret, nil }

// Unseal returns the secret.
func (Files) Unseal(kept []byte) ([]byte, error) { return kept, nil }
