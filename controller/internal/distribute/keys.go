package distribute

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/signing"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// The unit's signing keys. Which ones there are, and what each is for, is in the journal; their private
// halves are with the Keyring. The order of a rotation, so that a crash at any step leaves a controller
// that signs with a key that its nodes believe:
//
//	the private half is durable       else the next rotate makes another, or takes this one
//	the announcement is in the journal; the beacon tells it, signed by the old key
//	the switch is in the journal      the new key signs the beacon, and everything is sealed anew:
//	                                  what a crash left under the old key is found at the next session
//	the retirement is in the journal; the beacon does not list the key
//	the private half is removed       else at the next start

// Keyring keeps the private halves of signing keys. Safe for concurrent use.
type Keyring interface {
	// Signer returns the signer of a key, nil if its private half is not there.
	Signer(kid string) *seal.Signer
	// IDs names the keys that are there, in order.
	IDs() []string
	// Make makes a key; it is durable when the call returns.
	Make() (*seal.Signer, error)
	// Forget removes a private half for good. That there is none is no error.
	Forget(kid string) error
}

// keyset is what signs, and what the beacon lists.
type keyset struct {
	signer *seal.Signer
	rev    uint64
	list   []wire.Key
}

// signer is the key that signs now.
func (c *Core) signer() *seal.Signer { return c.keys.Load().signer }

// Keys are the keys that sign what the controller says, and the number of their list.
func (c *Core) Keys() ([]wire.Key, uint64) {
	k := c.keys.Load()
	return k.list, k.rev
}

// errKeyLost says that the private half of the key that signs is gone.
var errKeyLost = errors.New(
	"restore the key from a backup: nodes refuse what any other key signs. If it is lost for good, start once with " +
		"--new-key; shared/docs/security.md says what is to do then")

// pickKeys brings the keyset to what the journal says.
func (c *Core) pickKeys(f *fleet.Fleet) error {
	state := f.Keys()
	var set keyset
	if s := state.Signs(); s == nil {
		set.signer = c.cfg.Signer
		if set.signer == nil {
			return fmt.Errorf("signing key: the unit's first key is gone, and the journal names no other; %w",
				errKeyLost)
		}
		set.list = []wire.Key{set.signer.Key()}
	} else {
		if set.signer = c.held(s.ID); set.signer == nil {
			return fmt.Errorf("signing key: the private half of %s is gone; %w", s.ID, errKeyLost)
		}
		set.rev = state.Rev
		for _, k := range state.List {
			set.list = append(set.list, k.Key)
		}
	}
	c.keys.Store(&set)
	for _, kid := range state.Retired { // as far as a crash has left them
		c.forget(kid)
	}
	return nil
}

func (c *Core) held(kid string) *seal.Signer {
	if c.cfg.Keyring != nil {
		return c.cfg.Keyring.Signer(kid)
	}
	if s := c.cfg.Signer; s != nil && s.Key().ID == kid {
		return s
	}
	return nil
}

// keysHeld are the public halves of the keys that are there, also of those that the journal does not name.
func (c *Core) keysHeld() (all []wire.Key) {
	if c.cfg.Signer != nil {
		all = append(all, c.cfg.Signer.Key())
	}
	if c.cfg.Keyring == nil {
		return all
	}
	for _, kid := range c.cfg.Keyring.IDs() {
		if s := c.cfg.Keyring.Signer(kid); s != nil {
			all = append(all, s.Key())
		}
	}
	return all
}

func (c *Core) forget(kid string) {
	if c.cfg.Keyring == nil {
		return
	}
	if err := c.cfg.Keyring.Forget(kid); err != nil {
		c.cfg.Log.Warn("the private half of a retired key cannot be removed; it is tried again at the next start",
			zap.String("key", kid), zap.Error(err))
	}
}

// spare returns a key that is there but that the journal has never named: an announcement was cut off by
// a crash, or the journal is an older copy. Without one it makes a key.
func (c *Core) spare(state record.SigningKeys) (*seal.Signer, error) {
	for _, kid := range c.cfg.Keyring.IDs() {
		if state.Find(kid) == nil && !slices.Contains(state.Retired, kid) && kid != c.firstKey() {
			if s := c.cfg.Keyring.Signer(kid); s != nil {
				return s, nil
			}
		}
	}
	return c.cfg.Keyring.Make()
}

// firstKey is the ID of the key that signs while the journal names none; "" if it is gone.
func (c *Core) firstKey() string {
	if c.cfg.Signer == nil {
		return ""
	}
	return c.cfg.Signer.Key().ID
}

// loadKeys is pickKeys after a replay. The first one may find the key lost and go on with another,
// which New makes known before anything is said.
func (c *Core) loadKeys(f *fleet.Fleet) error {
	err := c.pickKeys(f)
	if !errors.Is(err, errKeyLost) || !c.cfg.NewKey || c.cfg.Keyring == nil || c.outbox != nil {
		return err
	}
	s, err := c.substitute(f)
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	c.keys.Store(&keyset{signer: s, list: []wire.Key{s.Key()}})
	c.lost = true
	return nil
}

// substitute finds a key for one that was lost: one that nodes may know, or else a new one.
func (c *Core) substitute(f *fleet.Fleet) (*seal.Signer, error) {
	state := f.Keys()
	for _, k := range slices.Backward(state.List) {
		if s := c.cfg.Keyring.Signer(k.ID); s != nil {
			return s, nil
		}
	}
	return c.spare(state)
}

// replaceKey goes on with another key than the one that was lost, before Run.
func (c *Core) replaceKey(s *seal.Signer) error {
	c.step(fleet.KeyOrder{Order: signing.Order{Do: record.ReplaceKey, Key: s.Key()}})
	c.commit()
	if c.broken != nil {
		return c.broken
	}
	c.cfg.Log.Warn("another key signs from now on, since the one before was lost; see: tandem key show",
		zap.String("key", s.Key().ID))
	return nil
}

// keysChanged follows the journal: it is the effect of a Keys record.
func (c *Core) keysChanged() {
	before := c.keys.Load()
	if err := c.pickKeys(c.fleet); err != nil {
		c.cfg.Log.Error("the signing key cannot be changed", zap.Error(err)) // it was there a moment ago
		return
	}
	if before.signer.Key().ID != c.signer().Key().ID {
		c.outbox.reseal()
		c.status = statusSeen{} // which is then published again, under the key that signs now
	}
	c.outbox.send(c.outbox.beacon(true))
}

// reseal publishes every document again, under the key that signs now. Nodes that have one already
// only report it again.
func (o *outbox) reseal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.slots {
		s.same = false
		if s.doc != nil && !s.dirty {
			s.dirty = true
			o.dirty = append(o.dirty, s)
		}
	}
}

// sealed reports whether a document that was found retained is signed by the key that signs now.
func (o *outbox) sealed(d *wire.Desired) bool {
	return d.Sig != nil && d.Sig.KeyID == o.c.signer().Key().ID
}

// SigningKeys shows the keys, and which nodes are known to believe them.
func (c *Core) SigningKeys(ctx context.Context) (v view.Keys, err error) {
	err = c.see(ctx, func(f *fleet.Fleet) { v = f.KeysView(c.signer().Key()) })
	return v, err
}

// RotateKey does the next step of a rotation: it announces a new key, or has the announced one sign from
// now on. The second is refused while there are nodes that are not known to believe it, unless forced.
func (c *Core) RotateKey(ctx context.Context, in op.RotateKey) (view.Keys, error) {
	if c.cfg.Keyring == nil {
		return view.Keys{}, wire.New(wire.CodeNotSupported, "", "this controller cannot keep more than one key")
	}
	c.rotating.Lock()
	defer c.rotating.Unlock()
	v, err := c.SigningKeys(ctx)
	if err != nil {
		return v, err
	}
	last := v.Keys[len(v.Keys)-1]
	if last.State != record.KeyAnnounced {
		return c.keysAfter(ctx, c.announceKey(ctx))
	}
	if c.cfg.Keyring.Signer(last.ID) == nil {
		return v, wire.New(wire.CodeWrongState, "",
			fmt.Sprintf("the private half of key %s is gone; give it up (tandem key retire %s) and rotate again",
				last.ID, last.ID))
	}
	o := signing.Order{Do: record.SignWithKey, Key: wire.Key{ID: last.ID}, Force: in.Force}
	return c.keysAfter(ctx, c.keyOrder(ctx, o))
}

func (c *Core) announceKey(ctx context.Context) error {
	var state record.SigningKeys
	if err := c.look(ctx, func(f *fleet.Fleet) { state = f.Keys() }); err != nil {
		return err
	}
	s, err := c.spare(state)
	if err != nil {
		return wire.New(wire.CodeStorage, "", err.Error())
	}
	return c.keyOrder(ctx, signing.Order{Do: record.AnnounceKey, Key: s.Key()})
}

// RetireKey takes a key off the list: nodes drop it, and its private half is removed. It is refused for
// the key that signs, and while there are nodes that would believe nobody then, unless forced.
func (c *Core) RetireKey(ctx context.Context, in op.RetireKey) (view.Keys, error) {
	c.rotating.Lock()
	defer c.rotating.Unlock()
	o := signing.Order{Do: record.RetireKey, Key: wire.Key{ID: in.ID}, Force: in.Force}
	return c.keysAfter(ctx, c.keyOrder(ctx, o))
}

func (c *Core) keyOrder(ctx context.Context, o signing.Order) error {
	o.First, o.Who = c.signer().Key(), caller.From(ctx).Who()
	_, err := c.order(ctx, func(t uint64) fleet.Event { return fleet.KeyOrder{Ticket: t, Order: o} })
	return err
}

func (c *Core) keysAfter(ctx context.Context, err error) (view.Keys, error) {
	if err != nil {
		return view.Keys{}, err
	}
	return c.SigningKeys(ctx)
}

// Floor is what a node that joins now has to take for old.
func (c *Core) Floor(ctx context.Context, node string) (f jointoken.Floor, err error) {
	err = c.look(ctx, func(fl *fleet.Fleet) {
		f = jointoken.Floor{Epoch: c.journal.Load().Epoch(), Rev: fl.Seq(), Time: c.cfg.Now().UTC().Round(0)}
		n := fl.Lookup(node)
		if n == nil {
			return
		}
		for kind, k := range n.Kinds {
			if k.Desired != nil {
				if f.Kinds == nil {
					f.Kinds = map[wire.Kind]wire.Stamp{}
				}
				f.Kinds[kind] = k.Desired.Stamp()
			}
		}
	})
	return f, err
}
