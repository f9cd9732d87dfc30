package journal

import (
	"slices"

	"go.etcd.io/bbolt"
)

// run is some records of an export that follow each other.
type run struct {
	from uint64
	prev Hash // before the first
	to   mark // the last
}

// maxRuns bounds what is held against the journal's log: a trim names fewer records.
const maxRuns = 1 << 20

// joins holds the ends of each run against the records beside it that the journal still has, and against what it has
// of the last record of each of its gaps.
func (v *exportVerifier) joins(t *Trim) error {
	for some := range slices.Chunk(v.runs, compactChunk) {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if err := v.j.view(func(tx *bbolt.Tx) error {
			for i := range some {
				if !joined(tx, &some[i]) {
					v.found(RuleJournal, some[i].from, "the records from here to %d do not join those that the "+
						"journal has beside them (trim of record %d)", some[i].to.seq, t.Seq)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func joined(tx *bbolt.Tx, r *run) bool {
	log, gaps := tx.Bucket(bucketLog), tx.Bucket(bucketGaps)
	is := func(seq uint64, hash Hash) bool { // or the journal has no word of it
		if value := log.Get(beSeq(seq)); value != nil {
			stored, _, ok := split(value)
			return ok && stored == hash
		}
		_, end, ok := gapBefore(gaps, seq+1)
		return !ok || end.seq != seq || end.hash == hash
	}
	if r.from == 1 && r.prev != genesis(tx.Bucket(bucketMeta).Get(keyCreated)) ||
		r.from > 1 && !is(r.from-1, r.prev) || !is(r.to.seq, r.to.hash) {
		return false
	}
	next := log.Get(beSeq(r.to.seq + 1))
	stored, payload, ok := split(next)
	return next == nil || ok && link(r.to.hash, r.to.seq+1, payload) == stored
}
