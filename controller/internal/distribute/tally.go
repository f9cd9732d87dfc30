package distribute

import (
	"context"
	"slices"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/view"
)

// tallyAtOnce is how many nodes are counted while nothing else happens: a millisecond's work or two.
const tallyAtOnce = 500

// Tally counts the unit. The loop goes on with other things between some nodes and the next, so that one that changes
// meanwhile may be counted as it was before, or after.
func (c *Core) Tally(ctx context.Context) (*view.Tally, error) {
	t, now := view.NewTally(), c.cfg.Now()
	var names []string
	err := c.see(ctx, func(f *fleet.Fleet) {
		names = f.Heard()
		f.TallyUnit(now, t)
	})
	for some := range slices.Chunk(names, tallyAtOnce) {
		if err == nil {
			err = c.see(ctx, func(f *fleet.Fleet) { f.TallyNodes(some, t) })
		}
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Vitals are figures of the controller itself, that are there also while the journal cannot be written.
type Vitals struct {
	Refusing bool      // submissions, and what nodes say
	Failures uint64    // of the journal, since the start
	Road     bool      // there is a session with the broker
	Started  time.Time // when the controller did

	Journal bool   // the rest is known
	Newest  uint64 // number of the newest record
	Records uint64 // that are kept
	Size    int64  // bytes of the journal's file
	Free    int64  // of them, bytes that can be written to again
	Room    int64  // bytes that its disk has left; negative: it cannot be told
}

// goneEvery is how often it is counted how many records are gone, which takes a pass over the list of gaps.
const goneEvery = time.Minute

// gone is how many records were removed of a journal.
type gone struct {
	at time.Time
	n  uint64
}

// Vitals returns the figures.
func (c *Core) Vitals() Vitals {
	v := Vitals{Refusing: c.Refusing() != nil, Failures: c.failures.Load(), Road: c.roadNow().Up, Started: c.started,
		Room: -1}
	if c.cfg.Room != nil {
		if left, err := c.cfg.Room(); err == nil {
			v.Room = left
		}
	}
	j, now := c.journal.Load(), c.cfg.Now()
	st, err := j.Stats()
	if err != nil {
		return v // what is wrong with it shows in Refusing
	}
	g := c.gone.Load()
	if g == nil || now.Sub(g.at).Abs() >= goneEvery {
		n, err := j.Gone()
		if err != nil {
			return v
		}
		g = &gone{now, n}
		c.gone.Store(g)
	}
	v.Journal, v.Newest, v.Size, v.Free = true, st.Last, st.Size, st.Free
	v.Records = st.Last - min(st.Last, g.n)
	return v
}
