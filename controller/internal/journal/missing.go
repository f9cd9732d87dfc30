package journal

import (
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// Missing counts the records after one and up to another that were removed, with the first and the last of them.
func (j *Journal) Missing(after, to uint64) (first, last, n uint64, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		gaps := tx.Bucket(bucketGaps)
		take := func(from uint64, end mark) {
			from, until := max(from, after+1), min(end.seq, to)
			if from > until {
				return
			}
			if n == 0 {
				first = from
			}
			last, n = until, n+until-from+1
		}
		if from, end, ok := gapBefore(gaps, after+1); ok {
			take(from, end)
		}
		c := gaps.Cursor()
		for k, v := c.Seek(beSeq(after + 1)); k != nil; k, v = c.Next() {
			end, ok := parseMark(v)
			if len(k) != 8 || !ok {
				return j.Damaged("its list of gaps is malformed")
			}
			from := binary.BigEndian.Uint64(k)
			if from > to {
				return nil
			}
			take(from, end)
		}
		return nil
	})
	return first, last, n, err
}

// HashOf returns the chain hash of a record, which stands for it and all before it; false: there is none, or no more.
// The record is not proved.
func (j *Journal) HashOf(seq uint64) (h Hash, ok bool, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketLog).Get(beSeq(seq))
		if ok = len(v) >= hashSize; ok {
			h = Hash(v[:hashSize])
		}
		return nil
	})
	return h, ok, err
}
