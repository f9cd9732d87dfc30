package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// slotted takes in the state of the slots, and with it that a trial has begun or ended.
func (t *step) slotted(ev Slots) {
	if ev.Err != nil {
		t.known, t.slots.Err = false, ev.Err
		return
	}
	u := ev.Updates
	if t.known && !t.trying && t.slots.Updates.Busy == "" && u.Busy != "" {
		t.Baseline, t.baseAt = t.baseline(), t.now.Mono+baselineBeat
	}
	t.slots, t.known = ev, true
	now := Trial{ID: u.Trial.ID, Slot: u.Trial.Slot, Component: u.Trial.Component, Version: plain(u.Trial.Version)}
	switch old := t.Trial; {
	case now.ID == "" && old.ID != "":
		t.gone()
	case now.ID != old.ID:
		if old.ID != "" { // it was kept, or given up, by hand
			t.gone()
		}
		t.Trial, t.Trial.Baseline, t.Trial.Since = now, t.Baseline, wall(t.now)
		if now.Component != "" { // what the trial's own checks said before is not about this version
			t.Trial.Baseline.Failing = slices.DeleteFunc(slices.Clone(t.Baseline.Failing), func(name string) bool {
				return slices.Contains(u.Trial.Checks, name)
			})
		}
		t.run()
		t.emit(EventTrialStarted, nil, Detail{Slot: now.Slot, Component: now.Component, Version: now.Version,
			Text: offlineText(t.Trial.Baseline)})
	case now.ID != "" && !t.trying:
		t.run()
	}
}

// gone ends a trial that is not there any more, as it is said to have ended. Of the agent's own that nobody says
// anything of, the slots tell: another agent has tried it.
func (t *step) gone() {
	i := slices.IndexFunc(t.slots.Updates.Over, func(o Over) bool { return o.Trial == t.Trial.ID })
	switch {
	case i >= 0:
		over := t.slots.Updates.Over[i]
		t.Trial.Verdict = Restart{Reason: over.Reason, Detail: over.Detail}
		t.ended(over.Kept)
	case t.Trial.Component != "":
		t.Trial.Verdict = Restart{Reason: wire.BootUnknown}
		t.ended(false)
	default:
		t.ended(t.slots.Used && t.slots.Good == t.Trial.Slot)
	}
}

func offlineText(b Baseline) string {
	if b.Offline {
		return "the site had no contact before"
	}
	return ""
}

// slotOf returns the slot of this ID, or the zero slot.
func slotOf(list []wire.HealthSlot, id string) wire.HealthSlot {
	for _, slot := range list {
		if slot.ID == id && id != "" {
			return slot
		}
	}
	return wire.HealthSlot{}
}

// run begins the trial's part in this run of the agent: what must be seen is seen from here.
func (t *step) run() {
	t.trying, t.met, t.from, t.window = true, false, t.clock(), t.clock()
	t.spentBase, t.spentFrom, t.recheck = t.Trial.Spent.Std(), t.clock(), 0
	t.heardSpent = t.Trial.Heard.Std()
	if t.Trial.Baseline.Offline && !t.Trial.Met { // it waits, and its checks have not spoken yet in this run
		t.recheck = t.clock() + t.settings.Test.Std()
	}
	t.commit, t.commitAt, t.refused = false, 0, ""
	t.keepAt, t.sayAt = t.now.Mono, t.now.Mono
	for _, name := range t.slots.Updates.Trial.Checks {
		t.put(check{name: plain(name), heard: t.now.Mono, ttl: awaitPart, awaited: true, since: wall(t.now)})
	}
	t.keep()
}

// ended ends the trial: its slot is good now, or another one runs.
func (t *step) ended(kept bool) {
	old := t.Trial
	d := Detail{Slot: old.Slot, Component: old.Component, Version: old.Version}
	if kept {
		t.emit(EventTrialCommitted, nil, d)
	} else {
		d.Reason, d.Text = old.Verdict.Reason, old.Verdict.Detail
		if d.Reason == "" {
			d.Reason, d.Text = t.boot.Reason, t.boot.Detail
		}
		if d.Reason == wire.BootUpdate { // of the next trial: nobody has said why this one ended
			d.Reason, d.Text = wire.BootUnknown, ""
		}
		t.emit(EventTrialRolledBack, nil, d)
	}
	t.Trial, t.trying, t.commit, t.refused = Trial{}, false, false, ""
	if t.Restart.Do == DoRollBack {
		t.Restart = Restart{}
	}
}

// spent is the running time of the trial, maintenance not counted.
func (s State) spent() time.Duration { return s.spentBase + s.clock() - s.spentFrom }

// meet notes that the controller was heard while the trial runs. Where there was no contact before
// the trial, the deadline counts from the first.
func (t *step) meet() {
	if !t.trying {
		return
	}
	t.met = true
	if !t.Trial.Met {
		t.Trial.Met = true
		t.anew()
	}
	t.heardSpent = t.spent()
}

// anew begins the deadline anew, where there was no contact before the trial: what it has waited for is there.
func (t *step) anew() {
	if t.Trial.Baseline.Offline {
		t.spentBase, t.spentFrom, t.recheck, t.heardSpent = 0, t.clock(), 0, 0
		t.keepAt = t.now.Mono
		t.keep()
	}
}

// proven reports whether the version on trial has shown that it can reach the controller; where
// there was no contact before, once is enough, and an approval by hand stands in for it.
func (s State) proven() bool {
	if s.Trial.Baseline.Offline {
		return s.met || s.Trial.Met || s.Trial.Approved != "" && s.Trial.ByHand
	}
	return s.met && s.contacted()
}

// judge begins the healthy span anew while something is worse than before the trial.
func (t *step) judge() {
	if !t.trying {
		return
	}
	if len(t.worse(t.Trial.Baseline)) > 0 || !t.Trial.Baseline.Offline && !(t.met && t.fresh()) {
		t.window = t.clock()
	}
}

// lacks lists what a commit needs and does not have, but for the test time.
func (s State) lacks() (out []wire.HealthWait) {
	add := func(code wire.WaitCode, name, text string) {
		out = append(out, wire.HealthWait{Code: code, Name: name, Text: plain(text)})
	}
	if !s.known {
		add(wire.WaitSlots, "", "the state of the slots, which cannot be read")
	}
	if s.resting {
		add(wire.WaitMaintenance, "", "the end of the maintenance that the controller announced")
	}
	for _, c := range s.worse(s.Trial.Baseline) {
		text := c.message
		switch {
		case c.awaited && !c.silent:
			text = "no word yet"
		case text == "":
			text = "not good"
		}
		add(wire.WaitCheck, c.name, text)
	}
	if !s.proven() {
		switch {
		case s.Trial.Baseline.Offline:
			add(wire.WaitContact, "", "a word from the controller since the start, or an approval at the node: "+
				"tandem-node slot approve")
		case !s.met:
			add(wire.WaitContact, "", "a word from the controller since the start")
		default:
			add(wire.WaitContact, "", "the controller, which is not heard any more")
		}
	}
	if *s.settings.Approval && s.Trial.Approved == "" {
		add(wire.WaitApproval, "", "the controller's or an operator's approval")
	}
	return out
}

// left is the test time still to pass.
func (s State) left() time.Duration {
	return max(0, s.window+s.settings.Test.Std()-s.clock())
}

// overdue reports whether the deadline has passed and is not excused for now.
func (s State) overdue() bool {
	return s.clock() >= max(s.spentFrom+s.settings.Deadline.Std()-s.spentBase, s.recheck)
}

// excused reports whether nothing but contact is missing, and there was none before either.
func (s State) excused() bool {
	return s.Trial.Baseline.Offline && !s.proven() && len(s.worse(s.Trial.Baseline)) == 0
}

// verdict says whether the trial is to be rolled back. Fallback comes before the deadline.
func (s State) verdict() Restart {
	roll := Restart{Do: DoRollBack, Reason: wire.BootFallback}
	silent, limit := s.silentUntil()
	switch {
	case s.Trial.Verdict.Do != "":
		roll.Detail = s.Trial.Verdict.Detail
	case s.resting:
		return Restart{}
	case s.clock() >= silent:
		roll.Detail = fmt.Sprintf("version %s: no contact with the controller for %v", s.Trial.Version,
			wire.SpanOf(limit))
	case s.overdue() && !s.excused():
		var waits []string
		for _, w := range s.lacks() {
			waits = append(waits, strings.TrimSpace(string(w.Code)+" "+w.Name))
		}
		if s.commitAt > 0 && s.left() == 0 && len(waits) == 0 {
			waits = append(waits, string(wire.WaitCommit))
		} else if s.left() > 0 || len(waits) == 0 {
			waits = append(waits, string(wire.WaitTestTime))
		}
		roll.Detail = plain(fmt.Sprintf("version %s: not committed within %v, "+
			"for want of %s", s.Trial.Version, s.settings.Deadline, strings.Join(waits, ", ")))
	default:
		return Restart{}
	}
	return roll
}

// noWayBack says why the trial cannot be rolled back, or "".
func (s State) noWayBack() string {
	if !s.known {
		return "the state of the slots is not known"
	}
	return s.slots.Updates.Trial.NoWayBack
}

// tryOn decides about the trial. A trial that must end and has nothing to go back to goes on, and may
// still pass: nothing better is there.
func (t *step) tryOn() {
	if t.commit {
		if t.now.Mono < t.commitAt {
			return
		}
		t.commitFailed(wire.New(wire.CodeTimeout, "", fmt.Sprintf("it was asked for %v ago and was not answered",
			wire.SpanOf(stuckAfter))))
	}
	if t.overdue() && t.excused() {
		t.recheck = t.clock() + t.settings.Test.Std()
	}
	if r := t.verdict(); r.Do == "" {
		t.refused = ""
	} else if why := t.noWayBack(); why == "" {
		t.Trial.Verdict = r
		t.decide(r)
		return
	} else {
		t.Trial.Verdict = Restart{}
		t.refuse(r, why)
	}
	if t.Trial.Verdict.Do == "" && len(t.lacks()) == 0 && t.left() == 0 && t.now.Mono >= t.commitAt {
		t.commit, t.commitAt = true, t.now.Mono+stuckAfter
		t.do(Commit{Trial: t.Trial.ID})
	}
}

// trialDeadline is when tryOn must decide, on the monotonic clock.
func (s State) trialDeadline() (time.Duration, bool) {
	at, ok := time.Duration(0), false
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if s.refused == "" || s.refused != s.noWayBack() {
		if s.Trial.Verdict.Do != "" {
			sooner(s.now.Mono)
		}
		if !s.resting {
			silent, _ := s.silentUntil()
			sooner(silent + s.paused)
			sooner(max(s.spentFrom+s.settings.Deadline.Std()-s.spentBase, s.recheck) + s.paused)
		}
	}
	if s.Trial.Verdict.Do == "" && len(s.lacks()) == 0 {
		sooner(max(s.window+s.settings.Test.Std()+s.paused, s.commitAt))
	}
	return at, ok
}

func (t *step) committed(ev Committed) {
	if !t.commit || ev.Trial != t.Trial.ID || ev.Err == nil { // that it is kept, Slots tells
		return
	}
	t.commitFailed(ev.Err)
}

// commitFailed takes in that a commit was not written, or was not heard of: the trial goes on.
func (t *step) commitFailed(err *wire.Error) {
	t.commit, t.commitAt = false, t.now.Mono+commitRetry
	d := Detail{Slot: t.Trial.Slot, Component: t.Trial.Component, Version: t.Trial.Version}
	t.emit(EventCommitFailed, err, d)
}

// keepSpent is what is saved of the deadline: as it will be after every.
func (t *step) keepSpent(every time.Duration) {
	t.Trial.Spent, t.Trial.Heard = duration.Duration(t.spent()+every), duration.Duration(t.heardSpent)
}
