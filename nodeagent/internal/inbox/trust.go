package inbox

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"time"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// MaxSkew is how far the two clocks may be apart before an event says so.
const MaxSkew = 30 * time.Second

// maxKeys bounds the keys that a node believes.
const maxKeys = 16

// maxJitter bounds how long a node waits before it reports again for a new epoch.
const maxJitter = 10 * time.Minute

// Trust is whom a node believes, and what it knows from beacons. It is a value.
type Trust struct {
	Keys  seal.Trust // pinned; nil until the first beacon
	Epoch uint64     // highest of any beacon

	offset time.Duration // the controller's clock minus the node's
	newest time.Time     // of the beacons that offset was learned from
	back   time.Time     // of a beacon that was older than that; zero: none since
	skewed bool
}

// Heard is what a beacon meant.
type Heard struct {
	Changed  bool          // Keys or Epoch is new: save it
	Pinned   bool          // keys were learned or added
	Again    bool          // the epoch is new: report everything again, within Jitter
	Jitter   time.Duration // at most ten minutes
	Skew     time.Duration // set when the clocks have begun to differ by more than MaxSkew
	Refused  *wire.Error   // the beacon counts for nothing
	KnownKey bool          // with Refused: it was not about the key
}

// Beacon takes a beacon in. The first valid one of the unit pins its keys, unless keys are
// provisioned; later ones must be signed by a pinned key, and may announce more keys. retained
// says that the beacon's time is not the present.
func (t Trust) Beacon(unit string, now time.Time, payload []byte, retained bool) (Trust, Heard) {
	refuse := func(err *wire.Error) (Trust, Heard) {
		return t, Heard{Refused: err, KnownKey: err.Code != wire.CodeUnknownKey}
	}
	b, err := wire.Decode[wire.Beacon](payload)
	if err != nil {
		return refuse(wire.AsError(err))
	}
	if b.Unit != unit {
		return refuse(wire.New(wire.CodeWrongTarget, "/unit", fmt.Sprintf("for unit %.64q; this is unit %q", b.Unit, unit)))
	}
	announced := seal.Trust{}
	for i, k := range b.Keys {
		pub := ed25519.PublicKey(k.Ed25519)
		if len(pub) != ed25519.PublicKeySize || k.ID != seal.KeyID(pub) || i >= maxKeys {
			return refuse(wire.New(wire.CodeBadValue, fmt.Sprintf("/keys/%d", i), "not an Ed25519 key under its own ID, or one too many"))
		}
		announced[k.ID] = pub
	}
	believe := t.Keys
	if len(believe) == 0 {
		believe = announced
	}
	if err := believe.Verify(seal.BeaconPreimage(b), b.Sig); err != nil {
		return refuse(wire.AsError(err))
	}
	h := Heard{}
	keys := maps.Clone(t.Keys)
	if keys == nil {
		keys = seal.Trust{}
	}
	for kid, pub := range announced {
		if _, ok := keys[kid]; !ok && len(keys) < maxKeys {
			keys[kid] = pub
			h.Pinned, h.Changed = true, true
		}
	}
	t.Keys = keys
	if b.Epoch > t.Epoch {
		h.Again, h.Changed = t.Epoch != 0, true
		t.Epoch = b.Epoch
	}
	if j, err := unitconfig.ParseDuration(b.Jitter); err == nil {
		h.Jitter = min(j, maxJitter)
	}
	// A beacon that is played again does not move the clock. But two that are older than the newest
	// and follow each other do: the controller's clock was set back, and as long as the node does
	// not know, all its requests look as if they came too late.
	fresh := b.Up && !retained && (b.Time.After(t.newest) || !t.back.IsZero() && b.Time.After(t.back))
	if b.Up && !retained && !fresh {
		t.back = b.Time
	}
	if fresh {
		t.newest, t.back, t.offset = b.Time, time.Time{}, b.Time.Sub(now)
		skewed := t.offset.Abs() > MaxSkew
		if skewed && !t.skewed {
			h.Skew = t.offset
		}
		t.skewed = skewed
	}
	return t, h
}

// Corrected is the controller's clock, as far as the node knows it.
func (t Trust) Corrected(now time.Time) time.Time { return now.Add(t.offset) }
