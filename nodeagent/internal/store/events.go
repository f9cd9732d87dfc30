package store

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"tandem.internal/shared/wire"
)

// append adds one event and drops the oldest ones that there is no more room for.
func (s *Store) append(w *writer, ev *wire.Event, newest, oldest uint64) (uint64, uint64, error) {
	b, err := w.bucket(bEvent)
	if err != nil {
		return 0, 0, err
	}
	b.FillPercent = 1
	if ev.Lost > 0 { // they have numbers, too
		if err := b.SetSequence(b.Sequence() + ev.Lost); err != nil {
			return 0, 0, err
		}
	}
	seq, err := b.NextSequence()
	if err != nil {
		return 0, 0, err
	}
	ev.Seq = seq
	if err := b.Put(key(seq), wire.Encode(ev)); err != nil {
		return 0, 0, err
	}
	if seq-oldest+1 > uint64(s.cfg.EventLimit) {
		oldest, err = s.makeRoom(b)
	}
	return seq, oldest, err
}

// makeRoom drops the oldest events of too many, and returns the number of the oldest that is kept. Numbers of
// lost events take no room.
func (s *Store) makeRoom(b bucket) (oldest uint64, err error) {
	c, n := b.Cursor(), 0
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	k, _ := c.First()
	for ; n > s.cfg.EventLimit; n-- {
		if err := b.Delete(k); err != nil {
			return 0, err
		}
		k, _ = c.First()
	}
	return binary.BigEndian.Uint64(k), nil
}

// NewestEvent returns the sequence number of the newest saved event, kept or not; 0 before the first.
func (s *Store) NewestEvent() uint64 { return s.sure }

// Events returns up to limit kept events after the given sequence number, oldest first; none of a save that has
// failed, until a later one has succeeded. If events in between were dropped for want of room, the first one says
// in Lost how many.
func (s *Store) Events(after uint64, limit int) ([]wire.Event, error) {
	var out []wire.Event
	err := s.db.View(func(tx *bolt.Tx) error {
		if after == ^uint64(0) {
			return nil
		}
		c := tx.Bucket(bEvent).Cursor()
		for k, v := c.Seek(key(after + 1)); k != nil && binary.BigEndian.Uint64(k) <= s.sure &&
			len(out) < limit; k, v = c.Next() {
			ev, err := decodeEvent(k, v)
			if err != nil {
				return err
			}
			out = append(out, *ev)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("state file %s: %w", s.cfg.Path, err)
	}
	if known := max(after, s.acked); len(out) > 0 && out[0].Seq > known+1 {
		out[0].Lost = out[0].Seq - known - 1
	}
	return out, nil
}

func decodeEvent(key, data []byte) (*wire.Event, error) {
	if len(key) != 8 {
		return nil, fmt.Errorf("a saved event has the number %x", key)
	}
	ev, err := wire.Decode[wire.Event](data)
	if err != nil {
		return nil, fmt.Errorf("saved event %d: %w", binary.BigEndian.Uint64(key), err)
	}
	return ev, nil
}

// Acked drops the events that the controller has, up to the given sequence number.
func (s *Store) Acked(seq uint64) error {
	seq = min(seq, s.sure)
	if seq <= s.acked {
		return nil
	}
	oldest := s.oldest
	err := s.update(func(w *writer) error {
		b, err := w.bucket(bEvent)
		if err != nil {
			return err
		}
		for oldest = s.oldest; oldest <= seq; oldest++ {
			if err := b.Delete(key(oldest)); err != nil {
				return err
			}
		}
		meta, err := w.bucket(bMeta)
		if err != nil {
			return err
		}
		return meta.Put(kAcked, decimal(seq))
	})
	if err != nil {
		return fmt.Errorf("forget events: %w", err)
	}
	s.oldest, s.acked = oldest, seq
	return nil
}

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
