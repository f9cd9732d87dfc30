package app

import (
	"cmp"
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
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/wire"
)

// This file has what the agent does with the unit's signing keys and with the newest signed time.

// timeEvery is how far the newest time may be ahead of the saved one before it is saved without any other
// change: 144 small writes a day. Any other save includes it once it is timeAlong ahead, and it is saved when the
// agent stops.
const (
	timeEvery = 10 * time.Minute
	timeAlong = time.Minute
)

// beacon takes a beacon: its keys, its time, and the contact that it is. Documents that were held until a key is
// known follow.
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
		if a.renewer != nil && !a.cfg.PinKeys {
			a.renewer.AskKeys() // the keys may have changed while this node was away
		}
		return
	}
	if !a.takeTrust(trust, h) {
		return // the next beacon brings the same keys
	}
	a.heardBeacon()
	a.view.Hear(time.Since(a.began), h.Mark, time.Duration(a.deps.Rand.Float64()*float64(inbox.ViewJitter)))
	if a.renewer != nil {
		a.renewer.Heard(a.trust.Newest)
	}
	a.takeContact(h, !m.retained && h.Newer)
	if h.Again {
		a.againAt = max(1, time.Since(a.began)+time.Duration(a.deps.Rand.Float64()*float64(h.Jitter)))
	}
	held := a.held
	a.held = map[wire.Kind]message{}
	for name, m := range held {
		a.document(name, m)
	}
}

// heardBeacon has messages from now on say which beacon is the newest that was heard. If it is newer than the live
// message of this session says, that is said again: the controller may have taken it for one that was played again.
func (a *Agent) heardBeacon() {
	now := wire.Heard{Epoch: a.trust.Epoch, Time: a.trust.Newest}
	before, proves := a.prover.proves()
	a.prover.setHeard(now)
	if proves && a.session != 0 && !a.greeted && before.Before(now) {
		a.publishLive()
	}
	a.greeted = a.session != 0
}

// takeTrust takes over changed keys and times, and reports them. It returns false if changed keys could not be
// saved: keys are on the disk before any signature is accepted because of them.
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

// brokerName is the name that the broker's certificate has to have.
func (a *Agent) brokerName() string {
	return cmp.Or(a.renewer.Current().Brokers[0].Name, link.Host(a.cfg.Broker))
}

// leaveRefused ends the session if the broker's certificate does not count any more.
func (a *Agent) leaveRefused() {
	if a.renewer == nil || a.session == 0 || !a.renewer.Refuses(a.brokerName()) {
		return
	}
	if c, ok := a.link.(link.Cutter); ok {
		a.log.Warn("the broker's certificate was revoked; its session ends", zap.String("broker", a.cfg.Broker))
		c.Cut(errors.New("the broker's certificate was revoked"))
	}
}

// acceptOrder returns why an order is refused, nil if it is accepted. An accepted order is noted on the disk, so
// that it is not obeyed again after a restart, which the order itself may ask for.
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

// takeVouchedKeys takes the signing keys that the join door returned.
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
		a.renewer.AskKeys()
		return
	}
	a.log.Info("the keys that sign were learned at the controller's door",
		zap.Strings("keys", trust.Order), zap.Uint64("rev", trust.KeysRev))
	if a.session != 0 {
		a.reportEverything() // so that the controller finds out what this node has refused meanwhile
	}
}

// takeRootKeys takes the signing keys that a root key has vouched for. Where keys are learned by hand only, it has to
// have been given by hand, too.
func (a *Agent) takeRootKeys() {
	keys, number, ok := a.renewer.RootKeys()
	if !ok {
		return
	}
	if a.cfg.PinKeys && len(a.cfg.RootKeys) == 0 {
		a.renewer.RootKeysTaken(number)
		return
	}
	trust, h := a.trust.Rooted(keys.List, keys.Rev)
	if h.Refused != nil {
		a.emit(inbox.EventKeyRefused, h.Refused, nil)
	} else if h.Changed && !a.takeTrust(trust, h) {
		return // it is told again
	}
	a.renewer.RootKeysTaken(number)
}

// learnKeys replaces the pinned keys at the start of the agent: with --unit-key if it is given, else with those of
// a new join. Joining is done by hand at the node, and is the way out after the unit's key was lost. A join also
// brings the stamps below which documents are old.
func (a *Agent) learnKeys(provisioned seal.Trust) {
	if provisioned != nil {
		var changed bool
		a.trust, changed = a.trust.Provisioned(provisioned)
		a.unsaved = a.unsaved || changed
		return
	}
	if a.renewer == nil || !a.renewer.Fresh() && len(a.trust.Keys) > 0 {
		return
	}
	id := a.renewer.Current()
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

// markKeysTaken notes on the disk that the keys of the newest join are saved.
func (a *Agent) markKeysTaken() {
	if a.renewer == nil || a.unsaved || !a.renewer.Fresh() {
		return
	}
	if err := a.renewer.Taken(); err != nil {
		a.log.Warn("identity", zap.Error(err)) // the next start pins the same keys once more
	}
}

// keyChange is the detail of an event about the pinned keys.
type keyChange = event.KeysDetail

// TrustConfig is the configuration of tandem-node trust, as package settings reads it.
type TrustConfig struct {
	StateDir string `name:"state-dir" default:"/var/lib/tandem-node"`
	Reset    bool   `name:"reset"`
}

// Help describes the settings.
func (*TrustConfig) Help() map[string]string {
	return map[string]string{
		"state-dir": "state directory of the agent",
		"reset": "forget the keys: at its next start the agent takes those of its newest join or renewal, or " +
			"--unit-key, or else trusts the first controller that it hears",
	}
}

// Usage is the beginning of the help of tandem-node trust.
func (*TrustConfig) Usage() string {
	return `Usage: tandem-node trust [--reset] [flags]

Shows which signing keys this node believes, or makes it forget them: after the unit's key was lost, for
a node that has not joined. The agent must not run. What the node runs, and what it takes for old, stays.

Example:
  tandem-node trust --state-dir /var/lib/tandem-node --reset
`
}

// Believed is what a node's state file says about the unit's signing keys.
type Believed struct {
	Unit, Node string
	Keys       []string // IDs, the oldest first
	Rev        uint64   // number of the list
	Provided   string   // ID of the key that was given by --unit-key; "": none
	Newest     time.Time
}

// Trusted returns the keys in the state file of a stopped agent, and with cfg.Reset deletes them there. The error
// is a *UsageError for a mistake in cfg.
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
