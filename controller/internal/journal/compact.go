package journal

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// Policy says what Compact may remove. A record goes only if every rule lets it go, or it is in Drop; without a
// checkpoint, or after it, nothing goes. The zero Policy removes every record up to the
// checkpoint and no body.
type Policy struct {
	KeepRecords int       // the newest so many records stay
	KeepSince   time.Time // records from this time on stay; zero: no such rule
	KeepTypes   []Type    // records of these types stay for ever
	// asked last, for each record that would go; Data is valid during the call; may be nil
	Keep     func(Record) bool
	KeepBody func(Hash) bool // asked for each body; nil: every body stays
	Drop     []uint64        // records that go whatever the other rules say; in rising order, and all there
}

// Compacted says what Compact did.
type Compacted struct {
	Records int   // removed
	Bodies  int   // removed
	Bytes   int64 // of the removed values
}

// compactChunk bounds how many keys one transaction of Compact visits or removes, and so how
// long an Append may wait for it: some milliseconds.
const compactChunk = 1000

// Compact removes what the policy lets go, in small transactions, while the journal is in use.
// The chain stays provable: each run of removed records leaves one entry in gaps. The file does
// not shrink, its free pages are used again. The policy's functions run on the caller's
// goroutine outside any transaction. A body that is appended while Compact runs stays, whatever
// KeepBody said. Interrupting it, by ctx or a crash, leaves a valid journal with some of the work
// done.
func (j *Journal) Compact(ctx context.Context, p Policy) (done Compacted, err error) {
	if err := j.writable(); err != nil {
		return done, err
	}
	select {
	case j.maintenance <- struct{}{}:
		defer func() { <-j.maintenance }()
	case <-ctx.Done():
		return done, ctx.Err()
	}
	if err := j.drop(ctx, p.Drop, &done); err != nil {
		return done, err
	}
	if err := j.compactLog(ctx, p, &done); err != nil || p.KeepBody == nil {
		return done, err
	}
	return done, j.compactBodies(ctx, p, &done)
}

func (j *Journal) compactLog(ctx context.Context, p Policy, done *Compacted) error {
	st, err := j.Stats()
	if err != nil {
		return err
	}
	upTo := st.Checkpoint
	if keep := uint64(max(p.KeepRecords, 0)); keep >= st.Last {
		return nil
	} else if keep > 0 {
		upTo = min(upTo, st.Last-keep)
	}
	types := setOf(p.KeepTypes)
	defer j.index.forget(upTo)
	for next := uint64(1); next <= upTo; {
		if err := ctx.Err(); err != nil {
			return err
		}
		visits := 0
		var doomed []uint64
		err := j.Scan(Filter{From: next, To: upTo, Limit: compactChunk}, func(r Record) error {
			visits, next = visits+1, r.Seq+1
			old := p.KeepSince.IsZero() || r.At.Before(p.KeepSince)
			if old && !types.has(r.Type) && (p.Keep == nil || !p.Keep(r)) {
				doomed = append(doomed, r.Seq)
			}
			return nil
		})
		if err != nil || visits == 0 {
			return err
		}
		if len(doomed) == 0 {
			continue
		}
		if err := j.remove(doomed, done); err != nil {
			return err
		}
	}
	return nil
}

// drop removes these records, as far as the checkpoint has them.
func (j *Journal) drop(ctx context.Context, doomed []uint64, done *Compacted) error {
	st, err := j.Stats()
	if err != nil {
		return err
	}
	after, _ := slices.BinarySearch(doomed, st.Checkpoint+1)
	for some := range slices.Chunk(doomed[:after], compactChunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.remove(some, done); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a chunk of records.
func (j *Journal) remove(doomed []uint64, done *Compacted) error {
	var bytes int64
	err := j.update(func(tx *bbolt.Tx) (err error) {
		bytes, err = j.removeRecords(tx, doomed)
		return err
	}, nil)
	if err == nil {
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
// neighbouring gaps. It returns how many bytes their values had.
func (j *Journal) removeRecords(tx *bbolt.Tx, doomed []uint64) (size int64, err error) {
	log, gaps := tx.Bucket(bucketLog), tx.Bucket(bucketGaps)
	var from uint64 // the open gap; 0: none
	var to mark
	flush := func() error {
		if from == 0 {
			return nil
		}
		return gaps.Put(beSeq(from), to.bytes())
	}
	for _, seq := range doomed {
		value := log.Get(beSeq(seq))
		if len(value) < hashSize {
			return 0, j.Damaged("record %d is gone", seq)
		}
		size += int64(len(value))
		at := mark{seq, Hash(value[:hashSize])}
		if err := log.Delete(beSeq(seq)); err != nil {
			return 0, err
		}
		if from == 0 || to.seq != seq-1 {
			if err := flush(); err != nil {
				return 0, err
			}
			from = seq
			if start, end, ok := gapBefore(gaps, seq); ok && end.seq == seq-1 {
				from = start
			}
		}
		to = at
		if next, ok := parseMark(gaps.Get(beSeq(seq + 1))); ok {
			to = next
			if err := gaps.Delete(beSeq(seq + 1)); err != nil {
				return 0, err
			}
		}
	}
	return size, flush()
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

func (j *Journal) compactBodies(ctx context.Context, p Policy, done *Compacted) error {
	// From here on Append notes what it stores: KeepBody may have said no a moment before.
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
			if !p.KeepBody(h) {
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
