package fleet

import (
	"crypto/ed25519"
	"fmt"
	"sync"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// trust is what the nodes of one process believe: the unit's keys, pinned on first contact, and
// which signatures over which roots were found good.
type trust struct {
	mu   sync.RWMutex
	keys seal.Trust // nil until the first beacon
	good map[rooted]struct{}
}

// rooted is a root's preimage, 46 bytes, and its signature.
type rooted struct {
	message [46]byte
	sig     [ed25519.SignatureSize]byte
}

// maxRoots bounds the memory of good signatures.
const maxRoots = 1 << 14

// pin takes the keys of the first beacon whose signature one of them made.
func (t *trust) pin(b *wire.Beacon) error {
	t.mu.RLock()
	keys := t.keys
	t.mu.RUnlock()
	first := keys == nil
	if first {
		keys = seal.Trust{}
		for _, k := range b.Keys {
			if seal.KeyID(k.Ed25519) != k.ID {
				return wire.New(wire.CodeUnknownKey, "/keys", fmt.Sprintf("the key %.64q has another name", k.ID))
			}
			keys[k.ID] = ed25519.PublicKey(k.Ed25519)
		}
	}
	if err := keys.Verify(seal.BeaconPreimage(b), b.Sig); err != nil {
		return err
	}
	if first {
		t.mu.Lock()
		if t.keys == nil {
			t.keys, t.good = keys, map[rooted]struct{}{}
		}
		t.mu.Unlock()
	}
	return nil
}

func (t *trust) pinned() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.keys != nil
}

func (t *trust) verify(preimage []byte, sig *wire.Signature) error {
	t.mu.RLock()
	keys := t.keys
	t.mu.RUnlock()
	return keys.VerifyWith(preimage, sig, t.check)
}

// check is ed25519.Verify with a memory for roots.
func (t *trust) check(pub ed25519.PublicKey, message, sig []byte) bool {
	var r rooted
	if len(message) != len(r.message) || len(sig) != len(r.sig) {
		return ed25519.Verify(pub, message, sig)
	}
	copy(r.message[:], message)
	copy(r.sig[:], sig)
	t.mu.RLock()
	_, known := t.good[r]
	t.mu.RUnlock()
	if known {
		return true
	}
	if !ed25519.Verify(pub, message, sig) {
		return false
	}
	t.mu.Lock()
	if len(t.good) >= maxRoots {
		clear(t.good)
	}
	t.good[r] = struct{}{}
	t.mu.Unlock()
	return true
}
