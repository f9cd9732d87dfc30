// Package seal signs the controller's messages and verifies them on the node: desired documents, requests and beacons
// (shared/docs/wire.md, Signatures). It owns the preimages, and the Merkle tree by which one Ed25519 signature covers
// many documents. It does no I/O.
//
// A signature covers a preimage, or the root of a tree whose leaves are preimages:
//
//	leaf = SHA-256(0x00 ‖ preimage)      node = SHA-256(0x01 ‖ smaller child ‖ larger child)
//	signed = "tandem/1/root\n" ‖ root
//
// Children are sorted, so a path to the root needs no directions. A node without a sibling moves up unchanged. A leaf
// covers unit, node, kind, epoch and rev, so its position in the tree has no meaning: to be in the tree is enough.
//
//tandem:pure
package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"tandem.internal/shared/wire"
)

// Batch is the largest number of messages under one signature. With 256 leaves, a path to the root has
// at most eight steps, 344 characters in the envelope, and 256 documents cost one signature.
const Batch = 256

// KeyID returns the ID of a public key: the first 16 hexadecimal digits of its SHA-256.
func KeyID(pub ed25519.PublicKey) string {
	h := sha256.Sum256(pub)
	return hex.EncodeToString(h[:8])
}

// Signer signs with one key.
type Signer struct {
	id  string
	key ed25519.PrivateKey
}

// NewSigner returns a signer for the key.
func NewSigner(key ed25519.PrivateKey) *Signer {
	return &Signer{id: KeyID(key.Public().(ed25519.PublicKey)), key: key}
}

// Key returns the public key as the beacon has it.
func (s *Signer) Key() wire.Key {
	return wire.Key{ID: s.id, Ed25519: s.key.Public().(ed25519.PublicKey)}
}

// Sign signs one preimage directly.
func (s *Signer) Sign(preimage []byte) *wire.Signature {
	return &wire.Signature{KeyID: s.id, Ed25519: ed25519.Sign(s.key, preimage)}
}

// SignAll signs many preimages with one signature for each Batch of them. The result is in the
// order of the preimages.
func (s *Signer) SignAll(preimages [][]byte) []*wire.Signature {
	out := make([]*wire.Signature, 0, len(preimages))
	for len(preimages) > 0 {
		n := min(len(preimages), Batch)
		if n == 1 {
			out = append(out, s.Sign(preimages[0]))
		} else {
			out = append(out, s.signTree(preimages[:n])...)
		}
		preimages = preimages[n:]
	}
	return out
}

// signTree signs at least two preimages with one signature over the root of their tree.
func (s *Signer) signTree(preimages [][]byte) []*wire.Signature {
	level := make([]hash, len(preimages))
	for i, p := range preimages {
		level[i] = leaf(p)
	}
	paths := make([][]byte, len(preimages))
	for i := range paths {
		paths[i] = make([]byte, 0, 8*sha256.Size)
	}
	for width := 1; len(level) > 1; width *= 2 {
		for i := range paths {
			at := i / width
			if sibling := at ^ 1; sibling < len(level) {
				paths[i] = append(paths[i], level[sibling][:]...)
			}
		}
		up := level[:0:0]
		for i := 0; i < len(level); i += 2 {
			if i+1 < len(level) {
				up = append(up, parent(level[i], level[i+1]))
			} else {
				up = append(up, level[i])
			}
		}
		level = up
	}
	sig := ed25519.Sign(s.key, rootPreimage(level[0]))
	out := make([]*wire.Signature, len(preimages))
	for i := range out {
		out[i] = &wire.Signature{KeyID: s.id, Ed25519: sig, Path: paths[i]}
	}
	return out
}

// Trust is the set of keys that a node trusts, by key ID.
type Trust map[string]ed25519.PublicKey

// Verify checks sig over preimage. The error is a *wire.Error with CodeUnsigned, CodeUnknownKey
// or CodeBadSignature.
func (t Trust) Verify(preimage []byte, sig *wire.Signature) error {
	return t.VerifyWith(preimage, sig, ed25519.Verify)
}

// VerifyWith is Verify with another function for the Ed25519 check: a process that simulates a thousand nodes can cache
// the roots that it has checked.
func (t Trust) VerifyWith(preimage []byte, sig *wire.Signature,
	check func(pub ed25519.PublicKey, message, sig []byte) bool) error {
	if sig == nil || len(sig.Ed25519) == 0 {
		return wire.New(wire.CodeUnsigned, "/sig", "no signature")
	}
	pub, ok := t[sig.KeyID]
	if !ok {
		return wire.New(wire.CodeUnknownKey, "/sig/kid", fmt.Sprintf("key %.64q is not one of this unit's", sig.KeyID))
	}
	if len(pub) != ed25519.PublicKeySize { // ed25519 panics on it
		return wire.New(wire.CodeUnknownKey, "/sig/kid", "the key is malformed")
	}
	if len(sig.Ed25519) != ed25519.SignatureSize || len(sig.Path)%sha256.Size != 0 || len(sig.Path) > 64*sha256.Size {
		return wire.New(wire.CodeBadSignature, "/sig", "malformed")
	}
	message := preimage
	if len(sig.Path) > 0 {
		h := leaf(preimage)
		for p := sig.Path; len(p) > 0; p = p[sha256.Size:] {
			h = parent(h, hash(p[:sha256.Size]))
		}
		message = rootPreimage(h)
	}
	if !check(pub, message, sig.Ed25519) {
		return wire.New(wire.CodeBadSignature, "/sig/ed25519", "does not match the message")
	}
	return nil
}

// hash is a node of the Merkle tree.
type hash [sha256.Size]byte

// leaf returns the leaf of a preimage.
func leaf(preimage []byte) hash {
	var buf [512]byte
	return sha256.Sum256(append(append(buf[:0], 0), preimage...))
}

// parent returns the node above two children, in either order.
func parent(a, b hash) hash {
	var buf [1 + 2*sha256.Size]byte
	buf[0] = 1
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	copy(buf[1:], a[:])
	copy(buf[1+sha256.Size:], b[:])
	return sha256.Sum256(buf[:])
}

// rootPreimage returns the text that is signed for the root of a tree.
func rootPreimage(root hash) []byte {
	return append([]byte("tandem/1/root\n"), root[:]...)
}

// DesiredPreimage returns the text that a desired document's signature covers: one line each for message type, unit,
// node, kind, epoch, rev, version, hash, mode and confirmWithin. No field of a message that wire.Decode accepts has a
// control character, so no two messages have the same preimage.
func DesiredPreimage(d *wire.Desired) []byte {
	b := make([]byte, 0, 256)
	b = append(b, "tandem/1/desired\n"...)
	b = line(b, d.Unit)
	b = line(b, d.Node)
	b = line(b, string(d.Kind))
	b = append(strconv.AppendUint(b, d.Epoch, 10), '\n')
	b = append(strconv.AppendUint(b, d.Rev, 10), '\n')
	b = line(b, d.Version)
	b = line(b, d.Hash)
	b = line(b, string(d.Mode))
	return line(b, d.ConfirmWithin)
}

// RequestPreimage returns the text that a request's signature covers: one line each for message type, unit, node, id,
// method, notAfter, and the hash of the exact bytes of params.
func RequestPreimage(r *wire.Request) []byte {
	b := make([]byte, 0, 256)
	b = append(b, "tandem/1/request\n"...)
	b = line(b, r.Unit)
	b = line(b, r.Node)
	b = line(b, r.ID)
	b = line(b, string(r.Method))
	b = line(b, r.NotAfter.UTC().Format(time.RFC3339Nano))
	return line(b, wire.Hash(r.Params))
}

// BeaconPreimage returns the text that a beacon's signature covers: all its fields. Each optional line begins with a
// word and a space, so that it differs from every other line.
func BeaconPreimage(m *wire.Beacon) []byte {
	b := make([]byte, 0, 256)
	b = append(b, "tandem/1/beacon\n"...)
	b = line(b, m.Unit)
	b = append(strconv.AppendUint(b, m.Epoch, 10), '\n')
	b = append(strconv.AppendBool(b, m.Up), '\n')
	b = line(b, m.Time.UTC().Format(time.RFC3339Nano))
	for _, k := range m.Keys {
		b = line(b, k.ID)
		b = line(b, hex.EncodeToString(k.Ed25519))
	}
	b = line(b, m.Jitter)
	if m.KeysRev != 0 {
		b = line(b, "keys "+strconv.FormatUint(m.KeysRev, 10))
	}
	if !m.Maintenance.IsZero() { // the jitter, a duration or empty, does not begin so
		b = line(b, "maintenance "+m.Maintenance.UTC().Format(time.RFC3339Nano))
	}
	return b
}

// SignBeacon signs a beacon. With newest, the stamp of the newest document of the unit, the signature has a path: its
// one sibling is a mark that changes with newest.
func (s *Signer) SignBeacon(m *wire.Beacon, newest wire.Stamp) *wire.Signature {
	if newest.IsZero() {
		return s.Sign(BeaconPreimage(m))
	}
	b := line([]byte("tandem/1/newest\n"), m.Unit)
	b = append(strconv.AppendUint(b, newest.Epoch, 10), '\n')
	b = append(strconv.AppendUint(b, newest.Rev, 10), '\n')
	return s.signTree([][]byte{BeaconPreimage(m), b})[0]
}

// Mark returns the mark of a signed beacon, in hexadecimal; "" if it has none.
func Mark(m *wire.Beacon) string {
	if m.Sig == nil || len(m.Sig.Path) != sha256.Size {
		return ""
	}
	return hex.EncodeToString(m.Sig.Path)
}

// line appends s and a line feed. It writes a line feed in s, which no valid field has, as NUL, so that a message that
// wire.Decode refuses cannot have the preimage of one that it accepts.
func line(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\n' {
			c = 0
		}
		b = append(b, c)
	}
	return append(b, '\n')
}
