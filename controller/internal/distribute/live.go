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
	liveWhole = time.Minute // all nodes are looked at again: tokens end without a record
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
	whole  time.Time               // when all nodes were looked at
	facts  map[string]why.NodeFact // of the nodes, as far as what should be looked at depends on them
	waited time.Duration           // for the loop, in this look: that is no work
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
			worked, err := w.fresh(ctx, t)
			if err != nil {
				w.c.cfg.Log.Debug("the table of nodes is not up to date", zap.Error(err))
			}
			ended, records := w.c.cfg.Now(), w.c.journal.Load().Last()
			if !pausing(ctx, w.c.cfg.LiveEvery, nil) || !pausing(ctx, liveIdle, changed) {
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
		w.known, w.facts = nil, nil
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

// fresh brings a table up to date. It returns how long that took, without the time that it only waited.
func (w *watched) fresh(ctx context.Context, t *liveview.Table) (worked time.Duration, err error) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, wire.New(wire.CodeTimeout, "", "the nodes could not be looked at in time: "+ctx.Err().Error())
	}
	began := w.c.cfg.Now()
	w.waited = 0
	defer func() {
		worked = w.c.cfg.Now().Sub(began) - w.waited
		<-w.turn
	}()
	return 0, w.update(ctx, t)
}

// update is fresh, for whoever has the turn.
func (w *watched) update(ctx context.Context, t *liveview.Table) error {
	u := liveview.Update{Unit: w.c.cfg.Unit}
	names, whole, err := w.noticed(ctx, t, &u)
	if err != nil {
		return err
	}
	w.known = nil // until what was noticed is in the table
	if whole {
		w.facts = make(map[string]why.NodeFact, len(names))
	}
	for len(names) > 0 {
		page := names[:min(livePage, len(names))]
		if err := w.look(ctx, page, &u); err != nil {
			return err
		}
		names = names[len(page):]
	}
	if err := w.lookAt(ctx, &u); err != nil {
		return err
	}
	w.news.words(&u, w.c)
	if err := t.Update(u); err != nil {
		return err
	}
	w.known = t
	if whole {
		w.whole = w.c.cfg.Now()
	}
	return nil
}

// noticed returns the names of nodes that may not be as the table has them; whole: all are among them.
func (w *watched) noticed(
	ctx context.Context, t *liveview.Table, u *liveview.Update,
) (names []string, whole bool, err error) {
	now := w.c.cfg.Now()
	whole = w.known != t || now.Sub(w.whole) >= liveWhole
	err = w.see(ctx, func(f *fleet.Fleet) {
		u.Epoch, u.Rev = w.c.journal.Load().Epoch(), f.Seq()
		some, any := f.Changed()
		if names, whole = some, whole || any; whole {
			names = f.Names(now)
		}
	})
	if whole {
		names = append(names, t.Without(names)...)
	}
	return names, whole, err
}

// look adds the rows of some nodes to an update, or that they are gone.
func (w *watched) look(ctx context.Context, names []string, u *liveview.Update) error {
	now, nodes := w.c.cfg.Now(), make([]view.Node, 0, len(names))
	err := w.see(ctx, func(f *fleet.Fleet) {
		for _, name := range names {
			if n, _, known := f.Glance(name, now); known {
				nodes = append(nodes, n)
				w.facts[name] = f.Fact(&n)
			} else {
				u.Gone = append(u.Gone, name)
				delete(w.facts, name)
			}
		}
	})
	source := w.c.unitSource()
	for i := range nodes {
		u.Rows = append(u.Rows, roster.Row(&nodes[i], source))
	}
	return err
}

// lookAt says in an update what should be looked at.
func (w *watched) lookAt(ctx context.Context, u *liveview.Update) error {
	in := why.FleetFacts{Now: w.c.cfg.Now(), Clock: w.c.jumpView(), Broker: w.c.roadNow(),
		Nodes: func(yield func(*why.NodeFact) bool) {
			for _, n := range w.facts {
				if !yield(&n) {
					return
				}
			}
		}}
	err := w.see(ctx, func(f *fleet.Fleet) {
		in.Trials = f.Trials()
		in.Rollouts = why.Rollouts(f.Rollouts(), in.Now, versions(f)).Rollouts
	})
	if err == nil {
		u.Look = why.Look(in)
	}
	return err
}

// Fleet returns all nodes at a glance.
func (c *Core) Fleet(ctx context.Context) (view.Fleet, error) {
	t := c.watched.use()
	if _, err := c.watched.fresh(ctx, t); err != nil {
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
	if _, err := w.fresh(ctx, t); err != nil {
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
