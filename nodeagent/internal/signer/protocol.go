package signer

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/wire"
)

// Protocol is the newest version of the protocol that this program speaks. Versions only add: an operation that the
// program does not know is answered with CodeNotSupported.
//
//	1: make, sign, store, read
const Protocol = 1

// The operations. A connection has one question and one answer, a line of JSON each.
const (
	OpMake  = "make"  // makes a key, and drops those that Keep does not name
	OpSign  = "sign"  // signs Message with Key
	OpStore = "store" // keeps Secret, with Label, in the place of the one before
	OpRead  = "read"  // returns what was stored last; CodeNotFound if nothing was
)

// Bounds.
const (
	MaxLine    = 16 << 10 // bytes of a question or an answer
	MaxKeep    = 8        // keys in Keep
	MaxMessage = 4 << 10  // bytes to be signed
	MaxLabel   = 256      // bytes
	MaxSecret  = 64       // bytes; what a TPM seals has at most 128
)

// Question is what the agent asks.
type Question struct {
	Protocol int      `json:"protocol"`
	Op       string   `json:"op"`
	Key      string   `json:"key,omitempty"`  // ID
	Keep     []string `json:"keep,omitempty"` // IDs
	Message  []byte   `json:"message,omitempty"`
	Label    string   `json:"label,omitempty"`
	Secret   []byte   `json:"secret,omitempty"`
}

// Answer is what the program answers.
type Answer struct {
	Error     *wire.Error `json:"error,omitempty"`
	Public    []byte      `json:"public,omitempty"`    // PKIX, of a new key
	Signature []byte      `json:"signature,omitempty"` // ASN.1, ECDSA with SHA-256
	Label     string      `json:"label,omitempty"`
	Secret    []byte      `json:"secret,omitempty"`
}

// ID names a key: the SHA-256 of its public part in PKIX form, in hexadecimal.
func ID(pub crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("name a key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// Write writes a question or an answer.
func Write(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	if len(data) >= MaxLine {
		return errTooLong
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

var errTooLong = fmt.Errorf("the message has more than %d bytes", MaxLine)

// Read reads a question or an answer. The error is io.EOF if the other side has hung up instead.
func Read(r io.Reader, v any) error {
	line, err := bufio.NewReader(io.LimitReader(r, MaxLine)).ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) >= MaxLine:
		return errTooLong
	case errors.Is(err, io.EOF) && len(line) > 0:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), v); err != nil {
		return fmt.Errorf("the message is not JSON of its format: %w", err)
	}
	return nil
}
