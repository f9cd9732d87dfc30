package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// Filter picks records. Zero fields pick everything.
type Filter struct {
	From    uint64    // first Seq
	To      uint64    // last Seq; 0: the newest
	Types   []Type    // any of these
	Node    string    // of this node
	OrUnit  bool      // with Node: or of none, which is the unit
	Kind    string    // about this document kind
	Since   time.Time // At not before this
	Limit   int       // at most so many
	Reverse bool      // newest first
}

func (f *Filter) ofNode(name string) bool { return name == f.Node || f.OrUnit && name == "" }

// A read transaction visits at most so many records and copies out about so many bytes.
const (
	chunkVisits = 8192
	chunkBytes  = 256 << 10
)

// Replay calls fn for every record from seq from on, in order, outside any transaction; the
// record's Data is valid only during the call. It ends at the records that are durable when it
// gets there. fn may return ErrStop to end early. ErrDamaged if a record is not what was written,
// or is gone, be it by Drop.
//
// While fn has the records of one chunk, the next one is read and proved.
func (j *Journal) Replay(from uint64, fn func(Record) error) error {
	next := max(from, 1)
	chunks, done := make(chan chunk), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() { j.readAhead(next, chunks, done) })
	defer reading.Wait()
	defer close(done)
	for c := range chunks {
		for _, r := range c.records {
			if r.Seq != next {
				return j.Damaged("the records %d to %d were compacted, and there is no checkpoint of them", next,
					r.Seq-1)
			}
			next++
			if err := fn(r); errors.Is(err, ErrStop) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// chunk is what one read transaction has copied; err is why it could not go on.
type chunk struct {
	records []Record
	err     error
}

// readAhead sends all records from seq from on, a chunk at a time, until done is closed. It ends by closing chunks.
func (j *Journal) readAhead(from uint64, chunks chan<- chunk, done <-chan struct{}) {
	defer close(chunks)
	s := scanner{j: j, f: Filter{From: from, To: math.MaxUint64}, next: from, wanted: wanted{all: true}}
	s.learner.next = from
	var spare scanner // the buffers of the chunk before, which its reader has done with when the next one is taken
	for !s.ended {
		s.records, spare.records = spare.records, s.records
		s.buf, spare.buf = spare.buf, s.buf
		c := chunk{err: s.chunk()}
		if c.err == nil {
			c.records = s.records
		}
		select {
		case chunks <- c:
		case <-done:
			return
		}
		if c.err != nil {
			return
		}
	}
}

// Scan is Replay for the records that f picks, without those that Drop removed. It proves those that it picks.
func (j *Journal) Scan(f Filter, fn func(Record) error) error {
	s := scanner{j: j, f: f, types: setOf(f.Types), next: max(f.From, 1)}
	if f.To == 0 {
		s.f.To = math.MaxUint64
	}
	if f.Reverse {
		s.next = s.f.To
	}
	s.wanted, s.learner.next = j.index.wanted(&f, s.types), s.next
	for left := f.Limit; ; {
		if err := s.chunk(); err != nil {
			return err
		}
		for _, r := range s.records {
			if err := fn(r); err != nil {
				if errors.Is(err, ErrStop) {
					return nil
				}
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		if s.ended {
			return nil
		}
	}
}

// Query collects the records that f picks; their Data is the caller's.
func (j *Journal) Query(f Filter) ([]Record, error) {
	var out []Record
	err := j.Scan(f, func(r Record) error {
		r.Data = bytes.Clone(r.Data)
		out = append(out, r)
		return nil
	})
	return out, err
}

// Record reads one record, as a document's rev names it. ok is false if there is none, or no more.
func (j *Journal) Record(seq uint64) (r Record, ok bool, err error) {
	err = j.view(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketLog).Get(beSeq(seq))
		if v == nil {
			return nil
		}
		ok = true
		if err = j.prove(tx, mark{}, seq, v, new([]byte)); err != nil {
			return err
		}
		if r, err = j.decode(seq, v, nil); err != nil {
			return err
		}
		r.Data = bytes.Clone(r.Data)
		return nil
	})
	return r, ok && err == nil, err
}

// decode reads a log value; the record's Data aliases it.
func (j *Journal) decode(seq uint64, value []byte, names *interner) (Record, error) {
	if len(value) < hashSize {
		return Record{}, j.Damaged("record %d: %v", seq, errShort)
	}
	r, err := decodePayload(value[hashSize:], names)
	if errors.Is(err, errType) {
		return Record{}, j.NotUnderstood(fmt.Errorf("%w, its number %d", err, seq))
	}
	if err != nil {
		return Record{}, j.Damaged("record %d: %v", seq, err)
	}
	r.Seq = seq
	return r, nil
}

// typeOf reads no more than the type of a log value; false: it is not a known one.
func typeOf(value []byte) (Type, bool) {
	if len(value) <= hashSize {
		return 0, false
	}
	t, n := binary.Uvarint(value[hashSize:])
	return Type(t), n > 0 && t <= math.MaxUint16 && Type(t).Known()
}

// prove fails with ErrDamaged if a log value is not what was written after the record before it. prev is that record's
// mark, if it is known. buf is scratch space.
func (j *Journal) prove(tx *bbolt.Tx, prev mark, seq uint64, value []byte, buf *[]byte) error {
	if len(value) < hashSize {
		return j.Damaged("record %d: %v", seq, errShort)
	}
	if prev.seq == 0 || prev.seq != seq-1 {
		var ok bool
		if prev, ok = before(tx, seq); !ok {
			return j.Damaged("the records before record %d are gone", seq)
		}
	}
	b := append((*buf)[:0], prev.hash[:]...) // one call of SHA-256 on one buffer: starts read many records
	b = append(binary.BigEndian.AppendUint64(b, seq), value[hashSize:]...)
	*buf = b
	if sha256.Sum256(b) != Hash(value[:hashSize]) {
		return j.Damaged("record %d, or the one before it, is not what was written", seq)
	}
	return nil
}

// before returns the mark that the chain has before a record: of the record before it, of a gap, or of the beginning.
func before(tx *bbolt.Tx, seq uint64) (mark, bool) {
	if seq == 1 {
		return mark{hash: genesis(tx.Bucket(bucketMeta).Get(keyCreated))}, true
	}
	if v := tx.Bucket(bucketLog).Get(beSeq(seq - 1)); len(v) >= hashSize {
		return mark{seq - 1, Hash(v[:hashSize])}, true
	}
	_, to, ok := gapBefore(tx.Bucket(bucketGaps), seq)
	return to, ok && to.seq == seq-1
}

// scanner reads a log chunk by chunk. Its buffers are used again by the next chunk.
type scanner struct {
	j       *Journal
	f       Filter
	types   typeSet
	wanted  wanted // what the index is asked for
	learner learner
	names   interner
	next    uint64
	prev    mark // of the record that was read last, where the next one follows it; else zero
	ended   bool
	records []Record
	buf     []byte
	proof   []byte // scratch space of prove
}

func (s *scanner) chunk() error {
	s.records, s.buf = s.records[:0], s.buf[:0]
	return s.j.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketLog).Cursor()
		k, v := s.seek(c, s.next)
		for visits := 0; ; visits++ {
			if k == nil {
				s.ended = true
				return nil
			}
			if len(k) != 8 {
				return s.j.Damaged("a key of %d bytes in the log", len(k))
			}
			seq := binary.BigEndian.Uint64(k)
			if seq > s.f.To || seq < s.f.From {
				s.ended = true
				return nil
			}
			if s.next = seq; visits >= chunkVisits || len(s.buf) >= chunkBytes {
				return nil
			}
			if at := s.j.index.next(seq, &s.wanted, s.f.Reverse); at != seq {
				s.j.index.leave(&s.learner, seq)
				s.prev, s.learner = mark{}, learner{next: at}
				k, v = s.seek(c, at)
				continue
			}
			if err := s.take(tx, seq, v); err != nil {
				return err
			}
			if s.f.Reverse {
				k, v = c.Prev()
				continue
			}
			if b := s.j.index.learn(&s.learner, seq); b != nil && !s.j.index.addValue(b, v) {
				s.learner.block = nil
			}
			s.prev = mark{seq, Hash(v[:hashSize])}
			k, v = c.Next()
		}
	})
}

// seek finds the record with a sequence number, or the next one in the scanner's direction.
func (s *scanner) seek(c *bbolt.Cursor, seq uint64) (k, v []byte) {
	k, v = c.Seek(beSeq(seq)) // the key or the next higher one
	switch {
	case !s.f.Reverse:
	case k == nil:
		k, v = c.Last()
	case len(k) == 8 && binary.BigEndian.Uint64(k) > seq:
		k, v = c.Prev()
	}
	return k, v
}

// take keeps a copy of the record if the filter picks it, and then proves it: starts scan a million records for a few.
func (s *scanner) take(tx *bbolt.Tx, seq uint64, value []byte) error {
	if t, ok := typeOf(value); ok && s.types != 0 && !s.types.has(t) {
		return nil // what else it says need not be read
	}
	r, err := s.j.decode(seq, value, &s.names)
	if err == nil && (s.types != 0 && !s.types.has(r.Type) || s.f.Node != "" && !s.f.ofNode(r.Node) ||
		s.f.Kind != "" && s.f.Kind != r.Kind || r.At.Before(s.f.Since)) {
		return nil
	}
	if perr := s.j.prove(tx, s.prev, seq, value, &s.proof); perr != nil {
		return perr // it also is why a record cannot be read
	}
	if err != nil {
		return err
	}
	start := len(s.buf)
	s.buf = append(s.buf, r.Data...) // if it moves, earlier records keep the old array
	r.Data = slices.Clip(s.buf[start:])
	s.records = append(s.records, r)
	return nil
}
