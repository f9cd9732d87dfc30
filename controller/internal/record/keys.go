package record

import (
	"fmt"
	"time"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// The states of a signing key that nodes are to believe. One that was retired is not on the list.
const (
	KeyAnnounced = "announced" // nodes learn it; nothing is signed with it
	KeySigning   = "signing"   // exactly one
	KeyLeaving   = "leaving"   // another one signs; what it signed may still be about
)

// SigningKey is one signing key of the unit.
type SigningKey struct {
	wire.Key
	State     string    `json:"state"`
	Announced time.Time `json:"announced,omitzero"` // zero: it is the unit's first
	Since     time.Time `json:"since"`              // of the state
	Who       string    `json:"who,omitempty"`
}

// SigningKeys are the unit's signing keys. The zero SigningKeys is a unit whose first key was never
// rotated: the shell knows which one that is.
type SigningKeys struct {
	Rev     uint64       `json:"rev,omitzero"` // number of the list, as the beacon has it
	List    []SigningKey `json:"list,omitempty"`
	Retired []string     `json:"retired,omitempty"` // IDs of the newest ones, the newest last
}

// MaxSigningKeys bounds the list.
const MaxSigningKeys = 4

// Signs returns the key that signs, nil without a list.
func (k SigningKeys) Signs() *SigningKey {
	for i := range k.List {
		if k.List[i].State == KeySigning {
			return &k.List[i]
		}
	}
	return nil
}

// Find returns a key of the list, nil if it is not there.
func (k SigningKeys) Find(kid string) *SigningKey {
	for i := range k.List {
		if k.List[i].ID == kid {
			return &k.List[i]
		}
	}
	return nil
}

// Next returns the key that was announced, nil if there is none.
func (k SigningKeys) Next() *SigningKey {
	if n := len(k.List); n > 0 && k.List[n-1].State == KeyAnnounced {
		return &k.List[n-1]
	}
	return nil
}

// Check refuses a list that the controller cannot have written.
func (k SigningKeys) Check() error {
	signing := 0
	for i, key := range k.List {
		if len(key.Ed25519) != 32 || key.ID != seal.KeyID(key.Ed25519) || k.Find(key.ID) != &k.List[i] {
			return fmt.Errorf("key %.80q of the list is not what its ID says, or there twice", key.ID)
		}
		switch key.State {
		case KeySigning:
			signing++
		case KeyAnnounced, KeyLeaving:
		default:
			return fmt.Errorf("key %s is in the state %.80q", key.ID, key.State)
		}
	}
	if signing != 1 || len(k.List) > MaxSigningKeys {
		return fmt.Errorf("%d of %d keys sign", signing, len(k.List))
	}
	return nil
}

// KeyStep is what was done to the list of signing keys.
type KeyStep string

// The steps. ReplaceKey is not an operator's: the key that signed was lost, and this one takes its place.
const (
	AnnounceKey KeyStep = "announced"
	SignWithKey KeyStep = "signing"
	RetireKey   KeyStep = "retired"
	ReplaceKey  KeyStep = "replaced"
)

// KeysData is the data of Keys records: the whole list as it is from then on, and what was done.
type KeysData struct {
	Did     KeyStep     `json:"did"`
	Key     string      `json:"key"`
	Forced  bool        `json:"forced,omitzero"`
	Missing []string    `json:"missing,omitempty"` // with Forced: nodes that did not believe it, the first ones
	Keys    SigningKeys `json:"keys"`
}
