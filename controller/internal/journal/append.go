package journal

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"tandem.internal/shared/wire"
)

// Batch is what one Append makes durable: all of it or nothing.
type Batch struct {
	Records    []Record // Seq is ignored and filled in by a successful Append
	Bodies     [][]byte // stored under their SHA-256; a stored one that is damaged is replaced
	Checkpoint *Checkpoint

	// First, if not 0, is the Seq that the first record must get: a caller that wrote it into
	// documents finds out when somebody else appended in between.
	First uint64
}

// Append writes the batch with one commit and returns the sequence number of its first record
// (the next number if it has no records); the others follow without a gap. When it returns nil
// the batch is durable. ErrInvalid: the batch breaks a rule and nothing happened. ErrBroken: see
// the package comment. The batch's bytes are only read until Append returns.
func (j *Journal) Append(b *Batch) (first uint64, err error) {
	for i := range b.Records {
		if err := checkRecord(&b.Records[i]); err != nil {
			return 0, invalid(fmt.Errorf("record %d of the batch: %w", i, err))
		}
	}
	for i, body := range b.Bodies {
		if len(body) > MaxData {
			err := fmt.Errorf("body %d of the batch has %d bytes, above the limit of %d", i, len(body), MaxData)
			return 0, invalid(err)
		}
	}
	var head mark
	err = j.update(func(tx *bbolt.Tx) error {
		head = j.head
		first = head.seq + 1
		if b.First != 0 && b.First != first {
			return invalid(fmt.Errorf("the batch expects to start at %d, but the next record is %d", b.First, first))
		}
		if err := j.putBodies(tx, b.Bodies); err != nil {
			return err
		}
		if head, err = j.putRecords(tx, head, b.Records); err != nil {
			return err
		}
		return putCheckpoint(tx, b.Checkpoint, head.seq)
	}, func() {
		j.head = head
		j.last.Store(head.seq)
		j.index.appended(b.Records, first)
	})
	if err != nil {
		return 0, err
	}
	for i := range b.Records {
		b.Records[i].Seq = first + uint64(i)
	}
	return first, nil
}

func invalid(cause error) error {
	return fail(ErrInvalid, wire.CodeInvalidArgument, nil, cause.Error())
}

// putRecords chains the records to head and returns the new head, which it writes, too.
func (j *Journal) putRecords(tx *bbolt.Tx, head mark, records []Record) (mark, error) {
	if len(records) == 0 {
		return head, nil
	}
	log := tx.Bucket(bucketLog)
	log.FillPercent = 1 // appended only: half-full pages would never fill up
	j.seal.reset(records)
	var value []byte
	for i := range records {
		value, head = j.seal.seal(head, &records[i])
		// bbolt copies the key and keeps the value until the transaction ends; the arena stays.
		if err := log.Put(seqKey(&j.key, head.seq), value); err != nil {
			return mark{}, err
		}
	}
	return head, tx.Bucket(bucketMeta).Put(keyHead, head.bytes())
}

// putBodies stores the bodies that are not there yet, in key order. One that is there and damaged is replaced.
func (j *Journal) putBodies(tx *bbolt.Tx, bodies [][]byte) error {
	if len(bodies) == 0 {
		return nil
	}
	type entry struct {
		hash Hash
		body []byte
	}
	sorted := make([]entry, len(bodies))
	for i, body := range bodies {
		sorted[i] = entry{sha256.Sum256(body), body}
	}
	slices.SortFunc(sorted, func(a, b entry) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	bucket := tx.Bucket(bucketBodies)
	for i := range sorted {
		e := &sorted[i]
		if j.fresh != nil {
			j.fresh[e.hash] = struct{}{}
		}
		if old := bucket.Get(e.hash[:]); old != nil && bytes.Equal(old, e.body) {
			continue
		}
		if err := bucket.Put(e.hash[:], e.body); err != nil {
			return err
		}
	}
	return nil
}
