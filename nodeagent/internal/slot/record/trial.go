package record

import (
	"fmt"
	"sort"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/shared/wire"
)

// Target picks the slot that the next staging overwrites: never the active one, never one on trial,
// never the one that runs.
func (r Record) Target() (ID, error) {
	if r.Trying != None {
		return None, ErrTrial
	}
	var free []ID
	for _, id := range Writable {
		if id != r.Good && id != r.Boot.Slot {
			free = append(free, id)
		}
	}
	if len(free) == 0 {
		return None, fmt.Errorf("slot %s runs and slot %s is to run: restart the agent first", r.Boot.Slot, r.Good)
	}
	worth := func(id ID) int {
		switch s := r.Slot(id); {
		case !s.Exists():
			return 0
		case s.Verdict != Good: // so that never two slots wait for a trial
			return -1
		case id != r.Previous:
			return 1
		}
		return 2
	}
	// a generic sort would make the agent larger
	sort.SliceStable(free, func(i, j int) bool { return worth(free[i]) < worth(free[j]) })
	return free[0], nil
}

// Begin marks a slot as holding nothing, before the first byte of it is overwritten.
func (r Record) Begin(id ID) Record {
	if id != A && id != B || id == r.Good || id == r.Trying {
		panic("record: slot " + string(id) + " is not to be written")
	}
	r = r.with(id, Slot{})
	for _, other := range Writable {
		if s := r.Slot(other); s.Exists() && s.Verdict == Untried { // superseded: never do two slots wait for a trial
			s.Verdict = Failed
			r = r.with(other, s)
		}
	}
	if r.Previous == id {
		r.Previous = Factory
	}
	r.Writing, r.WriteSeq = id, r.Seq+1
	return r
}

// Abandon ends the staging that began with record number seq; the slot stays empty.
func (r Record) Abandon(seq uint64) Record {
	if r.Writing != None && r.WriteSeq == seq {
		r.Writing, r.WriteSeq = None, 0
	}
	return r
}

// Staged ends the staging that began with record number seq: the slot holds s, verified.
func (r Record) Staged(seq uint64, s Slot) (Record, error) {
	if r.Writing == None || r.WriteSeq != seq {
		return r, ErrSuperseded
	}
	s.Verdict, s.Committed = Untried, 0
	r = r.with(r.Writing, s)
	r.Writing, r.WriteSeq = None, 0
	return r, nil
}

// Discard gives up what is staged in a slot and was never started: it waits for no trial any more.
func (r Record) Discard(id ID) (Record, error) {
	if id == r.Trying {
		return r, ErrTrial
	}
	if s := r.Slot(id); s.Exists() && s.Verdict == Untried {
		s.Verdict = Failed
		r = r.with(id, s)
	}
	return r, nil
}

// Arm lets the next start be a trial of a slot, and tries starts in all; it writes the reason of that
// start unless somebody has written one. A slot that was armed but never started may be armed again.
func (r Record) Arm(id ID, tries int) (Record, error) {
	switch {
	case tries < 1 || tries > MaxTries:
		return r, fmt.Errorf("%d tries: 1 to %d are possible", tries, MaxTries)
	case id == r.Good:
		return r, fmt.Errorf("slot %s is in force already", id)
	case id != A && id != B:
		return r, fmt.Errorf("%.20q is no slot that can be tried: it is %s or %s", string(id), A, B)
	case r.Trying != None && (r.Trying != id || r.Booted):
		return r, ErrTrial
	case !r.Slot(id).Exists():
		return r, ErrEmpty
	}
	r.Trying, r.Tries, r.Booted, r.Spared = id, tries, false, 0
	r.Writing, r.WriteSeq = None, 0 // of the other slot: that staging comes too late, and its slot stays empty
	r.Mark(boot.Mark{Reason: wire.BootUpdate, Detail: "to try slot " + string(id), Planned: true})
	return r, nil
}

// Commit makes the slot on trial the active one. running is the slot that runs. A slot that is active
// already is committed again without an effect.
func (r Record) Commit(running ID) (Record, error) {
	switch {
	case r.Trying == None && running == r.Good && r.Last.Committed && r.Last.Slot == running:
		return r, nil
	case r.Trying == None:
		return r, ErrNoTrial
	case !r.Booted || running != r.Trying:
		return r, ErrNotStarted
	}
	s := r.Slot(running)
	s.Verdict, s.Committed = Good, r.Seq+1
	r = r.with(running, s)
	r.Previous, r.Good = r.Good, running
	r.Why = "it was committed after a trial"
	r.Last = Outcome{Seq: r.Seq + 1, Slot: running, Version: s.Version, Hash: s.Hash, Committed: true}
	return r.noTrial(), nil
}

// Adopt puts what is staged in a slot in force without a trial: it is the installed binary, which has been in force
// until now and is about to be replaced. So there is a way back from what comes. To do it again has no effect.
func (r Record) Adopt(id ID) (Record, error) {
	switch {
	case r.Good == id:
		return r, nil
	case r.Trying != None:
		return r, ErrTrial
	case r.Good != Factory || id == Factory || !r.Slot(id).Exists():
		return r, ErrEmpty
	}
	s := r.Slot(id)
	s.Verdict, s.Committed = Good, r.Seq+1
	r = r.with(id, s)
	r.Previous, r.Good = Factory, id
	r.Why = "it was installed before an upgrade"
	return r, nil
}

// Approve notes that somebody at the node approves of the slot that runs on trial.
func (r Record) Approve(by string) (Record, error) {
	switch name := r.Trial(); {
	case name != "":
		r.Approved = Approval{Trial: name, By: bounded(by)}
		return r, nil
	case r.Trying != None:
		return r, ErrNotStarted
	}
	return r, ErrNoTrial
}

func (r Record) noTrial() Record {
	r.Trying, r.Tries, r.Booted, r.Spared, r.Approved = None, 0, false, 0, Approval{}
	return r
}

// RollBack leaves a slot: the one on trial, started or not, for the active one; or the active one for the
// one before. It takes effect with the next start, whose reason it writes unless somebody has written
// one before. To leave a slot again that was left last has no effect.
func (r Record) RollBack(from ID, reason wire.BootReason, detail string) (Record, error) {
	switch {
	case from != r.Trying && from != r.Good && from != None && from == r.Last.Slot && !r.Last.Committed:
		return r, nil
	case from == None || from != r.Trying && from != r.Good:
		return r, fmt.Errorf("slot %.20q is neither on trial nor in force", string(from))
	case from == r.Good && r.Trying != None:
		return r, ErrTrial
	case from == r.Trying:
		if !r.Booted && r.Next != nil && r.Next.Reason == wire.BootUpdate {
			r.Next = nil // Arm wrote it, and it is not so any more
		}
		r = r.endTrial(reason, detail)
	case r.Good == Factory:
		return r, ErrNoPrevious
	default:
		s := r.Slot(r.Good)
		s.Verdict = Failed
		r.Last = Outcome{Seq: r.Seq + 1, Slot: from, Version: s.Version, Hash: s.Hash, Reason: reason,
			Detail: bounded(detail)}
		r = r.with(from, s)
		r.Good, r.Previous = r.Previous, Factory
		r.Why = bounded(fmt.Sprintf("slot %s was rolled back (%s): %s", from, reason, detail))
		r = r.goodAgain()
	}
	r.Mark(boot.Mark{Reason: reason, Detail: detail, Planned: true})
	return r, nil
}

// goodAgain notes with the slot that it has become good now, so that a rebuilt record agrees.
func (r Record) goodAgain() Record {
	if s := r.Slot(r.Good); s.Exists() {
		s.Committed = r.Seq + 1
		r = r.with(r.Good, s)
	}
	return r
}

// endTrial leaves the good slot alone with what the trial was.
func (r Record) endTrial(reason wire.BootReason, detail string) Record {
	s := r.Slot(r.Trying)
	r.Last = Outcome{Seq: r.Seq + 1, Slot: r.Trying, Version: s.Version, Hash: s.Hash, Reason: reason,
		Detail: bounded(detail)}
	if s.Verdict == Untried {
		s.Verdict = Failed
	}
	return r.with(r.Trying, s).noTrial()
}

// WithoutTrial is the record as a start sees it that cannot be written down: no slot is on trial.
func (r Record) WithoutTrial() Record { return r.noTrial() }
