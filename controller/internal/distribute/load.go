package distribute

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// load opens the journal and replays it. It is the start, and the way back after a failed write.
func (c *Core) load() error {
	j, err := c.cfg.Open()
	if err != nil {
		return err
	}
	f, checkpoint, err := replay(j, c.options(j))
	if err == nil {
		c.fleet, c.checkpoint = f, checkpoint
		c.journal.Store(j)
		err = c.loadDocuments()
	}
	if err != nil {
		if cerr := j.Close(); cerr != nil {
			c.cfg.Log.Debug("closing the journal", zap.Error(cerr))
		}
	}
	return err
}

// adopt lets what load has read count: who is let in, what signs, what was answered. After a failed write that waits
// until the journal is tried again: the file may show what the disk does not have.
func (c *Core) adopt() error {
	if err := c.loadKeys(c.fleet); err != nil {
		return err
	}
	c.pickCAs()
	c.admitted.reset(c.fleet.Admissions())
	var err error
	if c.restored, err = c.justRestored(); err != nil {
		return err
	}
	var named []string
	if c.restored != nil {
		named = c.restored.Revoked
	}
	for _, subject := range c.revived(c.older(), named) { // until the record of that is written
		c.admitted.set(fleet.Admission{Subject: subject, Revoked: true})
	}
	c.announceMaintenance(c.fleet.Maintenance().At(c.cfg.Now())) // as the record of this start will have it
	c.noteNewest()
	return c.inbox.remember(c.journal.Load())
}

// noteNewest has beacons bear the mark of the document that was issued last.
func (c *Core) noteNewest() {
	if newest := c.fleet.Newest(); c.newest.Load() == nil || *c.newest.Load() != newest {
		c.newest.Store(&newest)
	}
}

func (c *Core) options(j *journal.Journal) fleet.Options {
	opt := c.cfg.Fleet
	opt.Unit, opt.Epoch, opt.Kinds, opt.Keys = c.cfg.Unit, j.Epoch(), c.cfg.Kinds, c.keysHeld()
	opt.Zones, opt.Backups = time.LoadLocation, c.cfg.backupsWanted()
	return opt
}

func replay(j *journal.Journal, opt fleet.Options) (*fleet.Fleet, uint64, error) {
	f := fleet.New(opt)
	cp, ok, err := j.Checkpoint()
	if err != nil {
		return nil, 0, err
	}
	if ok {
		var data []byte
		for _, chunk := range cp.Chunks {
			data = append(data, chunk...)
		}
		if f, err = fleet.Restored(opt, data); err != nil {
			return nil, 0, j.NotUnderstood(err)
		}
		if f.Seq() != cp.Seq {
			return nil, 0, j.Damaged("the checkpoint of record %d holds the state of record %d", cp.Seq, f.Seq())
		}
	}
	err = j.Replay(f.Seq()+1, func(r record.Record) error {
		if err := f.Replay(&r); err != nil {
			return j.NotUnderstood(err)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return f, cp.Seq, nil
}

// chunk is the size in which a checkpoint is stored, bytes.
const chunk = 64 << 10

func (c *Core) snapshot() *journal.Checkpoint {
	data := c.fleet.Checkpoint()
	cp := &journal.Checkpoint{Seq: c.fleet.Seq()}
	for len(data) > 0 {
		n := min(chunk, len(data))
		cp.Chunks = append(cp.Chunks, data[:n])
		data = data[n:]
	}
	return cp
}

func (c *Core) writeCheckpoint() error {
	if c.fleet.Seq() == c.checkpoint {
		return nil
	}
	cp := c.snapshot()
	if _, err := c.journal.Load().Append(&journal.Batch{Checkpoint: cp}); err != nil {
		return err
	}
	c.checkpoint = cp.Seq
	return nil
}

// maintenance is how often the journal is looked at for compaction.
const maintenance = 10 * time.Minute

// maintain keeps the start short, and the journal's size bounded: there is a checkpoint of what was long ago, and
// what is older, or more, than is to be kept goes.
func (c *Core) maintain(ctx context.Context) {
	t := time.NewTicker(maintenance)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := c.maintainOnce(ctx); err != nil && ctx.Err() == nil {
				c.cfg.Log.Warn("compacting the journal", zap.Error(err))
				c.noticeBroken(ctx)
			}
		}
	}
}

// maintainOnce writes a checkpoint, and trims the journal if that is due.
func (c *Core) maintainOnce(ctx context.Context) error {
	size, err := inUse(c.journal.Load())
	if err != nil {
		return err
	}
	if !c.trimmed.due(c.cfg.Now(), size) {
		if lerr := c.look(ctx, func(*fleet.Fleet) { err = c.writeCheckpoint() }); lerr != nil {
			return lerr
		}
		return err
	}
	if err := c.compact(ctx); err != nil {
		return err
	}
	size, err = inUse(c.journal.Load())
	c.trimmed = trimmed{c.cfg.Now(), size}
	return err
}

// noticeBroken lets the loop open the journal again if a write beside the loop has broken it, so
// that not the next submission is what finds out.
func (c *Core) noticeBroken(ctx context.Context) {
	if err := c.look(ctx, func(*fleet.Fleet) {
		if err := c.journal.Load().Err(); err != nil {
			c.fail(err)
		}
	}); err != nil {
		// it is known to be broken, or nobody needs it any more
		c.cfg.Log.Debug("looking at the journal", zap.Error(err))
	}
}

// compact trims the journal, and removes documents that nothing refers to.
func (c *Core) compact(ctx context.Context) error {
	var err error
	if lerr := c.look(ctx, func(*fleet.Fleet) { err = c.writeCheckpoint() }); lerr != nil {
		return lerr
	}
	if err != nil {
		return err
	}
	j := c.journal.Load()
	// Which bodies are in use is asked when the journal begins to go through them: from then on it
	// keeps new ones by itself, and what was accepted before is in the answer.
	used := sync.OnceValues(func() (map[string]bool, error) { return c.bodiesInUse(ctx, j) })
	if err := c.keepTrimmed(ctx, j); err != nil {
		return err
	}
	running := sync.OnceValues(func() (map[string]bool, error) { return c.bodiesRunning(ctx) })
	done, err := j.DropBodies(ctx, func(h journal.Hash) bool {
		hash := wire.HashPrefix + hex.EncodeToString(h[:])
		keep, err := used()
		if err != nil || keep[hash] {
			return true
		}
		keep, err = running()
		return err != nil || keep[hash]
	})
	if done.Bodies > 0 {
		c.cfg.Log.Info("documents that nothing refers to are gone", zap.Int("bodies", done.Bodies),
			zap.Int64("bytes", done.Bytes))
	}
	return err
}

// bodiesRunning names what nodes say that they run: it says which artefacts are in use. The journal may never have had
// it.
func (c *Core) bodiesRunning(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	err := c.look(ctx, func(f *fleet.Fleet) {
		for _, n := range f.Nodes() {
			for _, hashes := range n.Bodies() {
				for _, hash := range hashes {
					all[hash] = true
				}
			}
		}
	})
	return all, err
}

// bodiesInUse names what nodes should have and everything that was ever accepted.
func (c *Core) bodiesInUse(ctx context.Context, j *journal.Journal) (used map[string]bool, err error) {
	if err := c.look(ctx, func(f *fleet.Fleet) { used = f.BodyInUse() }); err != nil {
		return nil, err
	}
	err = j.Scan(journal.Filter{Types: []record.Type{record.Accepted}}, func(r record.Record) error {
		v, err := record.ParseVerdict(r.Data)
		if !v.Nothing {
			used[v.Hash] = true
		}
		return err
	})
	return used, err
}

// historyTypes are what became of the unit configuration, and of the workloads.
var historyTypes = []record.Type{record.Opened, record.Accepted, record.Refused, record.Confirm, record.RolledBack,
	record.State}
