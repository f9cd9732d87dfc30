package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"

	bolt "go.etcd.io/bbolt"

	"tandem.internal/shared/boltfile"
)

// sum is the exclusive or of the hashes of all values, each with its key and its buckets. So a write changes it without
// a look at the other values, and nothing can change, come or go unnoticed.
type sum [sha256.Size]byte

// toggle adds a value, or takes it away.
func (s *sum) toggle(path [][]byte, key, value []byte) {
	h := sha256.New()
	for _, part := range [][][]byte{path, {key, value}} {
		for _, b := range part {
			_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) // which never fails
			_, _ = h.Write(b)
		}
	}
	var one sum
	h.Sum(one[:0])
	for i := range s {
		s[i] ^= one[i]
	}
}

// sealed is the record of the sum, meta/sum. It has a checksum of its own.
//
// Each transaction writes it, but for those of agents that know no sums: since such an agent has started, which the
// count of starts shows, the record says nothing. Any other record that is not of the newest transaction is on a page
// whose newest write was lost.
type sealed struct {
	txid   uint64 // of the transaction
	boots  uint64 // meta/boots
	events uint64 // sequence of the bucket event
	sum    sum
}

const sealedSize = 3*8 + sha256.Size + 8

func (r *sealed) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, r.txid)
	b = binary.BigEndian.AppendUint64(b, r.boots)
	b = binary.BigEndian.AppendUint64(b, r.events)
	b = append(b, r.sum[:]...)
	check := sha256.Sum256(b)
	return append(b, check[:8]...)
}

// decodeSealed reads a record; false: it is not what was written.
func decodeSealed(b []byte) (r sealed, ok bool) {
	if len(b) != sealedSize {
		return r, false
	}
	order := binary.BigEndian
	r = sealed{txid: order.Uint64(b), boots: order.Uint64(b[8:]), events: order.Uint64(b[16:]), sum: sum(b[24:])}
	return r, bytes.Equal(r.encode(), b)
}

// tally adds up what the pages of a file have.
type tally struct {
	found  sealed // as it is, but for the transaction
	record []byte // as it was written; nil: there is none
	newer  bool   // meta has a key that agents without sums do not write
}

// oldKeys are the keys in meta that agents without sums write.
var oldKeys = [][]byte{kVersion, kUnit, kNode, kBoots, kAcked, kTrust, kCare}

func (t *tally) add(e boltfile.Entry) error {
	inMeta := len(e.Path) == 1 && bytes.Equal(e.Path[0], bMeta)
	switch {
	case e.Bucket:
		t.found.events += e.Sequence // of the others it is 0
		return nil
	case inMeta && bytes.Equal(e.Key, kSum):
		t.record = clone(e.Value)
		return nil
	case inMeta && bytes.Equal(e.Key, kBoots):
		t.found.boots, _ = number(e.Value) // a bad number is of no record
	}
	if inMeta && !slices.ContainsFunc(oldKeys, func(key []byte) bool { return bytes.Equal(key, e.Key) }) {
		t.newer = true
	}
	t.found.sum.toggle(e.Path, e.Key, e.Value)
	return nil
}

// compare says whether the values of a file are those that the transaction of this number has left. Without an error
// and verified, nobody can say: an agent wrote last that knew no sums.
func (t *tally) compare(txid uint64) (verified bool, err error) {
	if t.record == nil && t.newer {
		return false, &damage{errors.New("the record of its sum is not there")}
	}
	if t.record == nil {
		return false, nil
	}
	r, ok := decodeSealed(t.record)
	switch {
	case !ok:
		return false, &damage{errors.New("the record of its sum is not what was written")}
	case r.txid < txid && r.boots < t.found.boots:
		return false, nil
	}
	if t.found.txid = txid; t.found != r {
		return false, &damage{errors.New("its values are not those that were written")}
	}
	return true, nil
}

// writer is a transaction that changes the file. What it writes through its buckets is in the sum.
type writer struct {
	tx  *bolt.Tx
	sum sum
}

// bucket is a bucket of a writer.
type bucket struct {
	*bolt.Bucket
	path [][]byte
	w    *writer
}

// bucket returns a bucket, and makes it if it is not there.
func (w *writer) bucket(path ...[]byte) (bucket, error) {
	b, err := w.tx.CreateBucketIfNotExists(path[0])
	for _, name := range path[1:] {
		if err == nil {
			b, err = b.CreateBucketIfNotExists(name)
		}
	}
	return bucket{b, path, w}, err
}

// makeBuckets makes those that are not there.
func (w *writer) makeBuckets() error {
	for _, name := range [][]byte{bMeta, bKind, bEvent, bWorkload} {
		if _, err := w.bucket(name); err != nil {
			return err
		}
	}
	return nil
}

// upgrade runs what changes the file without regard to the sum.
func (w *writer) upgrade(f func(*bolt.Tx) error) error {
	if err := f(w.tx); err != nil {
		return err
	}
	return w.addUp()
}

// Put is bbolt's. What is there already is not written again.
func (b bucket) Put(key, value []byte) error {
	if old := b.Get(key); old != nil {
		if bytes.Equal(old, value) {
			return nil
		}
		b.w.sum.toggle(b.path, key, old)
	}
	b.w.sum.toggle(b.path, key, value)
	return b.Bucket.Put(key, value)
}

// Delete is bbolt's.
func (b bucket) Delete(key []byte) error {
	if old := b.Get(key); old != nil {
		b.w.sum.toggle(b.path, key, old)
	}
	return b.Bucket.Delete(key)
}

// change runs a transaction, and keeps the sum.
func change(db *bolt.DB, f func(*writer) error) error {
	return db.Update(func(tx *bolt.Tx) error {
		w := &writer{tx: tx}
		if err := w.begin(); err != nil {
			return err
		}
		if err := f(w); err != nil {
			return err
		}
		return w.end()
	})
}

// begin takes up the sum of the transaction before, or adds it up if that one kept none.
func (w *writer) begin() error {
	if meta := w.tx.Bucket(bMeta); meta != nil {
		if r, ok := decodeSealed(meta.Get(kSum)); ok && r.txid == uint64(w.tx.ID())-1 {
			w.sum = r.sum
			return nil
		}
	}
	return w.addUp()
}

// addUp makes the sum of all that the transaction sees.
func (w *writer) addUp() error {
	var t tally
	var walk func(path [][]byte, b *bolt.Bucket) error
	walk = func(path [][]byte, b *bolt.Bucket) error {
		return b.ForEach(func(key, value []byte) error {
			if value == nil {
				return walk(append(path[:len(path):len(path)], key), b.Bucket(key))
			}
			return t.add(boltfile.Entry{Path: path, Key: key, Value: value})
		})
	}
	err := w.tx.ForEach(func(name []byte, b *bolt.Bucket) error { return walk([][]byte{name}, b) })
	w.sum = t.found.sum
	return err
}

// end writes the record of the sum.
func (w *writer) end() error {
	meta, err := w.bucket(bMeta)
	if err != nil {
		return err
	}
	events, err := w.bucket(bEvent)
	if err != nil {
		return err
	}
	boots, err := number(meta.Get(kBoots))
	if err != nil {
		return err
	}
	r := sealed{txid: uint64(w.tx.ID()), boots: boots, events: events.Sequence(), sum: w.sum}
	return meta.Bucket.Put(kSum, r.encode())
}
