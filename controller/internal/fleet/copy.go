package fleet

import (
	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// copySeen compares the readable copy with the journal (seed 000, Startup): a missing one is
// written again; a changed or unreadable one makes the unit's state failed. While the journal cannot read its own
// document there is nothing to compare with.
func (s *step) copySeen(ev Copy) {
	c := s.copied()
	switch {
	case c == nil || s.damage(c) != nil:
	case ev.Missing && c.Version != "":
		s.effect(WriteCopy{})
		s.recovered(c, "the readable copy was missing and is written again")
	case ev.Missing:
		if c.State.State == kind.Failed {
			s.change(c, kind.Absent, nil, "the unreadable copy is gone")
		}
	case c.Version != "" && ev.Known && ev.Hash != c.Hash: // a crash came before the copy was written
		s.effect(WriteCopy{})
		s.recovered(c, "the readable copy was an older one and is written again")
	case c.Version != "" && ev.Hash == c.Hash:
		s.recovered(c, "the readable copy is whole again")
	case c.Version == "" && ev.Error == nil: // the shell submits it
	default:
		err := ev.Error
		if err == nil {
			err = wire.New(wire.CodeHashMismatch, "",
				"the file is not what the journal has: it was altered from outside, "+
					"or the journal is a restored backup")
		}
		if c.State.State != kind.Failed || *c.Error != *err {
			s.change(c, kind.Failed, err, "readable copy")
		}
	}
}

// recovered ends a failed state that the world outside has ended.
func (s *step) recovered(src *source, reason string) {
	if src.State.State == kind.Failed {
		s.change(src, kind.Installed, nil, reason)
		s.redistribute()
	}
}

func (s *step) change(src *source, state string, err *wire.Error, reason string) {
	data := record.StateChange{State: state, Error: err, Reason: reason}
	s.emit(record.Record{Type: record.State, Kind: string(src.Name)}, data)
}

// redistribute gives every node what it missed while nothing was distributed.
func (s *step) redistribute() {
	s.issueMissing()
	for _, n := range s.sorted() {
		s.distribute(n)
	}
}

// restore ends the failed state by writing the journal's document again.
func (s *step) restore(ev Restore) {
	src := s.copied()
	if err := s.restorable(src); err != nil {
		s.effect(Answer{Ticket: ev.Ticket, Err: err})
		return
	}
	data := record.StateChange{State: kind.Installed, Reason: "restored from the journal"}
	s.emit(record.Record{Type: record.State, Who: ev.Who, Kind: string(src.Name)}, data)
	s.effect(WriteCopy{})
	s.redistribute()
	s.effect(Answer{Ticket: ev.Ticket})
}

func (s *step) restorable(src *source) error {
	switch {
	case src == nil:
		return wire.New(wire.CodeNotSupported, "", "no document has a readable copy")
	case src.State.State != kind.Failed:
		text := "the " + src.Title + " is " + src.State.State + "; only a failed one is restored"
		return wire.New(wire.CodeWrongState, "", text)
	case src.Version == "":
		return wire.New(wire.CodeNotFound, "", "the journal holds no "+src.Noun+" to restore; apply one")
	}
	if err := s.damage(src); err != nil {
		return err
	}
	return nil
}
