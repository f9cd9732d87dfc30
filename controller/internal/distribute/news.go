package distribute

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/liveview"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/controller/internal/words"
)

// maxNews bounds the records that wait to be put into words.
const maxNews = 2000

// news gathers the records that viewers are told of: those that matter, or all while somebody wants these.
type news struct {
	taking atomic.Bool
	all    atomic.Int64 // viewers who want all of them

	mu      sync.Mutex
	records []record.Record
	whole   bool // nothing was left out since it was asked last
	missed  bool // there were too many
}

func (t *news) start() { t.taking.Store(true) }

func (t *news) stop() {
	t.taking.Store(false)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records, t.whole, t.missed = nil, false, false
}

// take is given what has become durable. The records belong to it from then on.
func (t *news) take(records []record.Record) {
	if !t.taking.Load() {
		return
	}
	all := t.all.Load() > 0
	t.mu.Lock()
	defer t.mu.Unlock()
	t.whole = all && (t.whole || len(t.records) == 0)
	for i := range records {
		switch r := &records[i]; {
		case !all && !mayMatter(r):
		case len(t.records) == maxNews:
			t.missed = true
		default:
			t.records = append(t.records, *r)
		}
	}
}

// mayMatter leaves out what comes by the thousand and is mere information: decoding each would cost more than the rest.
func mayMatter(r *record.Record) bool {
	switch r.Type {
	case record.Issued:
		return r.Who != ""
	case record.Live:
		return bytes.Contains(r.Data, []byte(`"up":false`))
	case record.Report:
		for _, sign := range []string{`"error"`, `"rejected"`, `"failed"`, `"rolledback"`} {
			if bytes.Contains(r.Data, []byte(sign)) {
				return true
			}
		}
		return false
	}
	return true
}

// words adds what was taken to an update, as viewers read it.
func (t *news) words(u *liveview.Update, c *Core) {
	t.mu.Lock()
	records := t.records
	u.All, u.Missed = t.whole, t.missed
	t.records, t.whole, t.missed = nil, t.all.Load() > 0, false
	t.mu.Unlock()
	for i := range records {
		e := c.entry(&records[i])
		e.Data = nil
		if u.All || liveview.Matters(&e) {
			u.Entries = append(u.Entries, e)
		}
	}
}

// entry is a record as people read it. Data that is no JSON is left out.
func (c *Core) entry(r *record.Record) view.Entry {
	e := view.Entry{Seq: r.Seq, At: r.At, Type: r.Type.String(), Node: r.Node, Who: r.Who, Kind: r.Kind}
	if v := jsontext.Value(bytes.Clone(r.Data)); v.IsValid() {
		e.Data = v
	}
	words.Tell(&e, c.cfg.Kinds)
	return e
}
