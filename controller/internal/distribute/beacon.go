package distribute

import (
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/shared/duration"
	"tandem.internal/shared/link"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// beacon makes the message that every node hears first, with the maintenance that is announced.
func (o *outbox) beacon(up bool) link.Publication {
	o.mu.Lock()
	o.spoken, o.greeting = time.Now(), false
	o.mu.Unlock()
	return o.beaconUntil(up, *o.c.away.Load())
}

// beaconUntil is beacon with a maintenance until then, if that is not over.
func (o *outbox) beaconUntil(up bool, maintenance time.Time) link.Publication {
	at := o.c.cfg.Now().UTC().Round(0) // as nodes read it
	o.mu.Lock()
	epoch := o.epoch
	// No beacon has the time of another one of its epoch, or an earlier one: what nodes prove is ordered by it, and a
	// node takes it for a recorded one, which is no contact.
	if !at.After(o.beaconAt) {
		at = o.beaconAt.Add(time.Nanosecond)
	}
	o.beaconAt = at
	o.mu.Unlock()
	keys := o.c.keys.Load()
	b := wire.Beacon{
		V: wire.Version, Unit: o.c.cfg.Unit, Epoch: epoch, Up: up, Time: at,
		Keys: keys.list, KeysRev: keys.rev, Jitter: duration.Format(o.c.cfg.Jitter),
	}
	if maintenance.After(b.Time) {
		b.Maintenance = maintenance
	}
	newest := wire.Stamp{}
	if up { // a last will may be heard days later
		newest = *o.c.newest.Load()
	}
	b.Sig = keys.signer.SignBeacon(&b, newest)
	return link.Publication{Topic: topic.ForController(b.Unit), Payload: wire.Encode(&b), Retain: true}
}

// Greetings: a node that comes online has a fresh beacon soon, which is contact to it. All others hear
// that beacon, too, so there is one for all who came meanwhile, and nodes that come by the thousand do
// not make a broker send more of them than greetRate in a second.
const (
	greetApart = time.Second // between two, at least
	greetRate  = 1000
)

// greet sees to it that a beacon is sent from now on, and soon. nodes is how many hear it.
func (o *outbox) greet(nodes int) {
	apart := max(greetApart, time.Duration(nodes)*time.Second/greetRate)
	o.mu.Lock()
	o.greeting, o.apart = true, min(apart, o.c.cfg.Beacon/4)
	o.mu.Unlock()
	o.kick()
}

// greetAt is when nodes are to be greeted; false: none are.
func (o *outbox) greetAt() (time.Time, bool) {
	if o.c.silent() {
		return time.Time{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.spoken.Add(o.apart), o.greeting && o.session != 0
}

// Will is what the broker says of the controller when its session breaks. It announces no
// maintenance: it may be heard days after it was made.
func (c *Core) Will(uint64) *link.Publication {
	p := c.outbox.beaconUntil(false, time.Time{})
	return &p
}

// Goodbye is what the controller says when it stops in order.
func (c *Core) Goodbye(uint64) []link.Publication {
	until := *c.away.Load()
	if d := c.cfg.StopMaintenance; d > 0 {
		if t := c.cfg.Now().UTC().Add(d); t.After(until) {
			until = t
		}
	}
	return []link.Publication{c.outbox.beaconUntil(false, until)}
}

// announceMaintenance has beacons tell of it from now on.
func (c *Core) announceMaintenance(m fleet.Maintenance) { c.away.Store(&m.Until) }

// maintained follows the journal: it is the effect of a Maintenance record.
func (c *Core) maintained() {
	c.announceMaintenance(c.fleet.Maintenance())
	c.outbox.send(c.outbox.beacon(true))
}
