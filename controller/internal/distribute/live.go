package distribute

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/liveview"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/roster"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/why"
	"tandem.internal/shared/wire"
)

const (
	livePage  = 250         // nodes that are looked at in one turn of the loop
	liveFew   = 50          // records after a look that are looked at without a rest
	liveRest  = 25          // times as long as a look worked nothing is looked at, if there are more
	liveMost  = time.Second // but not longer
	liveIdle  = time.Minute // without a viewer the table is given up
	liveRound = time.Minute // all nodes are looked at again, a page at a time: tokens end without a record
	liveTurn  = time.Second // until the next page of them if nothing else is to be looked at
)

// watched has the table of all nodes kept up to date while somebody looks. Its goroutine is run.
type watched struct {
	c    *Core
	turn chan struct{} // holds one token: who has it brings the table up to date
	wake chan struct{} // somebody looks
	news news

	mu      sync.Mutex
	table   *liveview.Table // nil: nobody looks
	viewers int
	used    time.Time // when somebody looked last

	// Of whoever has the turn.
	known  *liveview.Table         // that all nodes were put into
	began  time.Time               // when all nodes were looked at, or when that began: a round
	round  []string                // nodes that are still to be looked at in the round
	matter map[string]why.NodeFact // of the nodes that something is wrong with
	waited time.Duration           // for the loop, in this look: that is no work
	node   view.Node               // that is looked at; its memory is used again
	rows   []view.Row              // of the newest update; likewise
}

func newWatched(c *Core) *watched {
	return &watched{c: c, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// run keeps the table up to date while somebody looks, until ctx ends.
func (w *watched) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for t := w.kept(); t != nil; t = w.kept() {
			changed := w.c.Changed()
			worked, more, err := w.fresh(ctx, t)
			if err != nil {
				w.c.cfg.Log.Debug("the table of nodes is not up to date", zap.Error(err))
			}
			ended, records := w.c.cfg.Now(), w.c.journal.Load().Last()
			idle := liveIdle
			if more {
				idle = liveTurn
			}
			if !pausing(ctx, w.c.cfg.LiveEvery, nil) || !pausing(ctx, idle, changed) {
				return
			}
			if w.c.journal.Load().Last()-records > liveFew { // nobody waits for viewers
				rest := min(liveRest*worked, liveMost)
				if !pausing(ctx, ended.Add(rest).Sub(w.c.cfg.Now()), nil) {
					return
				}
			}
		}
		w.forget()
	}
}

// pausing waits for a while, or until changed is closed. False: ctx has ended.
func pausing(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timer.C:
	}
	return true
}

// kept returns the table if somebody looks, or has a short while ago. Otherwise it is given up.
func (w *watched) kept() *liveview.Table {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.viewers == 0 && w.c.cfg.Now().Sub(w.used) >= liveIdle && w.table != nil {
		w.table = nil
		w.news.stop()
	}
	return w.table
}

// forget gives up what is known of nodes for a table that is given up, unless somebody is at it.
func (w *watched) forget() {
	select {
	case w.turn <- struct{}{}:
		w.known, w.round, w.matter, w.rows = nil, nil, nil, nil
		<-w.turn
	default: // whoever has the turn looks again
	}
}

// use returns the table for somebody who looks now.
func (w *watched) use() *liveview.Table {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = w.c.cfg.Now()
	if w.table == nil {
		w.table = liveview.New()
		w.news.start()
	}
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
	return w.table
}

// see is Core.see, and counts how long it waits.
func (w *watched) see(ctx context.Context, look func(*fleet.Fleet)) error {
	asked := w.c.cfg.Now()
	return w.c.see(ctx, func(f *fleet.Fleet) {
		w.waited += w.c.cfg.Now().Sub(asked)
		look(f)
	})
}

// fresh brings a table up to date. It returns how long that took, without the time that it only waited, and whether
// more nodes are to be looked at in this round.
func (w *watched) fresh(ctx context.Context, t *liveview.Table) (worked time.Duration, more bool, err error) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, false, wire.New(wire.CodeTimeout, "", "the nodes could not be looked at in time: "+ctx.Err().Error())
	}
	defer func() { <-w.turn }()
	began := w.c.cfg.Now()
	w.waited = 0
	err = w.update(ctx, t)
	return w.c.cfg.Now().Sub(began) - w.waited, len(w.round) > 0, err
}

// update is fresh, for whoever has the turn. If few nodes have changed, it waits for the loop once.
func (w *watched) update(ctx context.Context, t *liveview.Table) error {
	known := w.known == t
	w.known = nil // until what was noticed is in the table
	u := liveview.Update{Unit: w.c.cfg.Unit}
	in := why.FleetFacts{Now: w.c.cfg.Now(), Clock: w.c.jumpView(), Broker: w.c.roadNow(), Nodes: w.mattering}
	source := w.c.unitSource()
	u.Rows = w.rows[:0]
	for names, first := []string(nil), true; first || len(names) > 0; first = false {
		if err := w.see(ctx, func(f *fleet.Fleet) {
			if first {
				u.Epoch, u.Rev = w.c.journal.Load().Epoch(), f.Seq()
				in.Trials, in.Rollouts = f.Trials(), why.Rollouts(f.Rollouts(), in.Now, versions(f)).Rollouts
				names = w.noticed(f, t, known, in.Now)
			}
			page := names[:min(livePage, len(names))]
			names = names[len(page):]
			w.look(f, page, in.Now, &u, source)
		}); err != nil {
			return err
		}
	}
	w.rows = u.Rows
	u.Look = why.Look(in)
	w.news.words(&u, w.c)
	if err := t.Update(u); err != nil {
		return err
	}
	w.known = t
	return nil
}

// noticed returns the names of nodes that may not be as the table has them, if all that was known before is in it, and
// those of the next ones of the round.
func (w *watched) noticed(f *fleet.Fleet, t *liveview.Table, known bool, now time.Time) []string {
	names, all := f.Changed()
	all = all || !known
	if all || len(w.round) == 0 && now.Sub(w.began) >= liveRound {
		w.began, w.round = now, f.Names(now)
		w.round = append(w.round, t.Without(w.round)...)
	}
	if all {
		names, w.round, w.matter = w.round, nil, map[string]why.NodeFact{}
	}
	page := w.round[:min(livePage, len(w.round))]
	w.round = w.round[len(page):]
	return append(names, page...)
}

// look adds some nodes to an update, as they are, or as gone.
func (w *watched) look(f *fleet.Fleet, names []string, now time.Time, u *liveview.Update, source wire.Kind) {
	for _, name := range names {
		delete(w.matter, name)
		if !f.GlanceInto(&w.node, name, now) {
			u.Gone = append(u.Gone, name)
			continue
		}
		u.Rows = append(u.Rows, roster.Row(&w.node, source))
		if fact := f.Fact(&w.node); fact.Matters(now) {
			w.matter[name] = fact
		}
	}
}

// mattering yields what is known of the nodes that something is wrong with.
func (w *watched) mattering(yield func(*why.NodeFact) bool) {
	for _, n := range w.matter {
		if !yield(&n) {
			return
		}
	}
}

// Fleet returns all nodes at a glance.
func (c *Core) Fleet(ctx context.Context) (view.Fleet, error) {
	t := c.watched.use()
	if _, _, err := c.watched.fresh(ctx, t); err != nil {
		return view.Fleet{}, err
	}
	return t.Fleet(), nil
}

// Live returns somebody who watches all nodes, and what ends that.
func (c *Core) Live(ctx context.Context, in op.LiveIn) (v *liveview.Viewer, end func(), err error) {
	w := c.watched
	t := w.use()
	w.count(&in, 1)
	end = func() { w.count(&in, -1) }
	if _, _, err := w.fresh(ctx, t); err != nil {
		end()
		return nil, nil, err
	}
	var after *liveview.Cursor
	if epoch, rev, ok := in.Cursor(); ok {
		after = &liveview.Cursor{Epoch: epoch, Rev: rev}
	}
	return t.View(after, in.Events), end, nil
}

func (w *watched) count(in *op.LiveIn, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.viewers += by
	w.used = w.c.cfg.Now()
	if in.Events {
		w.news.all.Add(int64(by))
	}
}
