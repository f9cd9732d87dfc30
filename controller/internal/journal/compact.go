package journal

import (
	"context"
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"
)

// Compacted says what Drop or DropBodies did.
type Compacted struct {
	Records int   // removed
	Bodies  int   // removed
	Bytes   int64 // of the removed values
}

// compactChunk bounds how many keys one transaction visits or removes that makes room, and so how
// long an Append may wait for it: some milliseconds.
const compactChunk = 1000

// Drop removes these records, in rising order and all there, as far as the checkpoint has them: in small transactions,
// while the journal is in use. The chain stays provable: each run of removed records leaves one entry in gaps. The file
// does not shrink, its free pages are used again. Interrupting it, by ctx or a crash, leaves a valid journal with some
// of the work done.
func (j *Journal) Drop(ctx context.Context, doomed []uint64) (done Compacted, err error) {
	err = j.maintain(ctx, func() error {
		st, err := j.Stats()
		if err != nil {
			return err
		}
		after, _ := slices.BinarySearch(doomed, st.Checkpoint+1)
		for some := range slices.Chunk(doomed[:after], compactChunk) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := j.remove(some, &done); err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// DropBodies removes the bodies that keep, which is asked for each outside any transaction, does not want kept. One
// that is appended meanwhile stays, whatever keep said. It works as Drop does.
func (j *Journal) DropBodies(ctx context.Context, keep func(Hash) bool) (done Compacted, err error) {
	err = j.maintain(ctx, func() error { return j.dropBodies(ctx, keep, &done) })
	return done, err
}

// maintain runs fn while nothing else does that may not run beside it.
func (j *Journal) maintain(ctx context.Context, fn func() error) error {
	if err := j.writable(); err != nil {
		return err
	}
	select {
	case j.maintenance <- struct{}{}:
		defer func() { <-j.maintenance }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return fn()
}

// remove removes a chunk of records.
func (j *Journal) remove(doomed []uint64, done *Compacted) error {
	var bytes int64
	var gaps []gap
	err := j.update(func(tx *bbolt.Tx) (err error) {
		gaps, bytes, err = j.removeRecords(tx, doomed)
		return err
	}, nil)
	if err == nil {
		j.index.forget(doomed[0], gaps)
		done.Records += len(doomed)
		done.Bytes += bytes
	}
	return err
}

// entry is a copy of one log value.
type entry struct {
	seq   uint64
	value []byte
}

// logEntries copies out at most n log values with from <= seq <= to, fewer if they are large.
func (j *Journal) logEntries(from, to uint64, n int) (out []entry, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		size := 0
		c := tx.Bucket(bucketLog).Cursor()
		for k, v := c.Seek(beSeq(from)); k != nil && len(out) < n && size < 4*chunkBytes; k, v = c.Next() {
			if len(k) != 8 {
				return j.Damaged("a key of %d bytes in the log", len(k))
			}
			seq := binary.BigEndian.Uint64(k)
			if seq > to {
				return nil
			}
			out = append(out, entry{seq, append([]byte(nil), v...)})
			size += len(v)
		}
		return nil
	})
	return out, err
}

// removeRecords deletes the records (in rising order) and enters them into gaps, joining
// neighbouring gaps. It returns these, and how many bytes the records' values had.
func (j *Journal) removeRecords(tx *bbolt.Tx, doomed []uint64) (formed []gap, size int64, err error) {
	log, gaps := tx.Bucket(bucketLog), tx.Bucket(bucketGaps)
	var open gap // from 0: there is none
	flush := func() error {
		if open.from == 0 {
			return nil
		}
		formed = append(formed, open)
		return gaps.Put(beSeq(open.from), open.to.bytes())
	}
	for _, seq := range doomed {
		value := log.Get(beSeq(seq))
		if len(value) < hashSize {
			return nil, 0, j.Damaged("record %d is gone", seq)
		}
		size += int64(len(value))
		at := mark{seq, Hash(value[:hashSize])}
		if err := log.Delete(beSeq(seq)); err != nil {
			return nil, 0, err
		}
		if open.from == 0 || open.to.seq != seq-1 {
			if err := flush(); err != nil {
				return nil, 0, err
			}
			open.from = seq
			if start, end, ok := gapBefore(gaps, seq); ok && end.seq == seq-1 {
				open.from = start
			}
		}
		open.to = at
		if next, ok := parseMark(gaps.Get(beSeq(seq + 1))); ok {
			open.to = next
			if err := gaps.Delete(beSeq(seq + 1)); err != nil {
				return nil, 0, err
			}
		}
	}
	err = flush()
	return formed, size, err
}

// gapBefore finds the last gap that begins before seq.
func gapBefore(gaps *bbolt.Bucket, seq uint64) (from uint64, to mark, ok bool) {
	c := gaps.Cursor()
	k, v := c.Last()
	if at, _ := c.Seek(beSeq(seq)); at != nil {
		k, v = c.Prev()
	}
	if len(k) != 8 {
		return 0, mark{}, false
	}
	to, ok = parseMark(v)
	return binary.BigEndian.Uint64(k), to, ok
}

func (j *Journal) dropBodies(ctx context.Context, keep func(Hash) bool, done *Compacted) error {
	// From here on Append notes what it stores: keep may have said no a moment before.
	if err := j.locked(func() { j.fresh = make(map[Hash]struct{}) }); err != nil {
		return err
	}
	defer func() { _ = j.locked(func() { j.fresh = nil }) }() // never fails when the first one did not
	for next := (*Hash)(nil); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		hashes, err := j.bodyHashes(next, compactChunk)
		if err != nil || len(hashes) == 0 {
			return err
		}
		next = &hashes[len(hashes)-1]
		var doomed []Hash
		for _, h := range hashes {
			if !keep(h) {
				doomed = append(doomed, h)
			}
		}
		if len(doomed) == 0 {
			continue
		}
		var n int
		var bytes int64
		err = j.update(func(tx *bbolt.Tx) error {
			bucket := tx.Bucket(bucketBodies)
			for _, h := range doomed {
				if _, ok := j.fresh[h]; ok {
					continue
				}
				n++
				bytes += int64(len(bucket.Get(h[:])))
				if err := bucket.Delete(h[:]); err != nil {
					return err
				}
			}
			return nil
		}, nil)
		if err != nil {
			return err
		}
		done.Bodies += n
		done.Bytes += bytes
	}
}

// locked runs fn as a writer without a transaction.
func (j *Journal) locked(fn func()) error {
	j.writer.Lock()
	defer j.writer.Unlock()
	fn()
	return j.writable()
}

// bodyHashes lists at most n body keys after the given one (nil: from the first).
func (j *Journal) bodyHashes(after *Hash, n int) (out []Hash, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketBodies).Cursor()
		k, _ := c.First()
		if after != nil {
			if k, _ = c.Seek(after[:]); string(k) == string(after[:]) {
				k, _ = c.Next()
			}
		}
		for ; k != nil && len(out) < n; k, _ = c.Next() {
			if len(k) != hashSize {
				return j.Damaged("a key of %d bytes among the bodies", len(k))
			}
			out = append(out, Hash(k))
		}
		return nil
	})
	return out, err
}
