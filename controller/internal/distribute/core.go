// Package distribute runs the controller's mind: it feeds events to a fleet.Fleet, makes the
// records durable, and only then runs the effects: journal first, then MQTT.
//
// One goroutine, the loop, owns the Fleet and is the only appender to the journal. It takes all
// events that have gathered while the last batch was on its way to the disk, steps through them,
// and writes what follows as one batch: the loop is the group commit. Whoever brought an event
// that must not be lost waits for its batch; for messages that is before their acknowledgement.
// A second goroutine, the outbox, signs and publishes; it always sends the newest document of a
// node, so a slow broker skips versions rather than falling behind.
//
// When the journal cannot be written the loop refuses submissions with code storage, holds what nodes
// say, shows what the journal's file has, and keeps trying to write to it; it then begins from what is
// durable, just as after a restart.
package distribute

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tandem.internal/controller/internal/artefact/store"
	"tandem.internal/controller/internal/backup"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/revoked"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/flow"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/link"
	"tandem.internal/shared/wire"
)

// Core is the running controller without its doors. Make it with New, attach the link with Attach,
// then Run it.
type Core struct {
	cfg     Config
	started time.Time
	queue   queue
	outbox  *outbox

	// The loop's own.
	fleet       *fleet.Fleet
	broken      error   // why the journal is not writable; nil: it is
	unread      error   // why the Fleet is not what the journal has: that cannot be read; nil: it is
	backlog     backlog // what nodes said since it is broken
	reopenAt    time.Time
	reopenPause time.Duration
	out         fleet.Out
	batch       journal.Batch
	checkpoint  uint64                 // Seq of the newest checkpoint
	copyDue     bool                   // the readable copy could not be written yet
	copyErr     error                  // why
	copyAt      time.Time              // when it is tried again
	status      statusSeen             // what was last published on outbox/status
	damaged     map[string]*wire.Error // documents that the journal has lost, by hash: fleet.Damaged

	journal  atomic.Pointer[journal.Journal] // changed by the loop, read by all
	refusing atomic.Pointer[error]           // nil: messages are taken
	failures atomic.Uint64                   // of the journal
	stopping atomic.Bool                     // messages are not taken any more
	jumped   atomic.Bool                     // the clock had, when somebody looked last

	tickets   atomic.Uint64
	waitingMu sync.Mutex
	waiting   map[uint64]chan fleet.Answer

	changedMu sync.Mutex
	changed   chan struct{} // closed and replaced after every commit

	inbox   inbox
	report  *reporter
	follow  *follower
	watched *watched
	repeats repeats

	heavyParse chan struct{} // semaphore of size 1: parsing a heavy document may take hundreds of MiB

	readersTurn chan struct{} // semaphore of size 1: the same for those who only read
	readers     atomic.Int64  // how many have their turn or wait for it

	keys     atomic.Pointer[keyset] // changed by the loop, read by all
	rotating sync.Mutex             // one change of the keys at a time
	copying  sync.Mutex             // one copy of the journal at a time
	lost     bool                   // the key that signed is: New replaces it

	away   atomic.Pointer[time.Time]  // until when a maintenance is announced, zero: none
	newest atomic.Pointer[wire.Stamp] // of the document that was issued last

	admitted   admissions
	revoked    *revoked.List                    // used by the loop alone; nil: there is none
	restored   *backup.Origin                   // the loop's own: adopt's justRestored
	authority  *Authority                       // set before Run; nil: none
	cas        atomic.Pointer[jointoken.CAList] // as nodes are told it; changed by the loop, read by all
	root       atomic.Pointer[[]byte]           // the chain that a root key has signed, as DoorRoot returns it
	reportKeys reportKeys
	artefacts  *store.Store // nil: there is none
	named      named

	looks looks

	tooLongMu sync.Mutex
	tooLongs  flow.Throttle // of lines in the log

	overloaded atomic.Pointer[steer.Overloaded] // nodes, as relieve has found

	roadMu sync.Mutex
	road   view.Broker

	trimmed   trimmed                // used by maintain alone
	untrimmed atomic.Pointer[string] // why the journal could not be trimmed; nil: it could
	room      atomic.Pointer[room]   // what the disk was seen to have last; nil: nobody has looked
	gone      atomic.Pointer[gone]   // how many records are; nil: nobody has counted
}

// New opens the journal and brings the state up to what it says. The error is one that a person
// can act on.
func New(cfg Config) (*Core, error) {
	cfg = cfg.withDefaults()
	c := &Core{
		cfg: cfg, started: cfg.Now(), waiting: map[uint64]chan fleet.Answer{}, changed: make(chan struct{}),
		heavyParse: make(chan struct{}, 1), readersTurn: make(chan struct{}, 1), road: cfg.Broker,
	}
	c.queue.init()
	c.inbox.init()
	c.report, c.follow, c.watched = newReporter(c), newFollower(c), newWatched(c)
	c.repeats.init()
	if cfg.Copy != "" {
		if err := durable.Clean(cfg.Copy); err != nil {
			return nil, fmt.Errorf("readable copy: %w", err)
		}
	}
	if err := c.openRevoked(); err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	if err := c.staysOlder(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.beginClock(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.adopt(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.openArtefacts(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	lost := c.lost
	c.lost = false
	c.outbox = newOutbox(c)
	if lost {
		if err := c.replaceKey(c.signer()); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close closes the journal of a Core that does not run.
func (c *Core) Close() error {
	if j := c.journal.Load(); j != nil {
		return j.Close()
	}
	return nil
}

// Run is the life of a Core: it returns when ctx ends, after a last checkpoint. The link's Run
// must have returned before ctx ends.
func (c *Core) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { c.outbox.run(work) })
	wg.Go(func() { c.maintain(work) })
	wg.Go(func() { c.watched.run(work) })
	if c.cfg.Room != nil && c.cfg.DiskLow > 0 {
		wg.Go(func() { c.watchRoom(work) })
	}
	wg.Go(func() { c.artefacts.Run(work) })
	if c.cfg.Desired {
		wg.Go(func() { c.relieve(work) })
	}
	if c.cfg.Inbox {
		wg.Go(func() { c.report.run(work) })
	}
	if c.cfg.Cloud {
		wg.Go(func() { c.follow.run(work) })
	}
	c.loop(ctx)
	c.inbox.close()
	stop()
	wg.Wait()
	return c.finish()
}

// finish leaves a checkpoint, so that the next start has nothing to replay.
func (c *Core) finish() error {
	if c.broken != nil {
		return errors.Join(c.broken, c.journal.Load().Close())
	}
	return errors.Join(c.writeCheckpoint(), c.journal.Load().Close())
}

func (c *Core) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	c.open(false)
	for {
		c.overdue()
		if next, ok := c.deadline(); ok {
			timer.Reset(max(0, next.Sub(c.cfg.Now())))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			c.queue.close()
			c.refuseAll(errStopped)
			return
		case <-timer.C:
		case <-c.queue.wake:
			for c.drain() {
				c.overdue()
			}
		}
	}
}

// open is the beginning of a life: the first record, and a look at the readable copy. After a
// failure of the journal it is also the proof that it takes records again.
func (c *Core) open(recovered bool) {
	older, o := c.older(), c.restored
	c.clockWentBack()
	c.step(fleet.Opened{Version: c.cfg.Version, Recovered: recovered})
	var named []string
	if o != nil {
		named = o.Revoked
		text := fmt.Sprintf("the unit was restored from the backup of %s, record %d: what happened after that is lost",
			o.At.Format(time.RFC3339), o.Seq)
		c.step(fleet.Remark{Who: "restore", Data: view.Remark{Text: text}})
	}
	c.revokeAgain(older, named)
	c.step(fleet.Damaged{Documents: c.damaged})
	c.lookAtCopy()
	c.commit()
}

// drain takes one batch of events; false: there was none.
func (c *Core) drain() bool {
	items, b := c.queue.take(c.cfg.MaxBatch)
	if len(items) == 0 {
		return false
	}
	for i := range items {
		switch it := &items[i]; {
		case it.view != nil:
			c.commit() // nobody is shown what is not durable
			it.view(c.fleet, c.broken)
		case c.broken == nil:
			c.step(it.event)
		case it.ticket != 0:
			c.answer(fleet.Answer{Ticket: it.ticket, Err: c.broken})
		default:
			c.backlog.keep(it.event)
		}
	}
	c.commit()
	close(b)
	c.queue.recycle(items)
	return true
}

// overdue does what time has brought, also while events come without a pause.
func (c *Core) overdue() {
	now := c.cfg.Now()
	if c.broken != nil {
		if !now.Before(c.reopenAt) {
			c.reopen()
		}
		return
	}
	c.clockGoesBack(now)
	if next, ok := c.fleet.NextDeadline(); ok && !now.Before(next) {
		c.step(fleet.Tick{})
	}
	if c.copyDue && !now.Before(c.copyAt) {
		c.writeCopy(nil)
	}
	c.commit()
}

func (c *Core) step(ev fleet.Event) { c.fleet.Step(c.cfg.Now(), ev, &c.out) }

// deadline is when the loop must wake without an event.
func (c *Core) deadline() (time.Time, bool) {
	if c.broken != nil {
		return c.reopenAt, true
	}
	next, ok := c.fleet.NextDeadline()
	if c.copyDue && (!ok || c.copyAt.Before(next)) {
		return c.copyAt, true
	}
	return next, ok
}

// commit makes the step's records durable and then runs its effects. If we crash before the
// append returns, nothing has left this process and nobody was told anything; after it, the
// effects are repeated from the state: documents by the refill of the next session, requests by
// the next deadline, the readable copy by the look at start.
func (c *Core) commit() {
	for range maxRounds {
		if len(c.out.Records)+len(c.out.Bodies)+len(c.out.Effects) == 0 {
			return
		}
		if len(c.out.Records) > 0 {
			c.batch = journal.Batch{Records: c.out.Records, Bodies: c.out.Bodies, First: c.out.Records[0].Seq}
			if c.fleet.Seq()-c.checkpoint >= c.cfg.CheckpointEvery {
				c.batch.Checkpoint = c.snapshot()
			}
			began := time.Now() // how long it takes, whatever the unit's clock says
			if _, err := c.journal.Load().Append(&c.batch); err != nil {
				c.fail(err)
				return
			}
			c.cfg.Meter.Committed(c.out.Records, c.out.Arrived, time.Since(began))
			if c.batch.Checkpoint != nil {
				c.checkpoint = c.batch.Checkpoint.Seq
			}
		}
		c.noteRevoked(c.out.Records)
		c.watched.news.take(c.out.Records)
		effects := append([]fleet.Effect(nil), c.out.Effects...)
		wrote := len(c.out.Records) > 0
		c.out.Reset()
		c.noteNewest()
		for _, e := range effects { // documents need not wait for the readable copy's way to the disk
			if _, ok := e.(fleet.Publish); ok {
				c.run(e)
			}
		}
		for _, e := range effects {
			if _, ok := e.(fleet.Publish); !ok {
				c.run(e)
			}
		}
		if wrote {
			c.announce()
		}
	}
}

// maxRounds bounds the effects that make records of their own (a raised epoch).
const maxRounds = 4

func (c *Core) run(e fleet.Effect) {
	switch e := e.(type) {
	case fleet.Publish:
		c.outbox.publish(e)
	case fleet.Ask:
		if e.Method == wire.MethodReport {
			c.cfg.Meter.Asked(len(e.Nodes))
		}
		c.outbox.ask(e)
	case fleet.Clear:
		for _, name := range e.Topics {
			c.outbox.send(link.Publication{Topic: name, Retain: true})
		}
	case fleet.Greet:
		c.outbox.greet(e.Nodes)
	case fleet.WriteCopy:
		c.writeCopy(e.Document)
	case fleet.Answer:
		c.answer(e)
	case fleet.KeysChanged:
		c.keysChanged()
	case fleet.CAsChanged:
		c.casChanged()
	case fleet.MaintenanceChanged:
		c.maintained()
	case fleet.Admission:
		c.admitted.set(e)
		if e.Cut != "" && c.cfg.Cut != nil {
			c.cfg.Cut(e.Subject, e.Cut)
		}
	case fleet.RaiseEpoch:
		c.raiseEpoch(e.Above, "a node knew newer documents than this journal")
	default:
		panic(fmt.Sprintf("distribute: unknown effect %T", e))
	}
}

var errStopped = wire.New(wire.CodeUnavailable, "", "the controller is stopping")
