package distribute

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
)

// When the journal is trimmed: maintenance after a start, once a day, and when it has grown by so many bytes.
const (
	trimEvery = 24 * time.Hour
	trimGrown = 64 << 20
)

// trimmed is when the journal was trimmed last, and how large it was then. The zero trimmed: not since the start.
type trimmed struct {
	at   time.Time
	size int64
}

// due reports whether the journal is to be trimmed.
func (t *trimmed) due(now time.Time, size int64) bool {
	return t.at.IsZero() || now.Sub(t.at).Abs() >= trimEvery || size >= t.size+trimGrown
}

// inUse is how many bytes of the journal's file are.
func inUse(j *journal.Journal) (int64, error) {
	st, err := j.Stats()
	return st.Size - st.Free, err
}

// trim removes the records that are older, or more, than is to be kept; what it has removed is in the answer also if it
// failed. The newest checkpoint has what they led to.
func (c *Core) trim(ctx context.Context, j *journal.Journal) (done journal.Compacted, err error) {
	st, err := j.Stats()
	if err != nil {
		return done, err
	}
	l, err := c.leaving(ctx, j, st.Last, st.Checkpoint)
	if err != nil {
		return done, err
	}
	cut := cutting{c: c, j: j, done: &done}
	if cut.gone, err = j.Gone(); err != nil {
		return done, err
	}
	if err := l.each(ctx, func(h retain.Header, _ outdated) error {
		cut.add(h)
		if len(cut.doomed) == c.cfg.TrimRecords {
			return cut.cut(ctx)
		}
		return nil
	}); err != nil {
		return done, err
	}
	return done, cut.cut(ctx)
}

// leaving is what goes of a journal now.
type leaving struct {
	j     *journal.Journal
	upTo  uint64       // nothing newer goes
	floor uint64       // nor anything newer than that but what is superseded
	plan  *retain.Plan // that has counted
	drop  []outdated
	there map[retain.Kind]retain.Amount // before it goes
	time  time.Time                     // zero: it is not known
}

// leaving finds out what goes of a journal of so many records, up to one of them.
func (c *Core) leaving(ctx context.Context, j *journal.Journal, last, upTo uint64) (*leaving, error) {
	l := &leaving{j: j, upTo: upTo, floor: last - min(last, uint64(max(c.cfg.KeepRecords, 0))), time: c.cfg.Now(),
		there: map[retain.Kind]retain.Amount{}}
	if c.silent() {
		l.time = time.Time{} // it may not be the time
	}
	l.plan = retain.NewPlan(c.cfg.Keep, l.time)
	err := j.Headers(ctx, upTo, func(h retain.Header) error { l.plan.Count(h); return nil })
	if err != nil {
		return nil, err
	}
	for kind, a := range l.plan.There {
		l.there[kind] = *a
	}
	l.drop, err = c.superseded(ctx, j, l.plan, l.floor)
	if err != nil && !errors.Is(err, journal.ErrDamaged) { // what is damaged may be what would go
		return nil, err
	}
	return l, nil
}

// each calls fn, once, for every record that goes, the oldest first, and why.
func (l *leaving) each(ctx context.Context, fn func(retain.Header, outdated) error) error {
	drop := l.drop
	return l.j.Headers(ctx, l.upTo, func(h retain.Header) error {
		for len(drop) > 0 && drop[0].seq < h.Seq {
			drop = drop[1:]
		}
		if len(drop) > 0 && drop[0].seq == h.Seq {
			return fn(h, drop[0])
		}
		if h.Seq > l.floor {
			return nil
		}
		if why := l.plan.Goes(h); why != "" {
			return fn(h, outdated{seq: h.Seq, why: why})
		}
		return nil
	})
}

// cutting gathers records that go, and has them go.
type cutting struct {
	c      *Core
	j      *journal.Journal
	done   *journal.Compacted
	gone   uint64
	doomed []uint64
	data   record.TrimmedData
}

func (t *cutting) add(h retain.Header) {
	d := &t.data
	if len(t.doomed) == 0 {
		*d = record.TrimmedData{First: h.Seq, Oldest: h.At, Kinds: map[string]int{}}
	}
	t.doomed = append(t.doomed, h.Seq)
	d.Last, d.Newest, d.Count, d.Bytes = h.Seq, h.At, d.Count+1, d.Bytes+int64(h.Size)
	d.Kinds[cmp.Or(string(retain.Of(h.Type, h.Kind)), h.Type.String())]++
}

// cut has what was gathered go. First it is exported, if that is wanted; then there is a record that says what goes;
// and only then that does. What fails before leaves all of it, and a crash in between some.
func (t *cutting) cut(ctx context.Context) error {
	if len(t.doomed) == 0 {
		return nil
	}
	before, last, err := t.export(ctx)
	if err != nil {
		return err
	}
	t.data.Before, t.data.After = hex.EncodeToString(before[:]), hex.EncodeToString(last[:])
	t.gone += uint64(t.data.Count)
	t.data.Gone = t.gone
	if lerr := t.c.look(ctx, func(*fleet.Fleet) {
		if t.c.journal.Load() != t.j {
			err = errors.New("the journal was opened anew meanwhile")
			return
		}
		t.c.step(fleet.Trim{Data: t.data})
		t.c.commit()
		err = t.c.broken
	}); lerr != nil || err != nil {
		return cmp.Or(lerr, err)
	}
	done, err := t.j.Drop(ctx, t.doomed)
	t.done.Records, t.done.Bytes = t.done.Records+done.Records, t.done.Bytes+done.Bytes
	t.doomed = t.doomed[:0]
	return err
}

// export proves what goes, and writes it to a file of its own if there is a directory for that. It returns the chain
// hashes before the first record and of the last one.
func (t *cutting) export(ctx context.Context) (before, last journal.Hash, err error) {
	if t.c.cfg.KeepExport == "" {
		return t.j.ExportSome(ctx, nil, t.doomed)
	}
	e := exportFile{dir: t.c.cfg.KeepExport, around: t.c.cfg.Around, name: exportName(t.j, t.data.First, t.data.Last)}
	t.data.Sum, err = e.write(func(w *gzipped) (err error) {
		before, last, err = t.j.ExportSome(ctx, w, t.doomed)
		return err
	})
	if err != nil {
		return before, last, fmt.Errorf("--keep-export: %w; nothing was removed that is not exported", err)
	}
	t.data.File = e.name
	return before, last, nil
}

// keepTrimmed trims the journal and says so. Why it failed is told until it does not any more.
func (c *Core) keepTrimmed(ctx context.Context, j *journal.Journal) error {
	done, err := c.trim(ctx, j)
	switch {
	case err == nil:
		c.untrimmed.Store(nil)
	case ctx.Err() == nil:
		text := "the journal could not be trimmed: " + err.Error()
		c.untrimmed.Store(&text)
	}
	if done.Records > 0 {
		c.cfg.Log.Info("journal trimmed", zap.Int("records", done.Records), zap.Int64("bytes", done.Bytes))
	}
	return err
}
