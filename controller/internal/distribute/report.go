package distribute

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/unitstatus"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/link"
	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// reporter says to the cloud side how the whole unit is, by parts on outbox/status: whole in each session with the
// broker and whenever that is asked for, else what has changed. It does so only if there is an inbox. Its goroutine is
// run.
type reporter struct {
	c    *Core
	wake chan struct{}

	mu    sync.Mutex
	batch unitstatus.Batch
	asked map[string]time.Time // when the newest question of each submitter was signed

	// The goroutine's own: what was said last.
	last       *cloud.UnitStatus // nil: nothing
	epoch, rev uint64
	time       time.Time
	parts      flow.Bucket // that may be said
}

func newReporter(c *Core) *reporter {
	return &reporter{c: c, wake: make(chan struct{}, 1), batch: unitstatus.Batch{Wait: c.cfg.StatusWait},
		asked: map[string]time.Time{}}
}

// whole has the next status be whole, and said soon.
func (r *reporter) whole() {
	r.mu.Lock()
	r.batch.Whole(r.c.cfg.Now())
	r.mu.Unlock()
	r.kick()
}

// changed has what has changed be said soon.
func (r *reporter) changed() {
	r.mu.Lock()
	r.batch.Changed(r.c.cfg.Now())
	r.mu.Unlock()
	r.kick()
}

func (r *reporter) kick() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reporter) due() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batch.Due()
}

func (r *reporter) take() (whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batch.Take()
}

// run says what changes until ctx ends.
func (r *reporter) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	changed := r.c.Changed()
	for {
		if due, ok := r.due(); ok {
			timer.Reset(max(0, due.Sub(r.c.cfg.Now())))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = r.c.Changed()
			r.changed()
		case <-r.wake:
		case <-timer.C:
			r.say(ctx, r.take())
		}
	}
}

// say says the status as it is now. Without a session nothing is: the next one begins with a whole status.
func (r *reporter) say(ctx context.Context, whole bool) {
	session := r.c.outbox.at()
	if session == 0 {
		return
	}
	to := topic.ForOutbox(r.c.cfg.Unit, statusTopic)
	switch hold := r.c.silent() || r.c.outbox.holds(to); { // else parts pile up that nobody can have
	case hold && whole:
		r.whole()
		return
	case hold:
		r.changed()
		return
	}
	now, head, err := r.c.assemble(ctx, func(do func()) error { return inTurnOf(ctx, r.c.readersTurn, do) })
	if err != nil {
		r.last = nil // the journal cannot be read; what follows when it can be is a change
		return
	}
	next, prev, prevTime := now, uint64(0), time.Time{}
	if r.last != nil && r.epoch == head.Epoch {
		delta := cloud.Delta(r.last, now)
		switch {
		case delta == nil && !whole:
			return
		case !whole && head.Rev > r.rev: // else nothing was journaled since, and the same rev says it all
			next, prev, prevTime = delta, r.rev, r.time
		}
	}
	parts, err := cloud.Split(next.Encode())
	if err != nil {
		r.c.cfg.Log.Error("the unit's status is not said", zap.Error(err))
		return
	}
	for i, data := range parts {
		if !r.paced(ctx) || r.c.outbox.at() != session {
			r.last = nil // the next session begins with a whole status
			return
		}
		m := head
		m.Part = &wire.StatusPart{Prev: prev, PrevTime: prevTime, Part: i + 1, Of: len(parts), Data: data}
		m.Sig = r.c.signer().Sign(seal.StatusPreimage(r.c.cfg.Unit, &m))
		r.c.outbox.send(link.Publication{Topic: to, Payload: wire.Encode(&m)})
	}
	r.last, r.epoch, r.rev, r.time = now, head.Epoch, head.Rev, head.Time
}

// pace is how fast parts are said: no broker is asked to hold many for who reads slowly. The embedded one holds 64
// messages of 4 MiB together.
var pace = flow.Rate{Burst: 16, Every: time.Second}

// paced waits until the next part may be said; false: ctx has ended.
func (r *reporter) paced(ctx context.Context) bool {
	for !r.parts.Take(time.Now(), r.c.cfg.StatusPace) {
		select {
		case <-time.After(time.Until(r.parts.Next(r.c.cfg.StatusPace, 1))):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// assemble says how the unit is. The loop is only held up while it is looked at; what is made of it takes a turn.
func (c *Core) assemble(ctx context.Context, inTurn func(do func()) error) (s *cloud.UnitStatus, head wire.UnitStatus,
	err error) {
	terr := inTurn(func() {
		var u *unitstatus.Unit
		var newest kind.Content
		if err = c.see(ctx, func(f *fleet.Fleet) {
			u, head, newest = unitstatus.Look(f), c.statusOf(f), f.Content(record.KindWanted)
		}); err == nil {
			s = u.Assemble(c.wanted(newest))
		}
	})
	return s, head, cmp.Or(err, terr)
}

// ask answers the question of a submitter for the whole status: with that. What cannot be judged is trouble, and gets
// no answer: on outbox/status there is none.
func (r *reporter) ask(name string, payload []byte) {
	m, err := wire.Decode[wire.Submission](payload)
	if err != nil {
		r.c.Misbehaved("", name, wire.AsError(err))
		return
	}
	who, refused := r.c.submitter(statusTopic, m)
	if refused == nil && m.Sig != nil && !r.newer(who, m.Time) {
		refused = wire.New(wire.CodeExpired, "/time", "a later question of "+who+" was answered: it is played again")
	}
	if refused != nil {
		r.c.Misbehaved("", name, refused)
		return
	}
	r.whole()
}

// newer notes when a question was signed; false: it is none that is newer.
func (r *reporter) newer(who string, signed time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !signed.After(r.asked[who]) {
		return false
	}
	r.asked[who] = signed
	return true
}

// UnitStatus returns the unit at a glance, and, if it was asked for, all that there is of it.
func (c *Core) UnitStatus(ctx context.Context, in op.UnitStatusIn) (view.UnitStatus, error) {
	s, err := c.Status(ctx)
	if err != nil || !in.Report || c.Refusing() != nil {
		return s, err
	}
	s.Report, _, err = c.assemble(ctx, func(do func()) error { return c.inReadersTurn(ctx, do) })
	return s, err
}
