package supervise

import (
	"time"

	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Event is something that a slot is told.
type Event interface{ event() }

// Started is the first event of each run of the agent.
type Started struct{}

// Want says what the slot is to run; nil: nothing.
type Want struct {
	Config  *workload.Config
	Stopped bool // it is prepared, and not run until an operator has it started
}

// Fetched says that every resource of the configuration in a directory is on the node, verified.
type Fetched struct{ Dir string }

// Linked answers LinkUp.
type Linked struct {
	Dir string
	Err *wire.Error
}

// Running says that a run is there, and for how long its process has been up: the window of a new
// configuration is over when that has been up for so long, whoever looked at it meanwhile.
type Running struct {
	Run string
	Up  time.Duration // 0 also where nobody knows
}

// Ended says that a run has ended, and everything that it started with it.
type Ended struct {
	Run  string
	Exit wire.WorkloadExit
}

// Removed answers Delete.
type Removed struct {
	Dir string
	Err *wire.Error
}

// Restart is the order to start the process anew. It also has tried again what was refused.
type Restart struct{}

// Met says which of Needs are met, and which Contained can be made; the others are not, any more or yet.
type Met struct {
	Needs []workload.Need
	Able  []string
}

// Tick says that the time of NextDeadline has come.
type Tick struct{}

func (Started) event() {}
func (Want) event()    {}
func (Fetched) event() {}
func (Linked) event()  {}
func (Running) event() {}
func (Ended) event()   {}
func (Removed) event() {}
func (Restart) event() {}
func (Met) event()     {}
func (Tick) event()    {}

// Effect is something that the shell must do.
type Effect interface{ effect() }

// Save comes first: nothing else may be done before Durable is on the disk.
type Save struct{}

// LinkUp asks to make the directory of a configuration whose resources are all there, or to change its
// links to those of the configuration, each at once; and for Linked.
type LinkUp struct {
	Dir    string
	Config workload.Config
}

// Run asks to run a hook in a directory, once for its ID, and for Ended.
type Run struct {
	ID     string
	Hook   string
	Dir    string
	Config workload.Config
	Max    time.Duration // then it is killed; 0: never
	Of     string        // the run of the process that a hook is about; "": none
}

// Stop asks to end a run: SIGTERM, and SIGKILL after Grace. Ended says when it has.
type Stop struct {
	ID    string
	Grace time.Duration // 0: SIGKILL at once
}

// Forget says that nobody asks for a run again.
type Forget struct{ ID string }

// Delete asks to remove a directory, and for Removed.
type Delete struct{ Dir string }

// Emit asks for an event of the node.
type Emit struct {
	Type   string
	Err    *wire.Error
	Detail Detail
}

// Detail is what an event about a slot tells.
type Detail = event.WorkloadDetail

// The types of events.
const (
	EventExit      = event.WorkloadExit      // a process ended that was to stay, or a job failed
	EventUnhealthy = event.WorkloadUnhealthy // a process is started anew, for its status hook found it bad too often
	EventCompleted = event.WorkloadCompleted // a job has succeeded
	EventStayed    = event.WorkloadInstalled // a new configuration is in force, and the one before is given up
	EventBack      = event.WorkloadBack      // a new configuration did not stay up, and the one before is back
	EventRefused   = event.WorkloadRefused   // a configuration cannot be taken into force
	EventDamaged   = event.WorkloadDamaged   // a resource of what is in force is damaged, and cannot be fetched again
	EventUndone    = event.WorkloadUndone    // an uninstall hook failed and is given up
)

// Report says that what Report returns has changed.
type Report struct{}

func (Save) effect()   {}
func (LinkUp) effect() {}
func (Run) effect()    {}
func (Stop) effect()   {}
func (Forget) effect() {}
func (Delete) effect() {}
func (Emit) effect()   {}
func (Report) effect() {}
