package distribute

import (
	"context"
	"errors"
	"slices"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/retain"
)

// superseded returns the records about documents that go. Those that are older, or more, than is to be kept of all do,
// up to floor; and of documents that were decided, of desired statuses, and of submissions that changed nothing, those
// that are too many of their source. What nodes have or a rollout may bring back does not, nor the newest of each
// source, and of each submitter on each topic: older ones are not judged after it.
func (c *Core) superseded(ctx context.Context, j *journal.Journal, plan *retain.Plan, floor uint64) (doomed []outdated,
	err error) {

	b := bounded{c: c, j: j, plan: plan, floor: floor, kept: map[string]*retain.Amount{}, counted: map[string]bool{},
		newest: map[line]bool{}}
	if err := c.look(ctx, func(f *fleet.Fleet) { b.used = f.BodyInUse() }); err != nil {
		return nil, err
	}
	f := journal.Filter{Reverse: true, Types: []record.Type{record.Accepted, record.Refused, record.Settings}}
	if err := j.Scan(f, func(r record.Record) error {
		why, document, err := b.goes(&r)
		if err == nil && why != "" {
			doomed = append(doomed, outdated{r.Seq, why, document})
		}
		return err
	}); err != nil {
		return nil, err
	}
	slices.Reverse(doomed)
	return doomed, nil
}

// outdated is a record about a document that goes.
type outdated struct {
	seq      uint64
	why      retain.Reason
	document int64 // bytes of the document, if it goes with it
}

// bounded counts what is kept, the newest first.
type bounded struct {
	c       *Core
	j       *journal.Journal
	used    map[string]bool // bodies
	plan    *retain.Plan
	floor   uint64                    // records after it stay, unless they are too many of their source
	all     retain.Amount             // of all
	kept    map[string]*retain.Amount // by what is counted together
	counted map[string]bool           // bodies that are
	newest  map[line]bool
}

// goes says why a record goes, with how many bytes of its document; or that it stays. It is asked about the newest ones
// first.
func (b *bounded) goes(r *record.Record) (why retain.Reason, document int64, err error) {
	wanted := r.Kind == string(record.KindWanted)
	if r.Type == record.Settings && !wanted {
		return "", 0, nil
	}
	v, err := record.Submitted(r)
	if err != nil {
		return "", 0, err
	}
	of := r.Kind + " " + r.Type.String()
	if v.Nothing {
		of += " nothing"
	}
	machine := v.Via == viaDecided || v.Nothing || wanted
	if !machine {
		of += " by people"
	}
	if document, err = b.document(r, &v); err != nil {
		return "", 0, err
	}
	size := int64(len(r.Data)) + document
	a := b.kept[of]
	if a == nil {
		a = &retain.Amount{}
		b.kept[of] = a
	}
	from := line{r.Who, r.Kind}
	first := !v.Signed.IsZero() && !b.newest[from]
	b.newest[from] = b.newest[from] || first
	a.Records, a.Bytes = a.Records+1, a.Bytes+size
	used := a.Records == 1 || first || v.Hash != "" && b.used[v.Hash]
	if machine && (a.Records > b.c.cfg.KeepSuperseded || a.Bytes > b.c.cfg.KeepDocuments) {
		if used {
			return "", 0, nil
		}
		return retain.Source, document, nil
	}
	all := retain.Amount{Records: b.all.Records + 1, Bytes: b.all.Bytes + size}
	if why = b.plan.TooMuch(retain.Documents, r.Seq, all); why != "" && r.Seq <= b.floor && !used {
		return why, document, nil
	}
	b.all = all
	return "", 0, nil
}

// document is how many bytes the journal has of a record's document, of which no newer one has the same.
func (b *bounded) document(r *record.Record, v *record.Verdict) (int64, error) {
	hash, has := r.Body()
	if !has || b.counted[v.Hash] {
		return 0, nil
	}
	b.counted[v.Hash] = true
	document, _, err := b.j.Body(hash)
	if err != nil && !errors.Is(err, journal.ErrDamaged) { // which is told of elsewhere
		return 0, err
	}
	return int64(len(document)), nil
}
