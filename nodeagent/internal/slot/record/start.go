package record

import (
	"errors"
	"fmt"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/shared/wire"
)

// ErrBroken is what a slot's check returns if the slot does not hold what the record says: the slot is
// given up. Any other error only keeps it from being started now.
var ErrBroken = errors.New("broken")

// Rebuild makes a record from the manifests of the slots that hold what their manifest says. The slot
// that became good last is good.
func Rebuild(found map[ID]Manifest) Record {
	r := New()
	r.Why = boot.Lost
	for _, id := range Writable {
		m, ok := found[id]
		if !ok {
			continue
		}
		s := Slot{Version: m.Version, Hash: m.Hash, Size: m.Size, Committed: m.Committed}
		if m.Committed > 0 {
			s.Verdict = Good
		} else {
			s.Verdict = Failed // nobody knows any more whether it was tried: it is not, by itself
		}
		r = r.with(id, s)
		r.Seq = max(r.Seq, m.Committed)
	}
	for _, id := range Writable {
		s := r.Slot(id)
		if s.Verdict != Good {
			continue
		}
		if s.Committed >= r.Slot(r.Good).Committed {
			r.Previous, r.Good = r.Good, id
		} else {
			r.Previous = id
		}
	}
	return r
}

// Start decides what a start of the agent boots: the slot on trial while it has tries left, else the
// good one, else whatever may stand in for it. sound says whether a slot holds what the record says and
// may be started; the factory slot holds what it holds. The result's Boot says which slot, whether as a trial, and why;
// it must be saved before that slot is started. Boot.Slot is None if nothing is left.
func (r Record) Start(ev boot.Evidence, sound func(ID) error) Record {
	planned := r.Next != nil && r.Next.Planned
	fresh := r.Next == nil
	r.History.Begin(ev, r.Why == boot.Lost)
	if r.Trying == None {
		return r.choose(sound)
	}
	spare := r.Booted && planned && r.Spared < MaxSpared
	if r.Tries == 0 && !spare {
		failed := boot.Crash(r.Boot.Reason)
		why := "none of its starts came to a commit; the last one ended with " + ended(r.Boot)
		r = r.fallBack(why, fresh)
		r.Last.Failed = failed
		return r.choose(sound)
	}
	if err := sound(r.Trying); err != nil {
		id := r.Trying
		if r = r.fallBack(err.Error(), fresh); errors.Is(err, ErrBroken) {
			r = r.breakSlot(id)
		}
		return r.choose(sound)
	}
	if spare {
		r.Spared++
	} else {
		r.Tries--
	}
	r.Booted = true
	return r.settled(r.Trying, true)
}

func ended(b boot.Start) string {
	if b.Detail == "" {
		return string(b.Reason)
	}
	return fmt.Sprintf("%s: %s", b.Reason, b.Detail)
}

// fallBack ends a trial at a start. derived says that nobody had written a reason for this start.
func (r Record) fallBack(why string, derived bool) Record {
	note := fmt.Sprintf("the trial of slot %s is over: %s", r.Trying, why)
	if derived || r.Boot.Reason == wire.BootUpdate {
		r.Boot.Reason, r.Boot.Detail = wire.BootFallback, bounded(note)
	}
	r.Boot.Note = note
	return r.endTrial(wire.BootFallback, why)
}

// Instead decides anew, after the slot of the current start could not be started. sound has to refuse
// that slot from now on.
func (r Record) Instead(why string, sound func(ID) error) Record {
	if r.Boot.Trial && r.Trying == r.Boot.Slot {
		r = r.fallBack("it cannot be started: "+why, true)
		r.Last.Failed = true
	} else {
		r.Boot.Note = fmt.Sprintf("slot %s cannot be started: %s", r.Boot.Slot, why)
	}
	return r.choose(sound)
}

// Direct records a start of the installed binary without the launcher. A trial that waits goes on
// waiting, no try is consumed.
func (r Record) Direct(ev boot.Evidence) Record {
	r.History.Begin(ev, r.Why == boot.Lost)
	if r.Good != Factory || r.Trying != None {
		r.Boot.Note = "started without the launcher: the slots are not used"
	}
	return r.settled(Factory, false)
}

// choose picks the good slot or what stands in for it.
func (r Record) choose(sound func(ID) error) Record {
	skipped := ""
	gone := false // the good slot is broken
	for _, id := range r.order() {
		err := sound(id)
		if err == nil {
			return r.settle(id, skipped, gone)
		}
		skipped += fmt.Sprintf("slot %s: %v; ", id, err)
		if errors.Is(err, ErrBroken) && id != Factory {
			gone = gone || id == r.Good
			r = r.breakSlot(id)
		}
	}
	r.Boot.Note += "; nothing can be started: " + skipped
	return r.replace(gone).settled(None, false)
}

// order is what may be started instead of a trial, best first. What never was in force comes after the
// factory slot.
func (r Record) order() []ID {
	list := []ID{r.Good}
	add := func(id ID) {
		for _, have := range list {
			if have == id {
				return
			}
		}
		list = append(list, id)
	}
	add(r.Previous)
	for _, id := range Writable {
		if r.bootable(id) {
			add(id)
		}
	}
	add(Factory)
	for _, id := range Writable {
		if r.Slot(id).Exists() {
			add(id)
		}
	}
	return list
}

// breakSlot gives a slot up. While it is still named good or previous, replace has to follow.
func (r Record) breakSlot(id ID) Record {
	if id == r.Previous {
		r.Previous = Factory
	}
	if id != r.Good {
		r = r.with(id, Slot{})
	}
	return r
}

// settle makes id the slot of the current start, in the place of those that were skipped.
func (r Record) settle(id ID, skipped string, gone bool) Record {
	if skipped != "" {
		note := fmt.Sprintf("slot %s stands in; %s", id, skipped[:len(skipped)-2])
		if r.Boot.Note != "" {
			note = r.Boot.Note + "; " + note
		}
		r.Boot.Note = note
	}
	if gone {
		broken := r.Good
		if r.bootable(id) {
			r.Good, r.Previous = id, Factory
		} else {
			r.Good, r.Previous = Factory, Factory
		}
		if s := r.Slot(broken); s.Exists() {
			r.Last = Outcome{Seq: r.Seq + 1, Slot: broken, Version: s.Version, Hash: s.Hash, Reason: wire.BootFallback,
				Detail: bounded(skipped)}
		}
		r = r.with(broken, Slot{})
		r.Why = bounded(r.Boot.Note)
		r = r.goodAgain()
	}
	return r.settled(id, false)
}

// replace makes the factory slot good after the good one broke and nothing could be started.
func (r Record) replace(gone bool) Record {
	if gone {
		r = r.with(r.Good, Slot{})
		r.Good, r.Previous = Factory, Factory
	}
	return r
}

// settled says which slot the current start is of.
func (r Record) settled(id ID, trial bool) Record {
	r.Settle(id, trial)
	return r
}
