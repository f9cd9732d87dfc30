package distribute

import (
	"context"
	"errors"
	"slices"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
)

// superseded returns the records that compaction removes though their types are kept: of documents that were decided,
// of desired statuses, and of submissions that changed nothing, those that are too many. What nodes have or a rollout
// may bring back is not, and the newest of each submitter on each topic: older ones are not judged after it.
func (c *Core) superseded(ctx context.Context, j *journal.Journal) (doomed []uint64, err error) {
	b := bounded{c: c, j: j, kept: map[string]*amount{}, counted: map[string]bool{}, newest: map[line]bool{}}
	if err := c.look(ctx, func(f *fleet.Fleet) { b.used = f.BodyInUse() }); err != nil {
		return nil, err
	}
	f := journal.Filter{Reverse: true, Types: []record.Type{record.Accepted, record.Refused, record.Settings}}
	if err := j.Scan(f, func(r record.Record) error {
		keep, err := b.keeps(&r)
		if err == nil && !keep {
			doomed = append(doomed, r.Seq)
		}
		return err
	}); err != nil {
		return nil, err
	}
	slices.Sort(doomed)
	return doomed, nil
}

// bounded counts what is kept, the newest first.
type bounded struct {
	c       *Core
	j       *journal.Journal
	used    map[string]bool    // bodies
	kept    map[string]*amount // by what is counted together
	counted map[string]bool    // bodies that are
	newest  map[line]bool
}

// amount is what is kept of what is counted together.
type amount struct {
	records int
	bytes   int64
}

// keeps reports whether a record stays. It is asked about the newest ones first.
func (b *bounded) keeps(r *record.Record) (bool, error) {
	wanted := r.Kind == string(record.KindWanted)
	if r.Type == record.Settings && !wanted {
		return true, nil
	}
	v, err := record.Submitted(r)
	if err != nil || v.Via != viaDecided && !v.Nothing && !wanted {
		return true, err
	}
	of := r.Kind + " " + r.Type.String()
	if v.Nothing {
		of += " nothing"
	}
	a := b.kept[of]
	if a == nil {
		a = &amount{}
		b.kept[of] = a
	}
	size := int64(len(r.Data))
	if hash, has := r.Body(); has && !b.counted[v.Hash] {
		b.counted[v.Hash] = true
		document, _, err := b.j.Body(hash)
		if err != nil && !errors.Is(err, journal.ErrDamaged) { // which is told of elsewhere
			return true, err
		}
		size += int64(len(document))
	}
	from := line{r.Who, r.Kind}
	first := !v.Signed.IsZero() && !b.newest[from]
	b.newest[from] = b.newest[from] || first
	a.records, a.bytes = a.records+1, a.bytes+size
	within := a.records == 1 || a.records <= b.c.cfg.KeepSuperseded && a.bytes <= b.c.cfg.KeepDocuments
	return within || first || v.Hash != "" && b.used[v.Hash], nil
}
