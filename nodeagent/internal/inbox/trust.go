package inbox

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// MaxSkew is how far the two clocks may be apart before an event says so.
const MaxSkew = 30 * time.Second

// maxKeys bounds the keys that a node believes.
const maxKeys = 16

// maxJitter bounds how long a node waits before it reports again for a new epoch.
const maxJitter = 10 * time.Minute

// Trust is whom a node believes, and what it knows from beacons. It is a value: maps and slices in
// it are replaced, never changed.
type Trust struct {
	Keys    seal.Trust // pinned; nil until the first beacon
	Order   []string   // their IDs, the oldest first
	KeysRev uint64     // number of the list that they are from
	Signer  string     // the youngest key that has signed a beacon: those before it sign none any more
	Anchor  string     // ID of the provisioned key that the list descends from; "": none
	Epoch   uint64     // highest of any beacon
	Newest  time.Time  // that a beacon of that epoch has told: it has passed
	Floor   Floor      // what the join has said is old
	Obeyed  Obeyed     // the newest order that was taken

	offset time.Duration // the controller's clock minus the node's
	skewed bool
	leap   leap // a time that is not believed yet
}

// MaxLeap is how far a beacon's time may be ahead of what the node expects and is believed at once. Beyond it beacons
// have to go on with that time for leapWait, evenly: a clock that was wrong for a moment is not kept in mind.
const (
	MaxLeap  = 24 * time.Hour
	leapWait = 10 * time.Minute
)

// leap is a time far ahead that beacons tell.
type leap struct {
	first, last time.Time // that they told; zero: none does
	since       time.Time // when the first came, by the node's clock
}

// Floor is where the documents of a node stood when it joined: a node that has lost its state tells
// by it what is old.
type Floor struct {
	All   wire.Stamp               `json:"all,omitzero"`   // of the unit: documents of other kinds are newer
	Kinds map[wire.Kind]wire.Stamp `json:"kinds,omitzero"` // of the node's own documents: these, or newer
}

// Check refuses a document that is older than the join; nil: it is not.
func (f Floor) Check(kind wire.Kind, s wire.Stamp) *wire.Error {
	least, own := f.Kinds[kind]
	if own && s.Compare(least) >= 0 || !own && (f.All.IsZero() || s.Compare(f.All) > 0) {
		return nil
	}
	if !own {
		least = f.All
	}
	return wire.New(wire.CodeStale, "",
		fmt.Sprintf("epoch %d rev %d was old when this node joined: the unit was at epoch %d rev %d", s.Epoch, s.Rev,
			least.Epoch, least.Rev))
}

// Obeyed is the mark of the newest order, a request after which the node is not what it was before: it
// may have restarted and forgotten what it has answered.
type Obeyed struct {
	ID    string    `json:"id,omitempty"`
	Until time.Time `json:"until,omitzero"` // its notAfter
}

// Obey takes an order, once: one that was made before, or taken before, is refused however young the
// node thinks that it is. The mark has to be saved before the order is obeyed.
func (t Trust) Obey(id string, notAfter time.Time) (Trust, *wire.Error) {
	if notAfter.Before(t.Obeyed.Until) || notAfter.Equal(t.Obeyed.Until) && id == t.Obeyed.ID {
		return t, wire.New(wire.CodeStale, "/notAfter", "this order or a newer one was taken before")
	}
	t.Obeyed = Obeyed{ID: id, Until: notAfter}
	return t, nil
}

// Heard is what a beacon meant.
type Heard struct {
	Changed  bool          // keys or epoch are new: save it
	Pinned   bool          // keys were learned or added
	Dropped  []string      // IDs of keys that are not believed any more
	Again    bool          // the epoch is new: report everything again, within Jitter
	Jitter   time.Duration // at most ten minutes
	Skew     time.Duration // set when the clocks have begun to differ by more than MaxSkew
	Refused  *wire.Error   // the beacon counts for nothing
	KnownKey bool          // with Refused: it was not about the key
	Mark     string        // changes when the controller issues a document; "": it has none
	Newer    bool          // its time is another than that of all before
	Up       bool          // the controller speaks; false: it says, or its will does, that it does not
	Rest     time.Duration // of the maintenance that is announced, from the beacon's time on; 0: there is none
}

// Beacon takes a beacon in. The first valid one of the unit pins its keys, unless keys are
// provisioned. Later ones must be signed by a pinned key, not an older one than has signed before,
// and replace the list of keys if their number is higher. retained says that the beacon's time is not
// the present.
func (t Trust) Beacon(unit string, now time.Time, payload []byte, retained bool) (Trust, Heard) {
	b, listed, order, err := t.sound(unit, payload)
	if err != nil {
		return t, Heard{Refused: err, KnownKey: err.Code != wire.CodeUnknownKey && err.Code != wire.CodeStale}
	}
	h := Heard{Mark: seal.Mark(b)}
	if len(t.Keys) == 0 || b.KeysRev > t.KeysRev {
		t, h = t.take(listed, order, b.KeysRev)
		h.Mark = seal.Mark(b)
	}
	if h.Up = b.Up; !b.Maintenance.IsZero() {
		h.Rest = b.Maintenance.Sub(b.Time)
	}
	if t.Signer != b.Sig.KeyID {
		t.Signer, h.Changed = b.Sig.KeyID, true
	}
	newEpoch := b.Epoch > t.Epoch
	if newEpoch {
		h.Again, h.Changed = t.Epoch != 0, true
		t.Epoch = b.Epoch
	}
	if j, err := duration.Parse(b.Jitter); err == nil {
		h.Jitter = min(j, maxJitter)
	}
	if b.Epoch == t.Epoch {
		t.clock(b, now, retained, newEpoch, &h)
	}
	return t, h
}

// sound reads a beacon, and refuses one that counts for nothing. listed are its keys, in their order.
func (t *Trust) sound(unit string, payload []byte) (b *wire.Beacon, listed seal.Trust, order []string,
	refused *wire.Error) {
	b, err := wire.Decode[wire.Beacon](payload)
	if err != nil {
		return nil, nil, nil, wire.AsError(err)
	}
	if b.Unit != unit {
		return nil, nil, nil, wire.New(wire.CodeWrongTarget, "/unit",
			fmt.Sprintf("for unit %.64q; this is unit %q", b.Unit, unit))
	}
	if listed, order, refused = list(b.Keys); refused != nil {
		return nil, nil, nil, refused
	}
	believe := t.Keys
	if len(believe) == 0 {
		believe = listed
	}
	if err := believe.Verify(seal.BeaconPreimage(b), b.Sig); err != nil {
		return nil, nil, nil, wire.AsError(err)
	}
	if listed[b.Sig.KeyID] == nil {
		return nil, nil, nil, wire.New(wire.CodeBadValue, "/keys", "the key that signs is not listed")
	}
	if slices.Index(t.Order, b.Sig.KeyID) < slices.Index(t.Order, t.Signer) {
		return nil, nil, nil, wire.New(wire.CodeStale, "/sig/kid",
			fmt.Sprintf("key %s signs no beacons any more: %s does", b.Sig.KeyID, t.Signer))
	}
	return b, listed, order, nil
}

// list reads the keys of a beacon.
func list(all []wire.Key) (seal.Trust, []string, *wire.Error) {
	keys, order := seal.Trust{}, []string{}
	for i, k := range all {
		pub := ed25519.PublicKey(k.Ed25519)
		if len(pub) != ed25519.PublicKeySize || k.ID != seal.KeyID(pub) || keys[k.ID] != nil || i >= maxKeys {
			return nil, nil, wire.New(wire.CodeBadValue, fmt.Sprintf("/keys/%d", i),
				"not an Ed25519 key under its own ID, there twice, or one too many")
		}
		keys[k.ID] = pub
		order = append(order, k.ID)
	}
	return keys, order, nil
}

// take replaces the list of keys.
func (t Trust) take(keys seal.Trust, order []string, rev uint64) (Trust, Heard) {
	h := Heard{Changed: true}
	for kid := range keys {
		h.Pinned = h.Pinned || t.Keys[kid] == nil
	}
	for _, kid := range slices.Sorted(maps.Keys(t.Keys)) {
		if keys[kid] == nil {
			h.Dropped = append(h.Dropped, kid)
		}
	}
	t.Keys, t.Order, t.KeysRev = keys, order, rev
	if keys[t.Signer] == nil {
		t.Signer = ""
	}
	return t, h
}

// Vouched takes a list of keys that the unit's CA vouches for, not a beacon: what a join brought, or
// the controller's door says when asked. A lower number is only held against it if the key that signs
// today is in it: then it is an answer that a beacon has overtaken.
func (t Trust) Vouched(keys []wire.Key, rev uint64) (Trust, Heard) {
	return t.vouched(keys, rev, false)
}

// Rooted takes a list of keys that a root key vouches for: it stands over every list of before, whatever its number.
func (t Trust) Rooted(keys []wire.Key, rev uint64) (Trust, Heard) { return t.vouched(keys, rev, true) }

func (t Trust) vouched(keys []wire.Key, rev uint64, anyway bool) (Trust, Heard) {
	pinned, order, err := list(keys)
	if err == nil && len(keys) == 0 {
		err = wire.New(wire.CodeMissing, "/keys", "no key")
	}
	if err != nil {
		return t, Heard{Refused: err, KnownKey: true}
	}
	overtaken := rev < t.KeysRev && pinned[t.Signer] != nil
	if overtaken && !anyway || t.KeysRev == rev && slices.Equal(t.Order, order) && len(t.Keys) > 0 {
		return t, Heard{}
	}
	t, h := t.take(pinned, order, rev)
	t.Signer = "" // the next beacon tells
	return t, h
}

// Provisioned takes the one key that was given to this node by hand. A list that descends from it
// stays: it may have been rotated out since.
func (t Trust) Provisioned(key seal.Trust) (Trust, bool) {
	for kid := range key {
		switch {
		case t.Anchor == kid && len(t.Keys) > 0:
			return t, false
		case t.Anchor == "" && t.Keys[kid] != nil: // pinned by itself, before it was given
			t.Anchor = kid
			return t, true
		}
		return Trust{Keys: key, Order: []string{kid}, Anchor: kid, Epoch: t.Epoch, Newest: t.Newest, Floor: t.Floor,
			Obeyed: t.Obeyed}, true
	}
	return t, false
}

// clock learns the controller's time. A beacon that is played again does not move it: one that is
// older than the newest counts only if it comes with a higher epoch, or if the node's own clock agrees
// with it, for then it was the controller's clock that was ahead and has been set right. One that is far
// ahead does not move it either, until others have borne it out.
func (t *Trust) clock(b *wire.Beacon, now time.Time, retained, newEpoch bool, h *Heard) {
	offset := b.Time.Sub(now)
	later := newEpoch || b.Time.After(t.Newest)
	ahead := b.Time.Sub(t.Corrected(now))
	if !t.Newest.IsZero() && ahead > MaxLeap && offset.Abs() > MaxSkew {
		if !b.Up || retained || !t.borneOut(b.Time, now, ahead, h) {
			return
		}
	}
	if !b.Up || retained {
		if later {
			h.Newer = !b.Time.Equal(t.Newest)
			t.Newest = b.Time
		}
		return
	}
	if !later && offset.Abs() > MaxSkew {
		return
	}
	h.Newer, t.leap = !b.Time.Equal(t.Newest), leap{}
	t.Newest, t.offset = b.Time, offset
	skewed := offset.Abs() > MaxSkew
	if skewed && !t.skewed {
		h.Skew = offset
	}
	t.skewed = skewed
}

// borneOut takes in a time far ahead, and reports whether it is to be believed. It is if beacons have told it for
// leapWait, each a later one, as far apart as by the node's clock, and none has told another time in between.
func (t *Trust) borneOut(at, now time.Time, ahead time.Duration, h *Heard) bool {
	l := t.leap
	own := now.Sub(l.since)
	switch even := (at.Sub(l.first) - own).Abs() <= MaxSkew; {
	case l.first.IsZero() || !even && (at.After(l.last) || own >= leapWait):
		t.leap = leap{first: at, last: at, since: now}
		h.Skew = ahead
	case !at.After(l.last):
		return false // played again
	case own >= leapWait:
		return true
	default:
		t.leap.last = at
	}
	h.Newer = true
	return false
}

// Corrected is the controller's clock, as far as the node knows it, and never a time that is known to
// have passed.
func (t Trust) Corrected(now time.Time) time.Time {
	if at := now.Add(t.offset); at.After(t.Newest) {
		return at
	}
	return t.Newest
}
