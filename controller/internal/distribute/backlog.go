package distribute

import (
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/shared/wire"
)

// maxBacklog bounds what is held while the journal cannot be written, bytes.
const maxBacklog = 64 << 20

// backlogMore is about what a held message takes besides its bytes.
const backlogMore = 1 << 10

// backlog is what nodes said of themselves while the journal could not be written: of each the newest presence, and the
// newest report of each kind. Events need not be held, since nodes keep them until they are acknowledged, and replies
// have nobody who waits any more. What there is no room for, nodes say again when they are asked, or at their next
// beat.
type backlog struct {
	at   map[backlogKey]int // index in all
	all  []fleet.Heard      // in the order in which their topics were first heard
	size int
}

type backlogKey struct {
	node string
	kind wire.Kind // of a report; "": presence
}

// keep takes an event over if it is worth it.
func (b *backlog) keep(ev fleet.Event) {
	heard, ok := ev.(fleet.Heard)
	if !ok || heard.Live == nil && heard.Reported == nil {
		return
	}
	key := backlogKey{node: heard.Node}
	if heard.Reported != nil {
		key.kind = heard.Reported.Kind
	}
	at, known := b.at[key]
	size := b.size + len(heard.Raw) + backlogMore
	if known {
		size -= len(b.all[at].Raw) + backlogMore
	}
	if size > maxBacklog {
		return
	}
	b.size = size
	if known {
		b.all[at] = heard
		return
	}
	if b.at == nil {
		b.at = map[backlogKey]int{}
	}
	b.at[key] = len(b.all)
	b.all = append(b.all, heard)
}

// hearBacklog journals what was held, now that there is room again. If there is not, it stays held.
func (c *Core) hearBacklog() {
	for i := range c.backlog.all {
		if c.broken != nil {
			return
		}
		c.step(c.backlog.all[i])
		if (i+1)%c.cfg.MaxBatch == 0 {
			c.commit()
		}
	}
	if c.broken == nil {
		c.commit()
	}
	if c.broken == nil {
		c.backlog = backlog{}
	}
}
