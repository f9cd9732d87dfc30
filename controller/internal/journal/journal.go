package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"tandem.internal/shared/wire"
)

// The buckets and the keys of meta and checkpoint; see the package comment.
var (
	bucketMeta       = []byte("meta")
	bucketLog        = []byte("log")
	bucketGaps       = []byte("gaps")
	bucketBodies     = []byte("bodies")
	bucketCheckpoint = []byte("checkpoint")

	keyVersion = []byte("version")
	keyEpoch   = []byte("epoch")
	keyCreated = []byte("created")
	keyHead    = []byte("head")
	keyCopy    = []byte("copy")
)

// Journal is an open journal. All methods may be called from any goroutine; writes run one
// after the other.
type Journal struct {
	db       *bbolt.DB
	path     string
	readOnly bool
	log      *zap.Logger
	now      func() time.Time
	faults   Faults

	epoch  atomic.Uint64
	last   atomic.Uint64           // newest seq that is durable
	broken atomic.Pointer[failure] // set once, by the first failed commit
	closed atomic.Bool

	// maintenance holds one token: Drop, DropBodies and Verify exclude each other.
	maintenance chan struct{}

	// writer is the single-writer rule: held across a commit on purpose. Readers never take it.
	writer sync.Mutex
	head   mark              // newest record
	index  *index            // which records may be where
	seal   sealer            // buffers of the running write
	fresh  map[Hash]struct{} // bodies stored since the running DropBodies began; nil without one
	key    [8]byte
}

// Faults lets tests fail a commit at its two interesting places. A nil function does nothing.
type Faults struct {
	BeforeCommit func() error // an error here: the batch is not on the disk, the write fails
	AfterCommit  func() error // an error here: the batch is on the disk, the write fails all the same
}

// Epoch is the journal's epoch: with a record's seq as rev it stamps the documents issued from
// it. A new journal takes the wall clock's Unix seconds, so a journal that was lost and made
// anew has a higher one.
func (j *Journal) Epoch() uint64 { return j.epoch.Load() }

// Path is the file as given to Open.
func (j *Journal) Path() string { return j.path }

// Last is the sequence number of the newest durable record, 0 for an empty journal.
func (j *Journal) Last() uint64 { return j.last.Load() }

// Err is nil while the journal takes records, or what every Append returns since a write failed.
func (j *Journal) Err() error {
	if f := j.broken.Load(); f != nil {
		return f
	}
	return nil
}

// BumpEpoch raises the epoch and returns the new one: above the present one, not below atLeast,
// and not below the wall clock's Unix seconds. It never goes back. A controller that hears of a
// higher epoch than its own from a node passes that epoch plus one.
func (j *Journal) BumpEpoch(atLeast uint64) (uint64, error) {
	var epoch uint64
	err := j.update(func(tx *bbolt.Tx) error {
		epoch = max(j.Epoch()+1, atLeast, clockEpoch(j.now()))
		meta := tx.Bucket(bucketMeta)
		if err := meta.Delete(keyCopy); err != nil {
			return err
		}
		return meta.Put(keyEpoch, binary.BigEndian.AppendUint64(nil, epoch))
	}, func() { j.epoch.Store(epoch) })
	if err != nil {
		return 0, err
	}
	return epoch, nil
}

// clockEpoch is the epoch that the wall clock suggests; a clock before 1970 suggests 1.
func clockEpoch(now time.Time) uint64 { return uint64(max(now.Unix(), 1)) }

// Close ends the journal after the running write and the running readers. Later calls of any
// method return ErrClosed; a second Close returns nil.
func (j *Journal) Close() error {
	if j.closed.Swap(true) {
		return nil
	}
	j.writer.Lock()
	defer j.writer.Unlock()
	if err := j.db.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// update runs fn in a write transaction and commits it; done runs after a commit that is known
// to be durable, before the next write begins. An error from fn undoes everything and leaves the
// journal usable; a failed commit breaks it.
func (j *Journal) update(fn func(*bbolt.Tx) error, done func()) error {
	j.writer.Lock()
	defer j.writer.Unlock()
	if err := j.writable(); err != nil {
		return err
	}
	tx, err := j.db.Begin(true)
	if err != nil {
		return j.breakOff(err)
	}
	// After a commit there is nothing left to undo and Rollback only says so.
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	if hook := j.faults.BeforeCommit; hook != nil {
		if err := hook(); err != nil {
			return j.breakOff(err)
		}
	}
	if err := tx.Commit(); err != nil {
		return j.breakOff(err)
	}
	// After a crash here the batch is durable, and the caller does not know. Replay finds it.
	if hook := j.faults.AfterCommit; hook != nil {
		if err := hook(); err != nil {
			return j.breakOff(err)
		}
	}
	if done != nil {
		done()
	}
	return nil
}

// writable says why nothing can be written now.
func (j *Journal) writable() error {
	switch {
	case j.closed.Load():
		return errClosed()
	case j.readOnly:
		return fail(ErrReadOnly, wire.CodeNotAllowed, nil, "the journal is open read-only")
	}
	return j.Err()
}

// breakOff stops the journal for good: whether the last batch is on the disk is unknown.
func (j *Journal) breakOff(cause error) error {
	f := &failure{
		kind: ErrBroken, cause: cause,
		wire: wire.New(wire.CodeStorage, "", fmt.Sprintf(
			"the journal %s cannot be written: %s; nothing more is accepted until it can; a controller "+
				"that runs tries again by itself",
			j.path, reason(cause))),
	}
	j.broken.CompareAndSwap(nil, f)
	j.log.Error("journal write failed", zap.String("path", j.path), zap.Error(cause))
	return j.Err()
}

// view runs fn in a short read transaction.
func (j *Journal) view(fn func(*bbolt.Tx) error) error {
	if j.closed.Load() {
		return errClosed()
	}
	err := j.db.View(fn)
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return errClosed()
	}
	return err
}

func errClosed() error {
	return fail(ErrClosed, wire.CodeUnavailable, nil, "the journal is closed")
}

// Damaged is the error of a journal that is not what was written: ErrDamaged, with the code storage and what to do.
func (j *Journal) Damaged(format string, args ...any) error {
	return fail(ErrDamaged, wire.CodeStorage, nil, fmt.Sprintf(
		`the journal %s is damaged: %s; see "tandem-controller journal verify %s", and restore a backup`,
		j.path, fmt.Sprintf(format, args...), j.path))
}

// Stats are figures for metrics and for deciding when to compact.
type Stats struct {
	Epoch      uint64
	First      uint64 // oldest record that is still there, 0 if none
	Last       uint64 // newest record ever appended
	Checkpoint uint64 // seq of the newest checkpoint, 0 if none
	Size       int64  // bytes in use by the file, free pages included
	Free       int64  // bytes of free pages, as of the last write; 0 when read-only
}

// Stats reads the figures; it costs a few page reads.
func (j *Journal) Stats() (Stats, error) {
	s := Stats{Epoch: j.Epoch()}
	err := j.view(func(tx *bbolt.Tx) error {
		head, ok := parseMark(tx.Bucket(bucketMeta).Get(keyHead))
		if !ok {
			return j.Damaged("its head is missing")
		}
		s.Last, s.Size = head.seq, tx.Size()
		if k, _ := tx.Bucket(bucketLog).Cursor().First(); len(k) == 8 {
			s.First = binary.BigEndian.Uint64(k)
		}
		if h, ok := parseCheckpointHead(tx.Bucket(bucketCheckpoint).Get(keyHead)); ok {
			s.Checkpoint = h.seq
		}
		if !j.readOnly { // here, since Info looks at the mapped file, which Close takes away after the last transaction
			st := j.db.Stats()
			s.Free = int64(st.FreePageN+st.PendingPageN) * int64(j.db.Info().PageSize)
		}
		return nil
	})
	return s, err
}

func beSeq(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// seqKey writes seq into buf for a Put, which copies keys.
func seqKey(buf *[8]byte, seq uint64) []byte {
	binary.BigEndian.PutUint64(buf[:], seq)
	return buf[:]
}
