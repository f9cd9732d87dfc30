// Package store keeps what a node must not forget, in one bbolt file:
//
//	meta/
//	  version    the schema's, decimal
//	  unit, node whose state this is
//	  boots      how often the agent has started, decimal
//	  acked      the newest event that the controller is known to have, decimal
//	  care       the node's health, alerts and starts as Node has them, JSON
//	  trust      the pinned keys, the newest epoch and time of a beacon, and the floor, JSON
//	  sum        of everything else, see sum
//	  lost       Loss, JSON; none: nothing was lost
//	kind/
//	  {kind}/
//	    state    inbox.Durable without bodies, JSON
//	    running  the body of the last good document
//	    flight   the body of the provisional document
//	    next     the body of the document that waits for it
//	    seal     what is signed of the newest document, a wire.Shown, JSON
//	event/
//	  {seq}      8 bytes, big-endian: a wire.Event, JSON
//	workload/
//	  {service}  supervise.Durable, JSON
//
// Before the file is opened, all of it is checked: what is damaged is kept aside, and a new file takes its place
// (ADR 031). MarksFile beside it has once more what the controller could not give back.
//
// Everything that one Commit is given is saved together or not at all, and is on the disk when it
// returns. After an error, either may be the case: the caller must be right in both, and a later
// Commit of the same state puts an end to the doubt. The store holds no other state than its file
// and is used by one goroutine, but for SaveWorkloads.
package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/shared/wire"
)

var (
	bMeta, bKind, bEvent, bWorkload     = []byte("meta"), []byte("kind"), []byte("event"), []byte("workload")
	kVersion, kUnit, kNode              = []byte("version"), []byte("unit"), []byte("node")
	kBoots, kAcked, kTrust, kCare       = []byte("boots"), []byte("acked"), []byte("trust"), []byte("care")
	kSum, kLost                         = []byte("sum"), []byte("lost")
	kState, kRunning, kFlight, kWaiting = []byte("state"), []byte("running"), []byte("flight"), []byte("next")
	kSeal                               = []byte("seal")
)

// Point is a moment around a commit, or a step of the copy before an upgrade.
type Point string

// The moments of a Faults call.
const (
	Before Point = "before" // nothing is on the disk yet
	After  Point = "after"  // everything is on the disk; the caller does not know it yet

	Copy    Point = "copy"    // nothing of the copy is there
	Sync    Point = "sync"    // it has its content, which may not be on the disk
	Rename  Point = "rename"  // it has not its name yet
	SyncDir Point = "syncdir" // its name may not be on the disk

	Mark Point = "mark" // the marks are not written
)

// Faults is a seam for tests: it is called around each commit and before each step of a copy, which reports the
// error that it returns. Nil is what production uses.
type Faults func(Point) error

func (f Faults) at(p Point) error {
	if f == nil {
		return nil
	}
	return f(p)
}

// Config says what to open.
type Config struct {
	Path       string // of the file; made with permissions 0600
	Unit, Node string // whose state it is; another's is refused
	EventLimit int    // events kept at most; the oldest go first
	Trial      bool   // the agent is on trial: the one before it must be able to read the file
	Had        string // what shows that the node had a state file: that it is missing is a loss; "": nothing shows it

	Now    func() time.Time // wall clock; nil: time.Now
	Warn   func(error)      // is told that the marks cannot be written; nil: nobody
	Faults Faults           // nil: none
}

// Store is an open state file.
type Store struct {
	cfg      Config
	db       *bolt.DB
	version  uint64 // of the file: what is written is what agents of this version read
	held     error
	loss     *Loss
	marks    marks // of what is saved, but for Events and N
	marked   marks // as they are written
	half     int   // of the file of the marks, in bytes; 0: it is to be written as a whole
	unmarked bool  // they may not be written
	boots    uint64
	acked    uint64
	newest   uint64 // sequence number of the newest event in the file ever
	oldest   uint64 // of the oldest kept one; newest+1 if there is none

	// After a save that failed, what is in the file may not be on the disk: a power cut would take it, and its
	// numbers would be given to other events. Nobody hears of it before a later save has ended the doubt.
	sure  uint64       // newest, without what is in doubt
	doubt []wire.Event // of the newest save that failed: in the file all the same
}

// begin upgrades the file and counts the start: all of it or nothing.
func (s *Store) begin(upgrades []schema) error {
	if err := os.Chmod(s.cfg.Path, 0o600); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return s.update(func(w *writer) error {
		if err := w.makeBuckets(); err != nil {
			return err
		}
		for _, u := range upgrades {
			if s.version = u.version; u.upgrade == nil {
				continue
			}
			if err := w.upgrade(u.upgrade); err != nil {
				return fmt.Errorf("state file %s: upgrade to version %d: %w", s.cfg.Path, u.version, err)
			}
		}
		meta, err := w.bucket(bMeta)
		if err != nil {
			return err
		}
		if err := meta.Put(kVersion, decimal(s.version)); err != nil {
			return err
		}
		if s.loss, err = readLoss(w.tx); err != nil {
			return err
		}
		if s.boots, err = number(meta.Get(kBoots)); err != nil {
			return err
		}
		s.boots++
		if s.acked, err = number(meta.Get(kAcked)); err != nil {
			return err
		}
		events := w.tx.Bucket(bEvent)
		s.newest = events.Sequence()
		s.sure = s.newest // this save ends what was in doubt when the agent stopped
		s.oldest = s.newest + 1
		if k, _ := events.Cursor().First(); k != nil {
			s.oldest = binary.BigEndian.Uint64(k)
		}
		return meta.Put(kBoots, decimal(s.boots))
	})
}

// Close lets go of the file.
func (s *Store) Close() error { return s.db.Close() }

// Boots returns how often the agent has started with this file, this start included.
func (s *Store) Boots() uint64 { return s.boots }

// update is the only way in which the file changes.
func (s *Store) update(f func(*writer) error) error {
	if err := s.cfg.Faults.at(Before); err != nil {
		return err
	}
	if err := change(s.db, f); err != nil {
		return err
	}
	return s.cfg.Faults.at(After)
}

// Batch is what one Commit saves.
type Batch struct {
	Kinds  []Kind       // states of kinds
	Trust  *inbox.Trust // whom the node believes
	Node   *Node        // of the node itself
	Events []wire.Event // appended; Seq is given by the store, past Lost. After an error: those that wait, again, first

	LossReported bool // one of the events reports the loss
}

// Kind is the saved state of one kind of document.
type Kind struct {
	Name  wire.Kind
	State inbox.Durable
}

// Commit saves a batch durably and returns the events with their sequence numbers. Events that a save
// before it has left in the file, although it failed, and that are first in this batch as they were in
// that one, are not appended again.
func (s *Store) Commit(b Batch) ([]wire.Event, error) {
	events := append([]wire.Event(nil), b.Events...)
	newest, oldest := s.newest, s.oldest
	err := s.update(func(w *writer) error {
		newest, oldest = s.newest, s.oldest
		known := s.known(events)
		for i := range b.Kinds {
			if err := putKind(w, &b.Kinds[i]); err != nil {
				return fmt.Errorf("save the state of %s: %w", b.Kinds[i].Name, err)
			}
		}
		if b.Trust != nil {
			if err := putTrust(w, b.Trust); err != nil {
				return fmt.Errorf("save the pinned keys: %w", err)
			}
		}
		if b.Node != nil {
			if err := putNode(w, b.Node); err != nil {
				return fmt.Errorf("save the node's health: %w", err)
			}
		}
		if b.LossReported && s.loss != nil {
			reported := *s.loss
			reported.Reported = true
			if err := putLoss(w, &reported); err != nil {
				return fmt.Errorf("save that the loss is reported: %w", err)
			}
		}
		var err error
		for i := known; i < len(events); i++ {
			if newest, oldest, err = s.append(w, &events[i], newest, oldest); err != nil {
				return fmt.Errorf("save an event: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		// The events may be in the file nevertheless: their numbers are not used again.
		before := s.newest
		err = errors.Join(err, s.reload())
		if s.newest > before {
			s.doubt = events
		}
		return nil, err
	}
	s.newest, s.sure, s.oldest, s.doubt = newest, newest, oldest, nil
	if b.LossReported && s.loss != nil {
		s.loss.Reported = true
	}
	s.mark(&b)
	if s.unmarked || len(b.Kinds) > 0 || b.Trust != nil || s.marked.V != 0 && s.eventsNear() {
		s.warn(s.saveMarks())
	}
	return events, nil
}

// warn reports that the marks could not be written, which the next commit tries again. Nothing waits for them: they are
// for when the state file is lost.
func (s *Store) warn(err error) {
	s.unmarked = err != nil
	if err != nil && s.cfg.Warn != nil {
		s.cfg.Warn(fmt.Errorf("the marks beside the state file: %w", err))
	}
}

// known numbers the first events of a batch that are in doubt, and counts them.
func (s *Store) known(events []wire.Event) (n int) {
	for n < min(len(events), len(s.doubt)) {
		again := events[n]
		again.Seq, again.Lost = s.doubt[n].Seq, s.doubt[n].Lost
		if !reflect.DeepEqual(again, s.doubt[n]) {
			break
		}
		events[n] = again
		n++
	}
	return n
}

// reload learns which events the file has.
func (s *Store) reload() error {
	return s.db.View(func(tx *bolt.Tx) error {
		events := tx.Bucket(bEvent)
		s.newest = events.Sequence()
		s.oldest = s.newest + 1
		if k, _ := events.Cursor().First(); k != nil {
			s.oldest = binary.BigEndian.Uint64(k)
		}
		return nil
	})
}

func putKind(w *writer, k *Kind) error {
	b, err := w.bucket(bKind, []byte(k.Name))
	if err != nil {
		return err
	}
	data, err := json.Marshal(&k.State, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := b.Put(kState, data); err != nil {
		return err
	}
	for _, body := range []struct{ key, value []byte }{
		{kRunning, k.State.Running.Body},
		{kFlight, k.State.Flight.Doc.Body},
		{kWaiting, k.State.Next.Body},
		{kSeal, k.State.HighSeal},
	} {
		if len(body.value) == 0 {
			err = b.Delete(body.key)
		} else {
			err = b.Put(body.key, body.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readState(b *bolt.Bucket) (inbox.Durable, error) {
	var d inbox.Durable
	data := b.Get(kState)
	if data == nil {
		return d, nil
	}
	if err := json.Unmarshal(data, &d, json.RejectUnknownMembers(true)); err != nil {
		return d, fmt.Errorf("saved state: %w", err)
	}
	return d, nil
}

// Kinds returns the saved state of every kind, bodies included.
func (s *Store) Kinds() (map[wire.Kind]inbox.Durable, error) {
	kinds := map[wire.Kind]inbox.Durable{}
	err := s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bKind).ForEachBucket(func(name []byte) error {
			b := tx.Bucket(bKind).Bucket(name)
			d, err := readState(b)
			if err != nil {
				return fmt.Errorf("kind %s: %w", name, err)
			}
			d.Running.Body = clone(b.Get(kRunning))
			d.Flight.Doc.Body = clone(b.Get(kFlight))
			d.Next.Body, d.HighSeal = clone(b.Get(kWaiting)), clone(b.Get(kSeal))
			for _, doc := range []inbox.Doc{d.Running, d.Flight.Doc, d.Next} {
				if len(doc.Body) > 0 && wire.Hash(doc.Body) != doc.Hash {
					return fmt.Errorf("kind %s: the saved body of epoch %d rev %d does not have its hash", name,
						doc.Stamp.Epoch, doc.Stamp.Rev)
				}
			}
			kinds[wire.Kind(name)] = d
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("state file %s: %w", s.cfg.Path, err)
	}
	return kinds, nil
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func decimal(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }

func number(b []byte) (uint64, error) {
	if b == nil {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, &damage{fmt.Errorf("bad number %.40q", b)}
	}
	return n, nil
}
