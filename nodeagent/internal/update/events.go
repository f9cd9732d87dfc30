package update

import (
	"tandem.internal/shared/clock"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
)

// Now is one instant, and what else there is to know at it.
type Now struct {
	clock.Now
	Alone    bool   // nothing else can begin a trial until this step is saved
	Obstacle string // why no trial of this component may begin; empty: nothing is in the way
	NoReboot string // why the node cannot be rebooted; empty: it can, or nobody knows here
	// Unsigned says why no publisher vouches for what is staged, as far as shows without reading it; nil: one does, or
	// nobody demands that.
	Unsigned *wire.Error
}

// Event is something that happened to a component's update.
type Event interface{ event() }

// Started is the first event of every run of the agent.
type Started struct {
	Crashed bool // the run before has ended without a word, or the machine has
	Power   bool // the machine has, perhaps for want of power: that is nobody's fault
	Own     bool // it is the agent's own update: what its slots have without a word here is taken up
}

// Tick says that time has passed, or that the record has been changed by somebody else.
type Tick struct{}

// Look says that somebody may have worked on what the program keeps: it is asked again.
type Look struct{}

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
	OrderApprove  What = "approve"
	OrderCommit   What = "commit"
	OrderRollback What = "rollback"
	OrderClear    What = "clear" // the quarantine
)

// Order is what somebody asks for, at the node or through the controller. It is answered with Answer.
type Order struct {
	What    What
	By      string
	Version string // stage; try: what must be staged, or empty; clear: which one, or empty: all
	Hash    string // stage: of the file, which was written and verified as that of update Number+1
	Size    int64
	// Signature is a publisher's, of the file. Only for stage.
	Signature string
	Detail    string // rollback: why
	Force     bool   // stage, try: also what is in quarantine
}

// Verdict is what health decides about the trial of that name.
type Verdict struct {
	Number uint64
	Commit bool
	Why    Why // not Commit
}

// Reported says that the end of this update is in the queue of events.
type Reported struct{ Number uint64 }

// Dropped says that the newest Step could not be saved, and is not in force. What it began was not begun;
// if it was for Ended, the verb has ended all the same.
type Dropped struct{ Ended bool }

func (Started) event()  {}
func (Tick) event()     {}
func (Look) event()     {}
func (Ended) event()    {}
func (Order) event()    {}
func (Verdict) event()  {}
func (Reported) event() {}
func (Dropped) event()  {}

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

// Restart asks for a restart of the agent or the node.
type Restart struct {
	Of  Restarts
	Why Why
}

// Emit asks for an event to be kept and sent; then, if it has a Number, for Reported.
type Emit struct {
	Number  uint64
	Type    string
	Version string
	Text    string
}

// Answer is the answer to an Order.
type Answer struct{ Err *wire.Error }

func (Run) effect()     {}
func (Cancel) effect()  {}
func (Check) effect()   {}
func (Restart) effect() {}
func (Emit) effect()    {}
func (Answer) effect()  {}

// The types of events. Of what was on trial, health tells.
const (
	EventStaged  = event.ComponentStaged  // a version is installed, and may be tried
	EventRefused = event.ComponentRefused // it was to be tried and is not, and why
	EventEnded   = event.ComponentEnded   // an update ended before its trial, and why
)
