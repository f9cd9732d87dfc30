// Package slot keeps the agent's A/B slots on disk: the record of which one boots, the slots' files,
// and the road of an update from staging to commit or roll back. What is to happen, package record
// decides.
//
// It guarantees that after a crash or a power cut at any moment the next start finds a slot that was
// verified, and says why it is that one; that a step that was reported as done is still done after a
// power cut; and that a trial's tries are written down before it starts. Every step reads the record
// from the disk under a lock, so the agent, the launcher and commands by hand may work at the same
// time. It restarts nothing and knows nothing of the controller.
//
// The directory:
//
//	record.0 record.1   the record, twice
//	record.0.bad-1 …    copies that were no good any more, kept for whoever wants to know
//	a/ b/               a slot each: tandem-node, tandem-node.minisig if a publisher has signed it, and manifest,
//	                    which says what it is
//	floor               the lowest version that publishers want to be put in force
//	lock stage.lock     held for one step; held for a whole staging
package slot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/bundle"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/wire"
)

// Names in the slot directory.
const (
	binaryFile   = "tandem-node"
	manifestFile = "manifest"
	stepLock     = "lock"
	stageLock    = "stage.lock"
)

// Slots, for callers outside.
type (
	ID      = record.ID
	State   = record.State
	Outcome = record.Outcome
)

// Dir is the name of the slot directory in the agent's state directory.
const Dir = "slots"

// DefaultTries is how many starts a trial has unless somebody says otherwise.
const DefaultTries = 3

// Config is what a Store works with.
type Config struct {
	Dir string // the slot directory; absolute
	// Disk is the directory's content; nil: the real one.
	Disk Disk
	// Steps is a fault seam around the writing of small files on the real disk; nil: none.
	Steps durable.Steps
	// Lock is how long a step waits for another one; 0: 20 seconds, far more than a step takes.
	Lock time.Duration
	// SelfTest starts a staged binary and returns the version that it says it is; nil: Version, of what was measured.
	SelfTest func(ctx context.Context, path string) (version string, err error)
	// Busy says why no trial of a slot may begin now, such as that of a component; nil: nothing does.
	Busy func() error
	// Publishers have signed what is staged, tried and started; none: nobody has to. The installed binary is not asked.
	Publishers publisher.Keys
	// Floor is the lowest version that is tried, whatever publishers have signed; "": what they have.
	Floor string
	// Unread is why it is not known who the publishers are: then no slot is tried. Nil: it is.
	Unread error
	// Machine shows what is to be known of the machine at a start; nil: Machine.
	Machine func() boot.Evidence
}

// Store is the slots of one node. Its methods may be called at the same time, by several processes.
type Store struct {
	cfg    Config
	disk   Disk
	expect *SlotStatus // of While; nil: nothing
}

// ErrChanged says that a slot is not any more what it was when it was looked at.
var ErrChanged = errors.New("the slot has changed meanwhile")

// While returns a Store that changes the slots only while this slot has the state and the content of x: between a look
// and a step somebody else may have staged, kept or given up a version. Else the error is ErrChanged.
func (s *Store) While(x SlotStatus) *Store {
	c := *s
	c.expect = &x
	return &c
}

// Open takes a slot directory. Nothing is read or made yet: a launcher has to go on whatever is wrong
// with it.
func Open(cfg Config) *Store {
	if cfg.Disk == nil {
		cfg.Disk = osDisk{cfg.Dir, cfg.Steps}
	}
	if cfg.Lock == 0 {
		cfg.Lock = 20 * time.Second
	}
	if cfg.Machine == nil {
		cfg.Machine = Machine
	}
	return &Store{cfg: cfg, disk: cfg.Disk}
}

// Status is what is to be known of the slots.
type Status struct {
	Slots      []SlotStatus `json:"slots"` // a, b, factory
	Running    ID           `json:"running"`
	Trial      bool         `json:"trial"`               // what runs is on trial
	Name       string       `json:"name,omitzero"`       // of that trial; no other one has it
	Approved   string       `json:"approved,omitzero"`   // by whom at the node, if somebody approves of that trial
	Trying     ID           `json:"trying,omitzero"`     // armed or on trial
	Previous   ID           `json:"previous"`            // what a roll back of the active slot goes to
	Why        string       `json:"why,omitzero"`        // why the active slot is active
	TriesLeft  int          `json:"triesLeft,omitzero"`  // of the slot that is armed or on trial
	Next       *boot.Mark   `json:"next,omitzero"`       // why the agent is about to end
	Boot       boot.Start   `json:"boot"`                // the newest start
	Last       Outcome      `json:"last,omitzero"`       // how the newest trial, or active slot, ended
	Unreported []boot.Start `json:"unreported,omitzero"` // starts that nobody has been told of
	Dropped    uint64       `json:"dropped,omitzero"`
	Notes      []string     `json:"notes,omitzero"` // what was wrong with the record, and what became of it
	Seq        uint64       `json:"seq"`
	Floor      string       `json:"floor,omitzero"`  // the lowest version that is tried; absent: any
	Signed     string       `json:"signed,omitzero"` // what publishers have signed of that; absent: nothing
}

// SlotStatus is one slot.
type SlotStatus struct {
	Slot    ID             `json:"slot"`
	State   State          `json:"state"`
	Version string         `json:"version,omitzero"`
	Hash    string         `json:"hash,omitzero"`
	Verdict record.Verdict `json:"verdict,omitzero"`
}

// Status reads the record. It changes nothing but a copy that is no good.
func (s *Store) Status() (Status, error) {
	var st Status
	err := s.locked(func() error {
		r, notes, err := s.load()
		if err != nil {
			return err
		}
		st = status(r, notes)
		if st.Floor, err = s.Floor(); err == nil {
			st.Signed, err = s.signedFloor()
		}
		if err != nil {
			st.Notes = append(st.Notes, err.Error())
		}
		return nil
	})
	return st, err
}

func status(r record.Record, notes []string) Status {
	st := Status{Running: r.Boot.Slot, Trial: r.Trial() != "", Name: r.Trial(), Approved: r.ApprovedBy(),
		Trying: r.Trying, Previous: r.Previous, Why: r.Why, TriesLeft: r.Tries, Next: r.Next,
		Boot: r.Boot, Last: r.Last, Unreported: r.Unreported, Dropped: r.Dropped, Notes: notes, Seq: r.Seq}
	for _, id := range []ID{record.A, record.B, record.Factory} {
		x := r.Slot(id)
		st.Slots = append(st.Slots,
			SlotStatus{Slot: id, State: r.State(id), Version: x.Version, Hash: x.Hash, Verdict: x.Verdict})
	}
	return st
}

// Arm lets the next start be a trial of a slot, with so many starts in all.
func (s *Store) Arm(id ID, tries int) error {
	return s.update(func(r record.Record) (record.Record, error) {
		if s.cfg.Busy != nil {
			if err := s.cfg.Busy(); err != nil {
				return r, err
			}
		}
		next, err := r.Arm(id, tries)
		if err != nil {
			return r, err
		}
		if err := s.sound(next, id); err != nil {
			return r, err
		}
		return next, s.raise(id, next.Slot(id).Version) // before it runs
	})
}

// Alone runs f while no slot is armed or on trial, and none can be armed; else the error is
// record.ErrTrial. f must not use the Store.
func (s *Store) Alone(f func() error) error {
	return s.locked(func() error {
		r, _, err := s.load()
		if err != nil {
			return err
		}
		if r.Trying != record.None {
			return fmt.Errorf("slot %s: %w", r.Trying, record.ErrTrial)
		}
		return f()
	})
}

// Commit makes the slot on trial the active one; running is the slot that runs. To do it again does no
// harm.
func (s *Store) Commit(running ID) error {
	return s.update(func(r record.Record) (record.Record, error) {
		next, err := r.Commit(running)
		if err != nil {
			return r, err
		}
		return next, s.raise(running, next.Slot(running).Version) // an agent that knows no floors may have armed it
	}, s.mirror)
}

// Adopt puts the installed binary, which is in force and was staged in a slot, in force there, before it is replaced.
func (s *Store) Adopt(id ID) error {
	return s.update(func(r record.Record) (record.Record, error) {
		next, err := r.Adopt(id)
		if err == nil {
			err = s.sound(next, id)
		}
		return next, err
	}, s.mirror)
}

// Approve notes that somebody at the node approves of the slot that runs on trial. The agent, which looks at the slots
// now and then, does the rest.
func (s *Store) Approve(by string) error {
	return s.update(func(r record.Record) (record.Record, error) { return r.Approve(by) })
}

// Rollback leaves a slot: the one on trial, for the active one; or the active one, for the one before.
// It takes effect with the next start, and returns what will be the active slot then. To do it again
// does no harm.
func (s *Store) Rollback(from ID, reason wire.BootReason, detail string) (to ID, err error) {
	err = s.update(func(r record.Record) (record.Record, error) {
		r, err := r.RollBack(from, reason, detail)
		to = r.Good
		return r, err
	}, s.mirror)
	return to, err
}

// Discard gives up what is staged in a slot and was never started. To do it again does no harm.
func (s *Store) Discard(id ID) error {
	return s.update(func(r record.Record) (record.Record, error) { return r.Discard(id) })
}

// Planned writes down that the agent is whole and ends on purpose: a trial keeps its try. The reason
// that was written first stands, and is returned.
func (s *Store) Planned(reason wire.BootReason, detail string) (wire.BootReason, error) {
	return s.mark(boot.Mark{Reason: reason, Detail: detail, Planned: true})
}

// Failing writes down why the agent is about to end although it should not: a trial loses a try. The
// reason that was written first stands, and is returned.
func (s *Store) Failing(reason wire.BootReason, detail string) (wire.BootReason, error) {
	return s.mark(boot.Mark{Reason: reason, Detail: detail})
}

// Stays says that what was planned for this reason did not happen: the agent goes on, and the reason
// explains no later end.
func (s *Store) Stays(reason wire.BootReason) error {
	return s.update(func(r record.Record) (record.Record, error) {
		r.Unmark(reason)
		return r, nil
	})
}

func (s *Store) mark(m boot.Mark) (stands wire.BootReason, err error) {
	if !boot.Known(m.Reason) {
		panic("slot: no such reason: " + string(m.Reason))
	}
	err = s.update(func(r record.Record) (record.Record, error) {
		stands = r.Mark(m).Reason
		return r, nil
	})
	return stands, err
}

// BootReason returns the starts that the controller has not been told of, oldest first; the newest is
// the current one. They stay until Reported.
func (s *Store) BootReason() (boots []boot.Start, dropped uint64, err error) {
	st, err := s.Status()
	return st.Unreported, st.Dropped, err
}

// Reported says that the controller knows the starts up to this number.
func (s *Store) Reported(number uint64) error {
	return s.update(func(r record.Record) (record.Record, error) {
		r.Reported(number)
		return r, nil
	})
}

// locked runs one step.
func (s *Store) locked(step func() error) (err error) {
	if err := s.disk.Mkdir("."); err != nil {
		return fmt.Errorf("slots: %w", err)
	}
	unlock, err := s.disk.Lock(stepLock, s.cfg.Lock)
	if err != nil {
		return fmt.Errorf("slots: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return step()
}

// update takes the record over one transition. If it has no effect, nothing is written. What is to
// follow is told the new record.
func (s *Store) update(f func(record.Record) (record.Record, error), follow ...func(record.Record) error) error {
	return s.locked(func() error {
		r, _, err := s.load()
		if err != nil {
			return err
		}
		if x := s.expect; x != nil && (r.State(x.Slot) != x.State || r.Slot(x.Slot).Hash != x.Hash) {
			return fmt.Errorf("slot %s: %w", x.Slot, ErrChanged)
		}
		next, err := f(r)
		if err != nil {
			return err
		}
		if next, err = s.save(r, next); err != nil {
			return err
		}
		for _, f := range follow {
			if err := f(next); err != nil {
				return err
			}
		}
		return nil
	})
}

// Brings returns what the program in a slot brings; the zero Bundle: nothing. It is read as it lies there, unverified.
func (s *Store) Brings(id ID) (b bundle.Bundle, err error) {
	f, err := s.disk.Open(s.binary(id))
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxBinary))
	if err != nil {
		return b, err
	}
	return bundle.Read(bytes.NewReader(data), int64(len(data)))
}

func (s *Store) binary(id ID) string { return filepath.Join(string(id), binaryFile) }

func (s *Store) manifest(id ID) string { return filepath.Join(string(id), manifestFile) }
