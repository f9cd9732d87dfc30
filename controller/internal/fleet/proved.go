package fleet

import (
	"slices"
	"time"

	"tandem.internal/shared/wire"
)

// What a node has proved is played again by whoever has recorded it. The beacon that a proof names orders boots, and
// within one beacon their numbers do, if they have any. Beacons of one epoch have rising times, and the epoch rises
// when the clock is set back: what a proof names is of the past, whatever the clock says.

// PastBoot is a boot that was followed by another one. What it has proved names no beacon after Until.
type PastBoot struct {
	Boot  string     `json:"boot"`
	Until wire.Heard `json:"until"`
}

// maxPastBoots bounds the boots that are remembered of a node. They are forgotten as soon as the node has heard a
// beacon after them; a node that does not number its boots, and starts more often than that in between, is believed
// when it has heard one.
const maxPastBoots = 16

// present is the newest beacon that anybody can have heard.
func (f *Fleet) present(at time.Time) wire.Heard {
	return wire.Heard{Epoch: f.epoch, Time: at.UTC().Round(0)}
}

// NewestHeard is the time of the newest beacon of an epoch that any node has proved; zero: none has.
func (f *Fleet) NewestHeard(epoch uint64) (at time.Time) {
	for _, n := range f.nodes {
		if n.Heard.Epoch == epoch && n.Heard.Time.After(at) {
			at = n.Heard.Time
		}
	}
	return at
}

// earliest is the earlier one of what a proof names and the present: no proof keeps a node from being heard later.
func earliest(since, present wire.Heard) wire.Heard {
	if present.Before(since) {
		return present
	}
	return since
}

// playedAgain reports whether a message of a boot may be one that somebody repeats: it is older than the newest live
// message that was proved, of a boot that is over, or of one that may be.
func (n *Node) playedAgain(since wire.Heard, boot string) bool {
	switch {
	case n.Heard.Epoch == 0:
		return false // nothing was proved
	case since.Before(n.Heard):
		return true
	case boot == n.Boot:
		return false
	}
	if i := slices.IndexFunc(n.PastBoots, func(p PastBoot) bool { return p.Boot == boot }); i >= 0 {
		return !n.PastBoots[i].Until.Before(since)
	}
	if theirs, known := wire.BootNumber(boot), wire.BootNumber(n.Boot); theirs > 0 && known > 0 {
		return theirs <= known && !n.BootAt.Before(since) // unless its count began anew
	}
	return len(n.PastBoots) >= maxPastBoots && !n.PastBoots[0].Until.Before(since)
}

// proved takes in what a live message that counts has proved.
func (n *Node) proved(l presence, present wire.Heard) {
	if l.since.Epoch == 0 {
		return
	}
	if since := earliest(l.since, present); n.Heard.Before(since) {
		n.Heard = since
	}
	if n.Boot == l.Boot {
		return
	}
	n.BootAt = present
	if n.Boot == "" {
		return
	}
	past := slices.DeleteFunc(slices.Clone(n.PastBoots), func(p PastBoot) bool {
		return p.Boot == n.Boot || p.Until.Before(n.Heard)
	})
	past = append(past, PastBoot{n.Boot, present})
	n.PastBoots = past[max(0, len(past)-maxPastBoots):]
}

// overtakes reports whether a report is one from before the newest of its kind, which is of a boot that has not said
// yet that it is there: nobody goes back and forth between two boots. What is of the boot that is there counts: the
// other one was late, and not early.
func (k *KindState) overtakes(n *Node, h *Heard) bool {
	return k != nil && k.early && h.Reported.Boot != n.Boot &&
		k.Boot != h.Reported.Boot && k.Boot != n.Boot && !k.since.Before(h.Since)
}

// ended names a session that is over.
type ended struct {
	boot    string
	session uint64
}
