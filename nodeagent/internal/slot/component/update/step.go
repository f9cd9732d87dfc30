package update

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/shared/wire"
)

// Now is one instant, and what else there is to know at it.
type Now struct {
	Mono     time.Duration // since the agent started; never jumps
	Wall     time.Time     // is shown
	Alone    bool          // nothing else can begin a trial until this step is saved
	Obstacle string        // why no trial of this component may begin; empty: nothing is in the way
	NoReboot string        // why the node cannot be rebooted; empty: it can, or nobody knows here
}

// Event is something that happened to a component's update.
type Event interface{ event() }

// Started is the first event of every run of the agent.
type Started struct{ Crashed bool } // the run before has ended without a word, or the machine has

// Tick says that time has passed, or that the record has been changed by somebody else.
type Tick struct{}

// Fault is what became of a verb that did not succeed.
type Fault string

// The faults.
const (
	Later  Fault = "later"  // not now
	Killed Fault = "killed" // it did not end in time
	Failed Fault = "failed" // and will again
)

// Ended answers Run.
type Ended struct {
	Verb   Verb
	Status Status // if there is no fault
	Fault  Fault  // "": it succeeded
	Text   string // of the fault
}

// What is what somebody asks for.
type What string

// The orders.
const (
	OrderStage    What = "stage"
	OrderTry      What = "try"
	OrderCommit   What = "commit"
	OrderRollback What = "rollback"
)

// Order is what somebody asks for, at the node or through the controller. It is answered with Answer.
type Order struct {
	What    What
	By      string
	Version string // stage; try: what must be staged, or empty
	Hash    string // stage: of the file, which was written and verified as that of update Number+1
	Size    int64
	Detail  string // rollback: why
}

// Verdict is what health decides about the trial of that name.
type Verdict struct {
	Number uint64
	Commit bool
	Why    Why // not Commit
}

// Told says that the controller will be told of the end of this update.
type Told struct{ Number uint64 }

// Dropped says that the newest Step could not be saved, and is not in force. What it began was not begun;
// if it was for Ended, the verb has ended all the same.
type Dropped struct{ Ended bool }

func (Started) event() {}
func (Tick) event()    {}
func (Ended) event()   {}
func (Order) event()   {}
func (Verdict) event() {}
func (Told) event()    {}
func (Dropped) event() {}

// Effect is something that the shell must do, after the Record is saved if it has changed.
type Effect interface{ effect() }

// Run asks to run a verb for the update as it is recorded now, and for Ended. Before Install, the file's
// size and hash are verified.
type Run struct{ Verb Verb }

// Cancel asks to end what is under way. Ended comes all the same.
type Cancel struct{}

// Check tells health how the component is; Gone, that there is nothing to tell any more.
type Check struct {
	OK      bool
	Message string
	Gone    bool
}

// Reboot asks for a reboot of the node.
type Reboot struct{ Why Why }

// Emit asks for an event to be kept and sent; then, if it has a Number, for Told.
type Emit struct {
	Number  uint64
	Type    string
	Version string
	Text    string
}

// Answer is the answer to an Order.
type Answer struct{ Err *wire.Error }

func (Run) effect()    {}
func (Cancel) effect() {}
func (Check) effect()  {}
func (Reboot) effect() {}
func (Emit) effect()   {}
func (Answer) effect() {}

// The types of events. Of what was on trial, health tells.
const (
	EventStaged  = "component-staged"  // a version is installed, and may be tried
	EventRefused = "component-refused" // it was to be tried and is not, and why
	EventEnded   = "component-ended"   // an update ended before its trial, and why
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
	case Told:
		t.Told = max(t.Told, ev.Number)
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
	t.started, t.shown, t.at = true, false, t.now.Mono
	if ev.Crashed && t.Phase == Trying {
		if t.Crashes++; t.Crashes > maxCrashes {
			t.giveUp(fmt.Sprintf("the node has crashed %d times on trial", t.Crashes))
		}
	}
}

// drive begins what is due, and tells of it.
func (t *step) drive() {
	if l := t.Last; l.Number > t.Told && t.telling != l.Number {
		t.telling = l.Number
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
		t.say("version " + t.Version + " was given up, and runs until the node is rebooted")
	default:
		t.say("")
	}
}

// try begins the trial, or says why it does not.
func (t *step) try() {
	if why := t.obstacle(); why != "" {
		t.Try, t.Note = "", clip("not tried: "+why)
		t.do(Emit{Type: EventRefused, Version: t.Version, Text: plain(why)})
		return
	}
	t.enter(Activating)
}

// obstacle says why the trial cannot begin, or "".
func (t *step) obstacle() string {
	if t.now.Obstacle == "" && t.Has.Reboot && t.now.NoReboot != "" {
		return "it takes a reboot of the node, and " + t.now.NoReboot
	}
	return t.now.Obstacle
}

// run begins the verb that is due, if it has not been begun too often.
func (t *step) run() {
	verb := t.Due()
	if verb != Verify && verb != Rollback && t.Phase != None && t.Phase != Staged && t.Phase != Leaving {
		if t.Runs >= maxRuns {
			t.giveUp(fmt.Sprintf("%s did not succeed in %d attempts%s", verb, t.Runs, colon(t.Note)))
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
	t.Has, t.Note, t.fails, t.shown = ev.Status.bounded(), "", 0, true
	inForce := t.Has.Active == t.Version && t.Has.Trying == "" && t.Has.Staged != t.Version
	switch t.Phase {
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
		case !t.Has.Reboot:
			t.enter(Trying)
		case t.now.NoReboot != "":
			t.giveUp("it takes a reboot of the node, and " + t.now.NoReboot)
		default:
			t.enter(Rebooting)
			t.reboot(Why{wire.BootUpdate, "to try version " + t.Version})
		}
	case Rebooting:
		switch {
		case !t.Has.Reboot:
			t.enter(Trying)
		case t.Reboots >= maxReboots:
			t.giveUp(fmt.Sprintf("it waits for a reboot still, after %d were ordered", t.Reboots))
		default:
			t.Runs = 0
			t.reboot(Why{wire.BootUpdate, "to try version " + t.Version})
		}
	case Trying:
		t.at = t.now.Mono + verifyPause
		t.say("ok")
	case Committing:
		t.finish(true, Why{})
	case RollingBack:
		switch {
		case t.Version != "" && t.Has.Active == t.Version && t.Version != t.Previous: // a commit had come through
			t.finish(true, Why{Detail: "it was in force already when it was to be rolled back"})
		case t.Has.Reboot:
			t.over(false, t.Why)
			t.enter(Leaving)
			t.reboot(t.Why)
		default:
			t.finish(false, t.Why)
		}
	case Leaving:
		switch {
		case !t.Has.Reboot:
			t.clear()
		case t.Reboots < maxReboots:
			t.reboot(t.Why)
		default:
			t.at = t.now.Mono + longPause
		}
	}
}

// failed takes in that a verb did not succeed.
func (t *step) failed(ev Ended) {
	t.fails++
	t.at = t.now.Mono + min(firstPause<<min(t.fails-1, 8), longPause)
	t.Note = clip(ev.Text)
	final := ev.Fault == Failed || ev.Fault == Killed && t.Runs >= maxKilled
	switch t.Phase {
	case None, Staged, Leaving: // nobody knows what there is; it is asked again
	case Trying:
		t.at = t.now.Mono + verifyPause
		t.say(t.Note)
		if ev.Fault == Failed {
			t.giveUp(t.Note)
		} else {
			t.Note = "" // which health tells
		}
	case RollingBack:
		t.say("it cannot be rolled back: " + t.Note)
	default:
		if final {
			t.giveUp(t.Note)
		}
	}
}

// verdict obeys health.
func (t *step) verdict(ev Verdict) {
	switch {
	case t.Phase != Trying || ev.Number != t.Number:
	case ev.Commit:
		t.enter(Committing)
	default:
		t.Why = Why{ev.Why.Reason, clip(ev.Why.Detail)}
		t.enter(RollingBack)
	}
}

func (t *step) giveUp(why string) {
	t.Why = Why{wire.BootFallback, clip("version " + t.Version + ": " + why)}
	t.enter(RollingBack)
}

// enter begins a phase: its verb is due at once.
func (t *step) enter(p Phase) {
	t.Phase, t.Runs, t.Reboots, t.fails, t.at = p, 0, 0, 0, t.now.Mono
	t.Note = ""
	if p == Trying {
		t.Tried, t.Crashes = true, 0
	}
	if p != Staged && p != Installing {
		t.Try = ""
	}
}

// reboot asks for one; before the next look there is time for it.
func (t *step) reboot(why Why) {
	t.Reboots++
	t.at = t.now.Mono + longPause
	t.do(Reboot{why})
}

// finish ends the update.
func (t *step) finish(committed bool, why Why) {
	t.over(committed, why)
	t.clear()
}

// over writes down how the update ended.
func (t *step) over(committed bool, why Why) {
	t.Before = t.Last
	t.Last = Outcome{Number: t.Number, Version: t.Version, Committed: committed, Tried: t.Tried, Why: why, At: t.now.Wall.UTC().Truncate(time.Second)}
	if t.Tried { // health tells
		t.Told = t.Number
	}
}

func (t *step) clear() {
	t.enter(None)
	t.Version, t.Hash, t.Size, t.Previous, t.Tried, t.Crashes, t.Why = "", "", 0, "", false, 0, Why{}
}

// order does what somebody asks for, or says why not.
func (t *step) order(ev Order) *wire.Error {
	refuse := func(format string, a ...any) *wire.Error {
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf(format, a...))
	}
	if t.Off {
		return wire.New(wire.CodeNotFound, "/component", "the agent's settings do not name this component any more: --component")
	}
	p := t.Phase
	switch ev.What {
	case OrderStage:
		if p != None && p != Installing && p != Staged {
			return refuse("version %s is under way: %s", t.Version, t.Component("").Text)
		}
		t.clear()
		t.Number++
		t.Version, t.Hash, t.Size, t.Previous = ev.Version, ev.Hash, ev.Size, t.Has.Active
		t.enter(Installing)
	case OrderTry:
		switch {
		case p != Installing && p != Staged && p != None:
			return refuse("version %s is under way already: %s", t.Version, t.Component("").Text)
		case p == None, ev.Version != "" && ev.Version != t.Version:
			return wire.New(wire.CodeNotFound, "/version", "no such version of the component is staged: stage one first, at the node")
		}
		if why := t.obstacle(); why != "" {
			return refuse("%s", why)
		}
		t.Try = ev.By
	case OrderCommit:
		if p == Committing {
			return nil
		}
		if p != Trying {
			return wire.New(wire.CodeNotFound, "", "no version of the component is on trial")
		}
		t.enter(Committing)
	case OrderRollback:
		switch p {
		case RollingBack, Leaving:
			return nil
		case Committing:
			return refuse("the trial is over: version %s is being committed", t.Version)
		case None:
			return wire.New(wire.CodeNotFound, "", "no version of the component is staged or on trial")
		}
		t.giveUp("by " + strings.TrimSuffix(ev.By+": "+ev.Detail, ": "))
	default:
		panic("update: no such order: " + string(ev.What))
	}
	return nil
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

// clip bounds a text.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// bounded bounds what a program says.
func (s Status) bounded() Status {
	for _, v := range []*string{&s.Active, &s.Trying, &s.Staged, &s.Running, &s.Message} {
		*v = plain(*v)
	}
	return s
}
