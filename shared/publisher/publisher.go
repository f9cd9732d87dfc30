// Package publisher knows the signatures of publishers: who vouches for the files that nodes run (ADR 049). A publisher
// signs files as the program minisign does (https://jedisct1.github.io/minisign/, "Signature format"): Ed25519 over the
// BLAKE2b-512 of the file, and over that signature with its trusted comment.
//
// It guarantees: nothing else is taken, neither the older signatures of files that are not hashed nor another text for
// the same bytes. It must not know where signatures travel, or what is done with the files.
//
//tandem:pure
package publisher

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/blake2b"
)

// Bounds of what is read.
const (
	MaxSignature = 1024 // bytes of the text of a signature
	MaxKeys      = 12   // keys that one node knows: their IDs have room in one attribute of the wire
	MaxFile      = 8192 // bytes of a file with public keys
)

// NewHash returns what a file is hashed with.
func NewHash() hash.Hash {
	h, err := blake2b.New512(nil)
	if err != nil {
		panic("publisher: BLAKE2b without a key: " + err.Error())
	}
	return h
}

// ID names a key, as minisign prints it: 16 hex digits in capital letters.
type ID string

func newID(b []byte) ID { return ID(fmt.Sprintf("%016X", binary.LittleEndian.Uint64(b))) }

const (
	untrusted = "untrusted comment:"
	trusted   = "trusted comment: "

	plainAlgorithm  = "Ed" // of keys, and of signatures of files that were not hashed
	hashedAlgorithm = "ED"
)

// JoinIDs writes IDs into one text.
func JoinIDs(ids []ID, between string) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(string(id))
	}
	return b.String()
}

// ParseIDs reads what JoinIDs has written with spaces between. What is no ID is left out.
func ParseIDs(text string) (ids []ID) {
	for _, f := range strings.Fields(text) {
		if b, err := hex.DecodeString(f); err == nil && len(b) == 8 {
			ids = append(ids, ID(strings.ToUpper(f)))
		}
	}
	return ids
}

// Key is the public half of a publisher's key.
type Key struct {
	id  ID
	key ed25519.PublicKey
}

// ID is the key's.
func (k Key) ID() ID { return k.id }

// String is the key as ParseKey reads it.
func (k Key) String() string {
	id := make([]byte, 8)
	hexed, _ := hex.DecodeString(string(k.id)) // which newID has written
	for i, b := range hexed {
		id[len(id)-1-i] = b
	}
	return base64.StdEncoding.EncodeToString(slices.Concat([]byte(plainAlgorithm), id, k.key))
}

// decode reads base64 that has one text only, of n bytes that begin with algorithm.
func decode(text string, n int) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != n || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("%d bytes in base64 are wanted", n)
	}
	return b, nil
}

// ParseKey reads a public key: the second line of a .pub file of minisign, 56 letters of base64.
func ParseKey(text string) (Key, error) {
	b, err := decode(text, 2+8+ed25519.PublicKeySize)
	switch {
	case err != nil:
		return Key{}, err
	case string(b[:2]) != plainAlgorithm:
		return Key{}, errors.New("it is no key of minisign")
	}
	return Key{newID(b[2:10]), b[10:]}, nil
}

// Keys are those that a node was given.
type Keys []Key

// ParseKeys reads a file with public keys, one a line; empty lines and untrusted comments are passed over. The error
// names the line.
func ParseKeys(text string) (Keys, error) {
	var all Keys
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, untrusted) {
			continue
		}
		k, err := ParseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is no public key of minisign: %w", n, err)
		}
		all = append(all, k)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no public key in it")
	}
	return all, nil
}

// IDs are those of the keys, sorted, each once.
func (ks Keys) IDs() []ID {
	ids := make([]ID, 0, len(ks))
	for _, k := range ks {
		ids = append(ids, k.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Signature is one of a file.
type Signature struct {
	id      ID
	file    []byte // over the file's hash
	comment string // trusted
	global  []byte // over file and comment
	expires time.Time
	floor   string
}

// ID is that of the key which the signature says that it is made with.
func (s Signature) ID() ID { return s.id }

// Comment is the trusted comment. It is the publisher's where Keys.Check found nothing wrong.
func (s Signature) Comment() string { return s.comment }

// Parse reads the text of a signature: what minisign writes into a .minisig file, with or without its first line, the
// untrusted comment, and with or without the end of its last line.
func Parse(text string) (Signature, error) {
	if len(text) > MaxSignature {
		return Signature{}, fmt.Errorf("more than %d bytes", MaxSignature)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if strings.HasPrefix(lines[0], untrusted) {
		lines = lines[1:]
	}
	if len(lines) != 3 {
		return Signature{}, errors.New("three lines are wanted below an untrusted comment: the signature, its " +
			"trusted comment, and the signature of both")
	}
	b, err := decode(lines[0], 2+8+ed25519.SignatureSize)
	if err != nil {
		return Signature{}, fmt.Errorf("in the line of the signature, %w", err)
	}
	switch string(b[:2]) {
	case hashedAlgorithm:
	case plainAlgorithm:
		return Signature{}, errors.New("it is of the older kind, of a file that was not hashed: sign with minisign " +
			"-H, which is the default since 0.10")
	default:
		return Signature{}, errors.New("it is no signature of minisign")
	}
	comment, ok := strings.CutPrefix(lines[1], trusted)
	if !ok {
		return Signature{}, errors.New("the line below the signature does not begin with " + strings.TrimSpace(trusted))
	}
	if strings.ContainsFunc(comment, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return Signature{}, errors.New("there are control characters in the trusted comment")
	}
	global, err := decode(lines[2], ed25519.SignatureSize)
	if err != nil {
		return Signature{}, fmt.Errorf("in the last line, %w", err)
	}
	expires, err := parseExpiry(comment)
	if err != nil {
		return Signature{}, err
	}
	floor, err := parseFloor(comment)
	if err != nil {
		return Signature{}, err
	}
	return Signature{newID(b[2:10]), b[10:], comment, global, expires, floor}, nil
}

// What may be wrong with a signature.
var (
	ErrUnknown = errors.New("it is made with a key that is not known here")
	ErrForged  = errors.New("it was not made by the owner of its key, or was altered since")
	ErrOther   = errors.New("it is a signature of another content")
)

// Check says what is wrong with a signature, as far as that shows without the file: ErrUnknown or ErrForged.
func (ks Keys) Check(s Signature) error {
	_, err := ks.signer(s)
	return err
}

// signer is the key that made the signature.
func (ks Keys) signer(s Signature) (Key, error) {
	err := ErrUnknown
	for _, k := range ks {
		if k.id != s.id {
			continue
		}
		if ed25519.Verify(k.key, slices.Concat(s.file, []byte(s.comment)), s.global) {
			return k, nil
		}
		err = ErrForged
	}
	return Key{}, err
}

// Verify says whether a signature is that of a file with this digest, of NewHash, by the owner of a key. The error is
// one of Check, or ErrOther.
func (ks Keys) Verify(s Signature, digest []byte) error {
	k, err := ks.signer(s)
	if err != nil {
		return err
	}
	if !ed25519.Verify(k.key, digest, s.file) {
		return ErrOther
	}
	return nil
}
