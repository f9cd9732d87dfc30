package distribute

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/journal"
	"tandem.internal/controller/internal/notify"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
)

// maxNoticesRead bounds the bytes of data that are read for a receiver of notices at once.
const maxNoticesRead = 1 << 20

// NoticesHead is the newest record of the journal. It does not wait for the loop.
func (c *Core) NoticesHead() (notify.Mark, error) {
	j := c.journal.Load()
	return markOf(j, j.Last())
}

// NoticesMark is a record as a mark; its hash is empty if the journal has none of that number, or no more. gone says
// that it was removed.
func (c *Core) NoticesMark(seq uint64) (m notify.Mark, gone bool, err error) {
	j := c.journal.Load()
	if m, err = markOf(j, seq); err != nil || m.Hash != "" || seq == 0 {
		return m, false, err
	}
	_, _, n, err := j.Missing(seq-1, seq)
	return m, n > 0, err
}

// Selected names those of some nodes that a filter selects, as they are now. A node that was forgotten is none of them.
func (c *Core) Selected(ctx context.Context, where string, nodes []string) (names []string, err error) {
	s, err := c.selection(&op.NodesIn{Q: where})
	if err != nil {
		return nil, err
	}
	found, err := c.found(ctx, s, nodes)
	for i := range found {
		names = append(names, found[i].Node.Node)
	}
	return names, err
}

func markOf(j *journal.Journal, seq uint64) (notify.Mark, error) {
	h, ok, err := j.HashOf(seq)
	if err != nil || !ok {
		return notify.Mark{Seq: seq}, err
	}
	return notify.Mark{Seq: seq, Hash: hex.EncodeToString(h[:8])}, nil
}

// Quiet is until when a maintenance is announced; zero: none is.
func (c *Core) Quiet() time.Time { return *c.away.Load() }

// Notices reads what a receiver of notices may want. It reads beside the loop, which it never makes wait.
func (c *Core) Notices(ctx context.Context, f notify.Fetch, types []record.Type) (r notify.Read, err error) {
	j := c.journal.Load()
	head := j.Last()
	upTo, size := head, 0
	err = j.Scan(journal.Filter{From: f.After + 1, To: max(head, 1), Types: types}, func(rec record.Record) error {
		e := view.Entry{Seq: rec.Seq, At: rec.At, Type: rec.Type.String(), Node: rec.Node, Who: rec.Who,
			Kind: rec.Kind}
		if v := jsontext.Value(slices.Clone(rec.Data)); v.IsValid() {
			e.Data = v
		}
		r.Entries = append(r.Entries, notify.Entry{Entry: e})
		if size += len(e.Data); len(r.Entries) >= f.Limit || size >= maxNoticesRead {
			upTo = rec.Seq
			return journal.ErrStop
		}
		return ctx.Err()
	})
	if err != nil {
		return notify.Read{}, err
	}
	read := r.Entries
	r.Entries = r.Entries[:0]
	for _, e := range read {
		m, err := markOf(j, e.Seq)
		if err != nil {
			return notify.Read{}, err
		}
		if e.Hash = m.Hash; e.Hash != "" { // else it was removed meanwhile, and is among those that are gone
			r.Entries = append(r.Entries, e)
		}
	}
	if r.UpTo, err = markOf(j, upTo); err != nil {
		return notify.Read{}, err
	}
	r.More = upTo < head
	g := &r.Gone
	g.First, g.Last, g.Count, err = j.Missing(max(f.After, f.GoneTo), upTo)
	return r, err
}
