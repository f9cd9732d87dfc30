package journal

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tandem.internal/controller/internal/record"
)

// Trim is a record that says which others go.
type Trim struct {
	Seq uint64
	At  time.Time
	record.TrimmedData
}

// maxTrims bounds the trims of a Proof.
const maxTrims = 10

// trimmed takes in a record that says which others go.
func (v *verifier) trimmed(r *Record) {
	data, err := record.Decode(record.Trimmed, r.Data)
	if err != nil {
		v.found(Altered, r.Seq, 0, "its chain hash is right but it cannot be read: %v", err)
		return
	}
	p := &v.proof
	if p.Trimmed++; len(p.Trims) == maxTrims {
		p.Trims = slices.Delete(p.Trims, 0, 1)
	}
	p.Trims = append(p.Trims, Trim{r.Seq, r.At, data.(record.TrimmedData)})
}

// trims holds what is gone against what the newest trim says: no more, none after it, and the chain goes on from what
// it has of the last one. A journal that was never trimmed has no such record of what went.
func (v *verifier) trims() error {
	if len(v.proof.Trims) == 0 {
		return nil
	}
	t := v.proof.Trims[len(v.proof.Trims)-1]
	if gone := v.proof.Compacted; gone > t.Gone {
		v.found(GapsWrong, 0, 0, "%d records are gone, and the newest trim, record %d, accounts for %d", gone, t.Seq,
			t.Gone)
	}
	for _, g := range v.gone {
		switch {
		case g.to.seq > t.Seq:
			v.found(GapsWrong, 0, 0, "the records %d to %d are gone, and no trim is newer than record %d", g.from,
				g.to.seq, t.Seq)
			return nil
		case g.to.seq == t.Last && hex.EncodeToString(g.to.hash[:]) != t.After:
			v.found(GapsWrong, 0, 0, "record %d that is gone is not the one that the trim of record %d has", t.Last,
				t.Seq)
		}
	}
	return nil
}

// String is one line for people.
func (t *Trim) String() string {
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(t.Kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", t.Kinds[name], name))
	}
	text := fmt.Sprintf("trimmed at %s (record %d): %s of %d to %d, from %s to %s: %s",
		t.At.Format(time.RFC3339), t.Seq, count(t.Count, "record", "records"), t.First, t.Last,
		t.Oldest.Format(time.DateOnly), t.Newest.Format(time.DateOnly), strings.Join(kinds, ", "))
	if t.File != "" {
		text += ", exported to " + t.File
	}
	return text
}
