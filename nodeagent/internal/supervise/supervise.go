// Package supervise decides what becomes of one slot of a node (seed 004): when its resources are
// fetched, its hooks run and its process is started, stopped and started again; how a new
// configuration takes the place of an old one; and when the old one comes back.
//
// The package is pure. A State is a value; Step takes it from one event to the next and says, as
// effects, what the shell must do. Time comes in with each step. An effect may be asked for again
// after a restart of the agent, so the shell's deeds are idempotent: a run is started once for its ID.
//
// It guarantees: the process of what is in force is stopped only when all that takes its place has
// been fetched, installed and validated; no two runs of a slot's process are asked for at a time; a job
// that has succeeded is not run again until its configuration changes; and what an effect depends on
// is saved before it. It must not know how processes are kept or resources fetched.
//
//tandem:pure
package supervise

import (
	"reflect"
	"slices"
	"time"

	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Rules are the times that the node decides.
type Rules struct {
	Window time.Duration // a new instance has to stay up for so long, or the old one comes back
	Grace  time.Duration // from SIGTERM to SIGKILL
	Status time.Duration // between two runs of iss_hook_status
	Reopen time.Duration // between two runs of iss_hook_reopenlogs
}

// Phase is how far the preparation of a configuration has come.
type Phase string

// The phases, in their order. A phase whose hook the configuration does not have is passed by.
const (
	Fetch    Phase = "fetch"
	Link     Phase = "link" // the instance's directory is made
	Install  Phase = "install"
	Validate Phase = "validate"
	Ready    Phase = "ready"
)

// DoingNeeds is what a slot does while it waits for others.
const DoingNeeds = "needs"

// Why says what follows when a process has been stopped.
type Why string

// The reasons of a stop. The zero Why: nobody stops it.
const (
	Replace Why = "replace" // Next takes its place
	Again   Why = "again"   // it is started anew
	Anew    Why = "anew"    // likewise, as what it needs is there: it was not wanted for a while
	Remove  Why = "remove"  // the slot is no longer wanted
	Back    Why = "back"    // it did not stay up: what was there before comes back
	Halt    Why = "halt"    // an operator has stopped it: it is not started until somebody has it started
	// its status hook found it bad too often: it is started anew, after its pause
	Unhealthy Why = "unhealthy"
)

// Task is a hook beside the process: one that runs, or is to be run again.
type Task struct {
	Hook string        `json:"hook"`
	Run  string        `json:"run,omitempty"` // under way; "": it waits
	Of   string        `json:"of,omitempty"`  // the process that it is about
	Same int           `json:"same,omitzero"` // attempts in a row with the same exit code, but for the first
	Code int           `json:"code,omitzero"` // of the newest attempt
	Ends int           `json:"ends,omitzero"` // attempts
	at   time.Duration // the next attempt; monotonic
}

// Place is one configuration on the node, with its directory and what runs of it.
type Place struct {
	Config    workload.Config `json:"config"`
	Dir       string          `json:"dir"` // a name; unique in the slot
	Phase     Phase           `json:"phase"`
	Installed bool            `json:"installed,omitzero"` // its install hook was begun: what it did is to be undone
	Undone    bool            `json:"undone,omitzero"`    // and was, or could not be
	Task      *Task           `json:"task,omitempty"`
	Error     *wire.Error     `json:"error,omitempty"` // of the newest attempt of what it waits for

	Run         string `json:"run,omitempty"`      // of its process; "": there is none
	Stopping    Why    `json:"stopping,omitempty"` // its process is to end
	Signalled   bool   `json:"told,omitzero"`      // its process was told to end, after the stop hook
	Notify      bool   `json:"notify,omitzero"`    // the process is to be told of new dynamic resources
	NotifyAgain *Task  `json:"aside,omitempty"`    // the notify hook that failed and is to be run again
	Loose       bool   `json:"loose,omitzero"`     // its links may be those of another configuration
	Done        bool   `json:"done,omitzero"`      // a job has succeeded
	Restarts    uint64 `json:"restarts,omitzero"`
	Unhealthy   int    `json:"unhealthy,omitzero"` // stops in a row for the status hook
	// restarts in a row after the same exit code, but for the first; -1: whatever comes next is the first
	Same int                `json:"same,omitzero"`
	Exit *wire.WorkloadExit `json:"exit,omitempty"`
}

// Refused is what is wanted, if it is not tried again until it changes or somebody asks for it.
type Refused struct {
	Key   string      `json:"key"` // of the configuration, see key
	ID    string      `json:"id"`
	Error *wire.Error `json:"error"`
}

// Durable is the part of a State that survives a restart. The shell saves all of it at once. Fields
// are only ever added.
type Durable struct {
	Slot workload.Slot `json:"slot"`
	// told by the shell: makes run IDs differ from those of an earlier slot of this name
	Born    string             `json:"born"`
	Wanted  *workload.Config   `json:"wanted,omitempty"` // nil: the slot is to be emptied
	Stopped bool               `json:"stopped,omitzero"` // an operator has stopped what is wanted
	Main    *Place             `json:"main,omitempty"`   // in force
	Next    *Place             `json:"next,omitempty"`   // to take Main's place
	Before  *Place             `json:"before,omitempty"` // what Main replaced, until Main has stayed up
	Gone    []*Place           `json:"gone,omitempty"`   // to be uninstalled
	Refused *Refused           `json:"refused,omitempty"`
	Runs    uint64             `json:"runs,omitzero"` // that were ever asked for: numbers them
	Dirs    uint64             `json:"dirs,omitzero"` // likewise
	State   wire.WorkloadState `json:"state,omitempty"`
	Since   time.Time          `json:"since,omitzero"` // of State; of WorkloadRunning: of the process that runs
}

// State is all there is to know about a slot. Make it with New.
type State struct {
	Durable

	rules   Rules
	now     clock.Now
	started bool
	issued  []string // effects that were asked for in this run of the agent and wait for their event

	at       time.Duration // the process is started again
	next     time.Time     // the same, as it is shown
	watched  string        // the run that the times below are of
	up       string        // the same, when it is known to be there
	passed   time.Duration // the window has; never, if it is not
	statusAt time.Duration
	reopenAt time.Duration
	bad      int // failures of the status hook in a row
	met      []workload.Need
	able     []string // directories of what is Contained, and can be made
}

// New takes up what was saved of a slot; of a new one, only Slot is there.
func New(saved Durable, rules Rules) State { return State{Durable: saved, rules: rules} }

// Empty reports whether nothing is left of the slot, and nothing is wanted.
func (s State) Empty() bool {
	return s.Wanted == nil && s.Main == nil && s.Next == nil && s.Before == nil && len(s.Gone) == 0
}

// Places are all configurations that have something on the node, or will.
func (s State) Places() []*Place {
	var all []*Place
	for _, p := range append([]*Place{s.Main, s.Next, s.Before}, s.Gone...) {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// RunIDs are the IDs of all runs that the state knows of.
func (s State) RunIDs() []string {
	var ids []string
	for _, p := range s.Places() {
		if p.Run != "" {
			ids = append(ids, p.Run)
		}
		if p.Task != nil && p.Task.Run != "" {
			ids = append(ids, p.Task.Run)
		}
	}
	return ids
}

func (p *Place) clone() *Place {
	if p == nil {
		return nil
	}
	c := *p
	if p.Task != nil {
		task := *p.Task
		c.Task = &task
	}
	if p.NotifyAgain != nil {
		task := *p.NotifyAgain
		c.NotifyAgain = &task
	}
	return &c
}

func (d Durable) clone() Durable {
	d.Main, d.Next, d.Before = d.Main.clone(), d.Next.clone(), d.Before.clone()
	d.Gone = slices.Clone(d.Gone)
	for i, p := range d.Gone {
		d.Gone[i] = p.clone()
	}
	return d
}

// equal compares what is saved.
func (d Durable) equal(o Durable) bool {
	return reflect.DeepEqual(d.timeless(), o.timeless())
}

func (d Durable) timeless() Durable {
	d = d.clone()
	for _, p := range (State{Durable: d}).Places() {
		if p.Task != nil {
			p.Task.at = 0
		}
		if p.NotifyAgain != nil {
			p.NotifyAgain.at = 0
		}
	}
	return d
}
