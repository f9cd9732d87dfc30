package distribute

import (
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// beacon makes the message that every node hears first, with the maintenance that is announced.
func (o *outbox) beacon(up bool) link.Publication { return o.beaconUntil(up, *o.c.away.Load()) }

// beaconUntil is beacon with a maintenance until then, if that is not over.
func (o *outbox) beaconUntil(up bool, maintenance time.Time) link.Publication {
	o.mu.Lock()
	epoch := o.epoch
	o.mu.Unlock()
	keys := o.c.keys.Load()
	b := wire.Beacon{
		V: wire.Version, Unit: o.c.cfg.Unit, Epoch: epoch, Up: up, Time: o.c.cfg.Now().UTC(),
		Keys: keys.list, KeysRev: keys.rev, Jitter: unitconfig.FormatDuration(o.c.cfg.Jitter),
	}
	if maintenance.After(b.Time) {
		b.Maintenance = maintenance
	}
	b.Sig = keys.signer.Sign(seal.BeaconPreimage(&b))
	return link.Publication{Topic: topic.ForController(b.Unit), Payload: wire.Encode(&b), Retain: true}
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
