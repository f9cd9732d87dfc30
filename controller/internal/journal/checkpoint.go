package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Checkpoint is a snapshot of the state that the records 1 to Seq lead to. Replay from Seq+1
// brings it up to date. There is one; a newer one takes its place in the same commit.
type Checkpoint struct {
	Seq    uint64   // at most the last record of the batch that carries it, at least the previous checkpoint's
	Chunks [][]byte // the encoded state in pieces, so that 10,000 nodes need not be one value; kept as given
}

// checkpointHead is the value of the key head: uint64 seq ++ uint32 chunks ++ sum.
type checkpointHead struct {
	seq    uint64
	chunks uint32
	sum    Hash
}

func parseCheckpointHead(b []byte) (h checkpointHead, ok bool) {
	if len(b) != 12+hashSize {
		return h, false
	}
	return checkpointHead{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), Hash(b[12:])}, true
}

func (h checkpointHead) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, h.seq)
	b = binary.BigEndian.AppendUint32(b, h.chunks)
	return append(b, h.sum[:]...)
}

// sumChunks hashes every chunk with its length in front.
func sumChunks(chunks [][]byte) Hash {
	h := sha256.New()
	var n [8]byte
	for _, c := range chunks {
		binary.BigEndian.PutUint64(n[:], uint64(len(c)))
		h.Write(n[:]) // a hash.Hash never returns an error
		h.Write(c)
	}
	return Hash(h.Sum(nil))
}

// putCheckpoint replaces the checkpoint; last is the newest record of this transaction.
func putCheckpoint(tx *bbolt.Tx, c *Checkpoint, last uint64) error {
	if c == nil {
		return nil
	}
	old := tx.Bucket(bucketCheckpoint).Get(keyHead)
	if h, ok := parseCheckpointHead(old); c.Seq > last || ok && c.Seq < h.seq {
		return invalid(fmt.Errorf("a checkpoint at %d, outside %d (the previous one) to %d (the last record)",
			c.Seq, h.seq, last))
	}
	for i, chunk := range c.Chunks {
		if len(chunk) > MaxData {
			return invalid(fmt.Errorf("chunk %d of the checkpoint has %d bytes, above the limit of %d",
				i, len(chunk), MaxData))
		}
	}
	if err := tx.DeleteBucket(bucketCheckpoint); err != nil {
		return err
	}
	bucket, err := tx.CreateBucket(bucketCheckpoint)
	if err != nil {
		return err
	}
	bucket.FillPercent = 1
	for i, chunk := range c.Chunks {
		if err := bucket.Put(binary.BigEndian.AppendUint32(nil, uint32(i)), chunk); err != nil {
			return err
		}
	}
	head := checkpointHead{seq: c.Seq, chunks: uint32(len(c.Chunks)), sum: sumChunks(c.Chunks)}
	return bucket.Put(keyHead, head.bytes())
}

// Checkpoint reads the newest snapshot. ok is false if there is none; ErrDamaged if what is
// there is not what was written.
func (j *Journal) Checkpoint() (c Checkpoint, ok bool, err error) {
	err = j.view(func(tx *bbolt.Tx) (err error) {
		c, ok, err = readCheckpoint(tx)
		return err
	})
	if errors.Is(err, errCheckpoint) {
		return Checkpoint{}, false, j.Damaged("%v", err)
	}
	return c, ok, err
}

var errCheckpoint = errors.New("the checkpoint is not what was written")

func readCheckpoint(tx *bbolt.Tx) (Checkpoint, bool, error) {
	bucket := tx.Bucket(bucketCheckpoint)
	raw := bucket.Get(keyHead)
	if raw == nil {
		if k, _ := bucket.Cursor().First(); k != nil {
			return Checkpoint{}, false, errCheckpoint
		}
		return Checkpoint{}, false, nil
	}
	head, ok := parseCheckpointHead(raw)
	if !ok {
		return Checkpoint{}, false, errCheckpoint
	}
	c := Checkpoint{Seq: head.seq}
	for i := range head.chunks {
		chunk := bucket.Get(binary.BigEndian.AppendUint32(nil, i))
		if chunk == nil {
			return Checkpoint{}, false, errCheckpoint
		}
		c.Chunks = append(c.Chunks, bytes.Clone(chunk))
	}
	if sumChunks(c.Chunks) != head.sum {
		return Checkpoint{}, false, errCheckpoint
	}
	return c, true, nil
}
