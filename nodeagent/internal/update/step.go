package update

import (
	"fmt"
	"time"

	"tandem.internal/nodeagent/internal/boot"
	"tandem.internal/shared/wire"
)

// step is one Step on its way.
type step struct {
	State
	now     Now
	effects []Effect
}

// Step takes s over one event. It panics if Started is not the first event, but for an Order, and but
// for a Started that was Dropped.
func (s State) Step(now Now, ev Event) (State, []Effect) {
	t := &step{State: s, now: now}
	switch ev.(type) {
	case Started, Order, Dropped:
	default:
		if !s.started {
			panic(fmt.Sprintf("update: %T comes first", ev))
		}
	}
	switch ev := ev.(type) {
	case Started:
		t.begin(ev)
	case Ended:
		t.ended(ev)
	case Order:
		t.do(Answer{t.order(ev)})
	case Verdict:
		t.verdict(ev)
	case Look:
		t.shown, t.at = false, t.now.Mono
	case Reported:
		t.Reported = max(t.Reported, ev.Number)
	case Dropped:
		if t.at = now.Mono + firstPause; ev.Ended {
			t.running = ""
		}
		return t.State, nil
	}
	if t.started {
		t.drive()
	}
	return t.State, t.effects
}

func (t *step) begin(ev Started) {
	t.started, t.own, t.shown, t.at = true, ev.Own, false, t.now.Mono
	if ev.Crashed && t.Phase == Trying && !t.own { // the launcher counts the starts of the agent's own
		if t.Crashes++; t.Crashes > maxCrashes {
			t.giveUp(!ev.Power, fmt.Sprintf("the node has crashed %d times on trial", t.Crashes))
		}
	}
}

// drive begins what is due, and tells of it.
func (t *step) drive() {
	if l := t.Last; l.Number > t.Reported && t.reporting != l.Number {
		t.reporting = l.Number
		t.do(Emit{Number: l.Number, Type: EventEnded, Version: l.Version, Text: plain(l.Why.Detail)})
	}
	if t.Off {
		t.say("")
		return
	}
	if t.Waits() && t.now.Alone && t.now.Mono >= t.at {
		t.try()
	}
	switch {
	case t.running != "":
		if t.stale() && !t.cancelled {
			t.cancelled = true
			t.do(Cancel{})
		}
	case t.Due() != "" && t.now.Mono >= t.at:
		t.run()
	}
	switch t.Phase {
	case Trying, Committing, RollingBack:
	case Leaving:
		if t.own && t.Reboots < maxRestarts { // which takes half a minute
			t.say("")
			return
		}
		t.say("version " + t.Version + " was given up, and runs until the " + t.Has.Restart.done())
	default:
		t.say("")
	}
}

// try begins the trial, or says why it does not.
func (t *step) try() {
	if why := t.obstacle(); why != "" {
		t.Try, t.Note = "", kept("not tried: "+why)
		t.do(Emit{Type: EventRefused, Version: t.Version, Text: plain(why)})
		return
	}
	t.enter(Activating)
}

// obstacle says why the trial cannot begin, or "".
func (t *step) obstacle() string {
	switch {
	case t.now.Obstacle != "":
		return t.now.Obstacle
	case t.now.Unsigned != nil:
		return t.now.Unsigned.Error()
	case t.Has.Restart == Node && t.now.NoReboot != "":
		return "it takes a reboot of the node, and " + t.now.NoReboot
	}
	return t.Has.NoWayBack
}

// run begins the verb that is due, if it has not been begun too often.
func (t *step) run() {
	verb := t.Due()
	if verb != Verify && verb != Rollback && t.Phase != None && t.Phase != Staged && t.Phase != Leaving {
		if t.Runs >= maxRuns {
			t.giveUp(t.Note == "", fmt.Sprintf("%s did not succeed in %d attempts%s", verb, t.Runs, colon(t.Note)))
			verb = t.Due()
		} else {
			t.Runs++
		}
	}
	t.running, t.runs, t.phase, t.cancelled = verb, t.Number, t.Phase, false
	t.do(Run{verb})
}

// ended takes in how a verb ended. What was begun for another phase tells nothing about this one.
func (t *step) ended(ev Ended) {
	if ev.Verb != t.running {
		return
	}
	stale := t.stale()
	t.running, t.at = "", t.now.Mono
	if stale {
		return
	}
	if ev.Fault != "" {
		t.failed(ev)
		return
	}
	t.Has, t.Note, t.fails, t.shown, t.answered = ev.Status.bounded(), "", 0, true, true
	inForce := t.Has.Active == t.Version && t.Has.Trying == "" && t.Has.Staged != t.Version
	switch t.Phase {
	case None, Staged:
		if t.own {
			t.adopt()
		}
	case Installing:
		if inForce {
			t.finish(true, Why{Detail: "it is in force already"})
			return
		}
		t.enter(Staged)
		t.do(Emit{Type: EventStaged, Version: t.Version})
	case Activating:
		switch {
		case inForce:
			t.finish(true, Why{Detail: "it is in force already"})
		case t.Has.Restart == Nothing:
			t.enter(Trying)
		case t.Has.Restart == Node && t.now.NoReboot != "":
			t.giveUp(false, "it takes a reboot of the node, and "+t.now.NoReboot)
		default:
			t.enter(Restarting)
			t.restart(t.toTry())
		}
	case Restarting:
		switch {
		case t.settled():
		case t.Has.Restart == Nothing:
			t.enter(Trying)
		case t.now.Mono < t.askAt:
			t.at = t.askAt
		case t.Reboots >= maxRestarts:
			t.giveUp(false,
				fmt.Sprintf("it waits for a %s still, after %d were ordered", t.Has.Restart.noun(), t.Reboots))
		default:
			t.Runs = 0
			t.restart(t.toTry())
		}
	case Trying:
		if !t.settled() {
			t.at = t.now.Mono + verifyPause
			t.say("ok")
		}
	case Committing:
		t.finish(true, Why{})
	case RollingBack:
		switch {
		case t.Version != "" && t.Has.Active == t.Version && t.Version != t.Previous: // a commit had come through
			t.finish(true, Why{Detail: "it was in force already when it was to be rolled back"})
		default:
			t.leave(t.Why)
		}
	case Leaving:
		switch {
		case t.Has.Restart == Nothing:
			t.clear()
		case t.now.Mono < t.askAt:
			t.at = t.askAt
		case t.Reboots < maxRestarts:
			t.restart(t.Why)
		default:
			t.at = t.now.Mono + longPause
		}
	}
}

// failed takes in that a verb did not succeed.
func (t *step) failed(ev Ended) {
	t.fails++
	t.at = t.now.Mono + min(firstPause<<min(t.fails-1, 8), longPause)
	t.Note = kept(ev.Text)
	final := ev.Fault == Failed || ev.Fault == Killed && t.Runs >= maxKilled
	switch t.Phase {
	case None, Staged, Leaving: // nobody knows what there is; it is asked again
	case Trying:
		t.at = t.now.Mono + verifyPause
		t.say(t.Note)
		if ev.Fault == Failed {
			t.giveUp(!t.own, t.Note)
		} else {
			t.Note = "" // which health tells
		}
	case RollingBack:
		t.say("it cannot be rolled back: " + t.Note)
	default:
		if final {
			t.giveUp(!t.own, t.Note) // the agent's own verbs find fault with the slots
		}
	}
}

// verdict obeys health. A commit that has not come through in time is rolled back, too: RollingBack sees whether it has
// come through all the same.
func (t *step) verdict(ev Verdict) {
	switch {
	case t.Phase != Trying && t.Phase != Committing || ev.Number != t.Number:
	case ev.Commit:
		if t.Phase == Trying {
			t.enter(Committing)
		}
	default:
		t.Why = Why{ev.Why.Reason, kept(ev.Why.Detail), ev.Why.Failed}
		t.enter(RollingBack)
	}
}

// giveUp takes back what is under way. failed: once it was to run, what it holds is to blame.
func (t *step) giveUp(failed bool, why string) {
	t.Why = Why{wire.BootFallback, kept("version " + t.Version + ": " + why), failed && t.Phase.OnTrial()}
	t.enter(RollingBack)
}

func (t *step) toTry() Why {
	return Why{Reason: wire.BootUpdate, Detail: "to try version " + t.Version}
}

// enter begins a phase: its verb is due at once.
func (t *step) enter(p Phase) {
	t.Phase, t.Runs, t.Reboots, t.fails, t.at, t.askAt = p, 0, 0, 0, t.now.Mono, 0
	t.Note = ""
	if p == Trying {
		t.Tried, t.Crashes = true, 0
	}
	if p != Staged && p != Installing {
		t.Try = ""
	}
}

// restart asks for what it takes to go on; before the next look there is time for it.
func (t *step) restart(why Why) {
	t.Reboots++
	t.at = t.now.Mono + longPause
	t.askAt = t.at
	t.do(Restart{t.Has.Restart, why})
}

// finish ends the update.
func (t *step) finish(committed bool, why Why) {
	t.over(committed, why)
	t.clear()
}

// over writes down how the update ended.
func (t *step) over(committed bool, why Why) {
	t.Before = t.Last
	t.Last = Outcome{Number: t.Number, Version: t.Version, Committed: committed, Tried: t.Tried, Why: why,
		At: t.now.Wall.UTC().Truncate(time.Second)}
	if t.Tried { // health tells
		t.Reported = t.Number
	}
	switch {
	case committed:
		t.release()
	case why.Failed && t.Hash != "":
		t.quarantine()
	}
}

func (t *step) clear() {
	t.enter(None)
	t.Version, t.Hash, t.Size, t.Signature, t.Previous = "", "", 0, "", ""
	t.Tried, t.Crashes, t.Why = false, 0, Why{}
	t.shown = t.shown && !t.own // something else may be staged there
}

// say tells health how the component is, if that is new or may go stale. "": there is nothing to tell.
func (t *step) say(how string) {
	if how == "" && t.check == "" || how == t.check && t.Phase != Trying {
		return
	}
	t.check = how
	switch how {
	case "":
		t.do(Check{Gone: true})
	case "ok":
		t.do(Check{OK: true})
	default:
		t.do(Check{Message: how})
	}
}

func (t *step) do(e Effect) { t.effects = append(t.effects, e) }

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// kept makes a program's words a reason that is kept.
func kept(text string) string { return wire.Plain(text, maxText) }

// bounded bounds what a program says.
func (s Status) bounded() Status {
	for _, v := range []*string{&s.Active, &s.Trying, &s.Staged, &s.Running, &s.Message} {
		*v = plain(*v)
	}
	s.NoWayBack, s.Ended.Detail = plain(s.NoWayBack), kept(s.Ended.Detail)
	if s.Reboot && s.Restart == Nothing {
		s.Restart = Node
	}
	s.Reboot = s.Restart == Node
	if s.Ended.Reason != "" && !boot.Known(s.Ended.Reason) {
		s.Ended.Reason = wire.BootFallback
	}
	return s
}
