package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// Filter picks records. Zero fields pick everything.
type Filter struct {
	From    uint64    // first Seq
	To      uint64    // last Seq; 0: the newest
	Types   []Type    // any of these
	Node    string    // of this node
	Kind    string    // about this document kind
	Since   time.Time // At not before this
	Limit   int       // at most so many
	Reverse bool      // newest first
}

// A read transaction visits at most so many records and copies out about so many bytes.
const (
	chunkVisits = 8192
	chunkBytes  = 256 << 10
)

// Replay calls fn for every record from seq from on, in order, outside any transaction; the
// record's Data is valid only during the call. It ends at the records that are durable when it
// gets there. fn may return ErrStop to end early. ErrDamaged if a record cannot be read.
func (j *Journal) Replay(from uint64, fn func(Record) error) error {
	return j.Scan(Filter{From: from}, fn)
}

// Scan is Replay for the records that f picks.
func (j *Journal) Scan(f Filter, fn func(Record) error) error {
	s := scanner{j: j, f: f, types: setOf(f.Types), next: max(f.From, 1)}
	if f.To == 0 {
		s.f.To = math.MaxUint64
	}
	if f.Reverse {
		s.next = s.f.To
	}
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
		return Record{}, j.damaged("record %d: %v", seq, errShort)
	}
	r, err := decodePayload(value[hashSize:], names)
	if errors.Is(err, errType) {
		return Record{}, j.NotUnderstood(fmt.Errorf("%w, its number %d", err, seq))
	}
	if err != nil {
		return Record{}, j.damaged("record %d: %v", seq, err)
	}
	r.Seq = seq
	return r, nil
}

// scanner reads a log chunk by chunk. Its buffers are used again by the next chunk.
type scanner struct {
	j       *Journal
	f       Filter
	types   typeSet
	names   interner
	next    uint64
	ended   bool
	records []Record
	buf     []byte
}

func (s *scanner) chunk() error {
	s.records, s.buf = s.records[:0], s.buf[:0]
	return s.j.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketLog).Cursor()
		k, v := c.Seek(beSeq(s.next))
		if s.f.Reverse {
			// Seek finds the key or the next higher one.
			switch {
			case k == nil:
				k, v = c.Last()
			case len(k) == 8 && binary.BigEndian.Uint64(k) > s.next:
				k, v = c.Prev()
			}
		}
		for visits := 0; ; visits++ {
			if k == nil {
				s.ended = true
				return nil
			}
			if len(k) != 8 {
				return s.j.damaged("a key of %d bytes in the log", len(k))
			}
			seq := binary.BigEndian.Uint64(k)
			if seq > s.f.To || seq < s.f.From {
				s.ended = true
				return nil
			}
			if s.next = seq; visits >= chunkVisits || len(s.buf) >= chunkBytes {
				return nil
			}
			if err := s.take(seq, v); err != nil {
				return err
			}
			if s.f.Reverse {
				k, v = c.Prev()
			} else {
				k, v = c.Next()
			}
		}
	})
}

// take keeps a copy of the record if the filter picks it.
func (s *scanner) take(seq uint64, value []byte) error {
	r, err := s.j.decode(seq, value, &s.names)
	if err != nil {
		return err
	}
	if s.types != 0 && !s.types.has(r.Type) || s.f.Node != "" && s.f.Node != r.Node ||
		s.f.Kind != "" && s.f.Kind != r.Kind || r.At.Before(s.f.Since) {
		return nil
	}
	start := len(s.buf)
	s.buf = append(s.buf, r.Data...) // if it moves, earlier records keep the old array
	r.Data = slices.Clip(s.buf[start:])
	s.records = append(s.records, r)
	return nil
}
