package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/health"
	"tandem.internal/nodeagent/internal/identity"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/store"
	"tandem.internal/shared/event"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// Whom this node believes: the keys that the unit signs with, and the newest time that they have told.

// timeEvery is how far the newest time may run ahead of the one on the disk before it is saved for its
// own sake: 144 small writes a day. It goes along with any other save once it is timeAlong ahead, and
// is saved when the agent stops.
const (
	timeEvery = 10 * time.Minute
	timeAlong = time.Minute
)

func (a *Agent) beacon(m message) {
	trust, h := a.trust.Beacon(a.id.Unit, a.deps.Now(), m.payload, m.retained)
	if h.Refused != nil {
		if h.KnownKey {
			a.refuse(m, h.Refused)
			return
		}
		a.emit(inbox.EventKeyRefused, h.Refused, refusal{Topic: m.topic})
		a.healthEvent(health.Link{Address: true, Broker: a.session != 0, Error: wire.IndicatorKey,
			Text: h.Refused.Message})
		if a.keeper != nil && !a.cfg.PinKeys {
			a.keeper.AskKeys() // the keys may have changed while this node was away
		}
		return
	}
	newest := a.trust.Newest
	if !a.takeTrust(trust, h) {
		return // the next beacon says it again
	}
	a.takeSignedTime(m.payload)
	a.takeContact(m.payload, !m.retained && a.trust.Newest != newest)
	if h.Again {
		a.againAt = max(1, time.Since(a.began)+time.Duration(a.deps.Rand.Float64()*float64(h.Jitter)))
	}
	held := a.held
	a.held = map[wire.Kind]message{}
	for name, m := range held {
		a.document(name, m)
	}
}

// takeTrust takes over a changed trust and reports it; false: it could not be saved. Keys are on the
// disk before anything is believed because of them.
func (a *Agent) takeTrust(trust inbox.Trust, h inbox.Heard) bool {
	var events []wire.Event
	add := func(kind string, err *wire.Error, detail any) {
		if ev := a.event(kind, err, detail); ev != nil {
			events = append(events, *ev)
		}
	}
	switch detail := (keyChange{Keys: trust.Order, Dropped: h.Dropped, Rev: trust.KeysRev}); {
	case h.Pinned:
		add(inbox.EventKeyPinned, nil, detail)
	case len(h.Dropped) > 0:
		add(inbox.EventKeyDropped, nil, detail)
	}
	if h.Skew != 0 {
		skew := fmt.Sprintf("the controller's clock is %v from this node's", h.Skew.Round(time.Millisecond))
		add(inbox.EventClockSkew, wire.New(wire.CodeBadValue, "", skew), nil)
	}
	before, keys := a.trust, h.Pinned || len(h.Dropped) > 0
	a.trust = trust
	save := h.Changed || trust.Newest.Sub(a.savedTime).Abs() >= timeEvery
	if save || len(events) > 0 {
		b := store.Batch{Events: events}
		if save {
			b.Trust = &a.trust
		}
		if err := a.commit(b); err != nil && keys {
			a.trust = before
			return false
		} else if err != nil {
			a.bufferEvents(events)
		}
	}
	if keys && a.session != 0 {
		a.refreshInfo() // which names the keys
		a.send(&a.info)
	}
	return true
}

// acceptOrder says whether an order counts; nil: it does, and its mark is on the disk. After a restart, which
// may be what it asks for, nothing else knows that it was obeyed.
func (a *Agent) acceptOrder(r *wire.Request) *wire.Error {
	before := a.trust
	trust, err := before.Obey(r.ID, r.NotAfter)
	if err != nil {
		return err
	}
	a.trust = trust
	if err := a.commit(store.Batch{Trust: &a.trust}); err != nil {
		a.trust = before
		return wire.New(wire.CodeStorage, "", "the order cannot be noted, so it is not obeyed: "+err.Error())
	}
	return nil
}

// takeVouchedKeys takes the keys that the controller named at its join door.
func (a *Agent) takeVouchedKeys(k identity.Keys) {
	trust, h := a.trust.Vouched(k.List, k.Rev)
	if h.Refused != nil {
		a.emit(inbox.EventKeyRefused, h.Refused, nil)
		return
	}
	if !h.Changed {
		return
	}
	if !a.takeTrust(trust, h) {
		a.keeper.AskKeys()
		return
	}
	a.log.Info("the keys that sign were learned at the controller's door",
		zap.Strings("keys", trust.Order), zap.Uint64("rev", trust.KeysRev))
	if a.session != 0 {
		a.reportEverything() // so that the controller finds out what this node has refused meanwhile
	}
}

// learnKeys begins with the keys that were given by hand, or with those that the newest join has
// brought, in the place of any that were pinned before: a join takes hands on the node, and is the way
// out after a key was lost. It also brings what is old from then on.
func (a *Agent) learnKeys(provisioned seal.Trust) {
	if provisioned != nil {
		var changed bool
		a.trust, changed = a.trust.Provisioned(provisioned)
		a.unsaved = a.unsaved || changed
		return
	}
	if a.keeper == nil || !a.keeper.Fresh() && len(a.trust.Keys) > 0 {
		return
	}
	id := a.keeper.Current()
	f := id.Floor
	old := inbox.Floor{All: wire.Stamp{Epoch: f.Epoch, Rev: f.Rev}, Kinds: f.Kinds}
	begin := inbox.Trust{Newest: f.Time, Floor: old}
	trust, h := begin.Vouched(id.UnitKeys, id.KeysRev)
	if h.Refused != nil {
		a.log.Error("identity: the unit's keys", zap.Error(h.Refused)) // they were checked when they came
		return
	}
	a.trust, a.unsaved = trust, true
}

// markKeysTaken notes that those keys are saved.
func (a *Agent) markKeysTaken() {
	if a.keeper == nil || a.unsaved || !a.keeper.Fresh() {
		return
	}
	if err := a.keeper.Taken(); err != nil {
		a.log.Warn("identity", zap.Error(err)) // the next start pins the same keys once more
	}
}

// keyChange is what an event about the pinned keys tells.
type keyChange = event.KeysDetail

// takeSignedTime takes the time of a beacon in whose signature has been verified. It has passed, also if
// the beacon is an old one.
func (a *Agent) takeSignedTime(beacon []byte) {
	if a.keeper == nil {
		return
	}
	if b, err := wire.Decode[wire.Beacon](beacon); err == nil {
		a.keeper.Heard(b.Time)
	}
}

// TrustConfig is the configuration of tandem-node trust, as package settings reads it.
type TrustConfig struct {
	StateDir string `name:"state-dir" default:"/var/lib/tandem-node" help:"state directory of the agent"`
	Reset    bool   `name:"reset" help:"forget the keys: at its next start the agent takes those of its newest join or renewal, or --unit-key, or else trusts the first controller that it hears"`
}

// Usage opens the help of tandem-node trust.
func (*TrustConfig) Usage() string {
	return `Usage: tandem-node trust [--reset] [flags]

Shows which signing keys this node believes, or makes it forget them: the way out after the unit's
key was lost, for a node that has not joined. The agent must not run. What the node runs, and which
documents it takes for old, stays.

Example:
  tandem-node trust --state-dir /var/lib/tandem-node --reset
`
}

// Believed is whom a node believes.
type Believed struct {
	Unit, Node string
	Keys       []string // IDs, the oldest first
	Rev        uint64   // number of the list
	Provided   string   // ID of the key that was given by --unit-key; "": none
	Newest     time.Time
}

// Trusted shows whom the node of a state directory believed when its agent stopped, and with Reset
// makes it forget them.
func Trusted(cfg TrustConfig) (Believed, error) {
	if cfg.StateDir == "" {
		return Believed{}, &UsageError{"state-dir", "required"}
	}
	dir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return Believed{}, &UsageError{"state-dir", err.Error()}
	}
	b, err := store.ReadTrust(filepath.Join(dir, StateFile), cfg.Reset)
	if err != nil {
		return Believed{}, err
	}
	if b.Unit == "" {
		return Believed{}, errors.New("the state file names no unit")
	}
	return Believed{Unit: b.Unit, Node: b.Node, Keys: b.Trust.Order, Rev: b.Trust.KeysRev,
		Provided: b.Trust.Anchor, Newest: b.Trust.Newest}, nil
}
