package slot

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/nodeagent/internal/slot/record"
)

// Variables that the launcher sets for the agent.
const (
	EnvSlot    = "TANDEM_SLOT"          // a, b or factory
	EnvDir     = "TANDEM_SLOT_DIR"      // the slot directory, absolute
	EnvTrial   = "TANDEM_SLOT_TRIAL"    // 1 if the slot is on trial, else 0
	EnvTries   = "TANDEM_SLOT_TRIES"    // starts of the trial that are left
	EnvFactory = "TANDEM_SLOT_FACTORY"  // version of the installed binary
	EnvReason  = "TANDEM_BOOT_REASON"   // why the run before ended
	EnvNote    = "TANDEM_BOOT_NOTE"     // why this slot, if it is not the one that was to be expected
	EnvRestart = "TANDEM_BOOT_RESTARTS" // the restart counter
)

// Launch is what the launcher is to start.
type Launch struct {
	boot.Start
	Path  string   // the binary; empty: the launcher's own
	Tries int      // left after this one
	Dir   string   // the slot directory
	Notes []string // what was found wrong, for the log
	// Saved says that the disk knows of this start. If not, the slot is never one on trial.
	Saved bool
}

// Env is what the agent finds in its environment, in the form NAME=value.
func (l Launch) Env() []string {
	trial := "0"
	if l.Trial {
		trial = "1"
	}
	return []string{EnvSlot + "=" + string(l.Slot), EnvDir + "=" + l.Dir,
		EnvTrial + "=" + trial, EnvTries + "=" + strconv.Itoa(l.Tries),
		EnvReason + "=" + string(l.Reason), EnvNote + "=" + l.Note, EnvRestart + "=" + strconv.FormatUint(l.Number, 10)}
}

// Starting is one start of the agent: the launcher starts what Next returns, and asks again if that
// does not work.
type Starting struct {
	store   *Store
	refused map[ID]error
	current record.Record
	begun   bool
	saved   bool // the disk has current
}

// Starting begins a start of the agent.
func (s *Store) Starting() *Starting { return &Starting{store: s, refused: map[ID]error{}} }

// Next decides what to start and writes it down, tries included. why says what was wrong with what it
// returned before; nil the first time. It does not fail for want of a disk: then it returns a slot that
// is not on trial, or the installed binary, and says so in the notes. The error means that nothing is
// left to start.
func (b *Starting) Next(why error) (Launch, error) {
	if why != nil {
		b.refused[b.current.Boot.Slot] = fmt.Errorf("it cannot be started: %w", why)
	}
	var l Launch
	err := b.store.locked(func() error {
		var err error
		l, err = b.next(why)
		return err
	})
	if err != nil {
		l = b.blind(err)
	}
	b.begun, b.saved = true, l.Saved
	if l.Slot == record.None {
		return l, fmt.Errorf("no slot can be started: %s", l.Note)
	}
	if l.Slot != record.Factory {
		l.Path = filepath.Join(b.store.cfg.Dir, b.store.binary(l.Slot))
	}
	return l, nil
}

func (b *Starting) next(why error) (Launch, error) {
	s := b.store
	r, notes, err := s.load()
	if err != nil {
		return Launch{}, err
	}
	if !b.begun {
		for _, name := range copies {
			if err := s.disk.Clean(name); err != nil {
				notes = append(notes, err.Error())
			}
		}
	}
	sound := func(id ID) error {
		if err := b.refused[id]; err != nil {
			return err
		}
		return s.sound(r, id)
	}
	next := s.abandoned(r)
	if b.saved && why != nil {
		next = next.Instead(why.Error(), sound)
	} else {
		next = next.Start(s.cfg.Machine(), sound)
	}
	if next, err = s.save(r, next); err != nil {
		return Launch{}, err
	}
	b.current = next
	if err := s.mirror(next); err != nil {
		notes = append(notes, err.Error())
	}
	return Launch{Start: next.Boot, Tries: next.Tries, Dir: s.cfg.Dir, Notes: notes, Saved: true}, nil
}

// blind decides without writing anything: the good slot if it can be read which one that is, else what
// the slots themselves say, and never a trial.
func (b *Starting) blind(trouble error) Launch {
	s := b.store
	r, found := record.Record{}, false
	for _, name := range copies {
		if data, err := s.disk.Read(name, record.MaxSize); err == nil {
			if c, err := record.Decode(data); err == nil && (!found || c.Seq > r.Seq) {
				r, found = c, true
			}
		}
	}
	if !found {
		r, _ = s.rebuild()
	}
	sound := func(id ID) error {
		if err := b.refused[id]; err != nil {
			return err
		}
		return s.sound(r, id)
	}
	next := r.WithoutTrial().Start(s.cfg.Machine(), sound)
	b.current = next
	note := fmt.Sprintf("this start cannot be written down (%v), so no slot is started on trial", trouble)
	if next.Boot.Note != "" {
		note += "; " + next.Boot.Note
	}
	next.Boot.Note = note
	return Launch{Start: next.Boot, Dir: s.cfg.Dir, Notes: []string{note}}
}

// Direct writes down a start of the agent without the launcher, unless there was one: the environment
// says so.
func (s *Store) Direct() error {
	if os.Getenv(EnvSlot) != "" {
		return nil
	}
	return s.update(func(r record.Record) (record.Record, error) { return r.Direct(s.cfg.Machine()), nil })
}
