// Package workloads runs the slots of a node (seed 004): it gives each slot's state machine (package
// supervise) what happened, and does what it asks for, with the store of resources, the keeper of
// processes, the control groups, and the directories of the slots, which it owns.
//
// It guarantees: nothing is done before what it depends on is saved; the effects of one slot are done
// one after the other, those of different slots beside each other; a run that the keeper knows is taken
// over and not started anew; one that nothing refers to is stopped; what a crash has left of directories
// is removed. It must not decide anything about a slot.
//
// A reader's way: this file, turn.go, effects.go, runs.go; then dirs.go, logs.go and report.go.
package workloads

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/pulse"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Keeper is what runs processes; see keep.Client. Its methods are for any goroutine.
type Keeper interface {
	Get(ctx context.Context, id string) (keep.Status, error)
	Start(ctx context.Context, run keep.Run) (keep.Status, error)
	Stop(ctx context.Context, id string, grace time.Duration) (keep.Status, error)
	Forget(ctx context.Context, id string) error
	// Clear removes a directory with all that is in it, also what users of slots have made there.
	Clear(ctx context.Context, dir string) error
	Follow(ctx context.Context, each func(keep.Status)) error
}

// Resource is how it is with an artifact.
type Resource struct {
	State      string // waiting, fetching, verifying, unpacking or failed; "": it is there, at Path
	Path       string
	Done, Size int64 // bytes
	Err        *wire.Error
	Next       time.Time // of the next attempt; zero: no time is set
	// Unsigned says why nothing of a configuration that has the artifact may be started: it is not known to be the file
	// that a publisher has signed. Nil: it is, or nobody demands that.
	Unsigned *wire.Error
}

// Resources has the resources of workloads; see layers.Store. Look and Use are for any goroutine, and so is Outdated.
type Resources interface {
	Want(all []workload.Artifact)
	Retry(all []workload.Artifact) // what failed is not waited for any longer
	Look(a workload.Artifact) Resource
	// Use sees to it that the trees of those that are unpacked are as they were made, and keeps them for a run that is
	// to be started, until Free. It returns where the resources are, by name, but for those that are not on the node.
	Use(ctx context.Context, run string, all map[string]workload.Artifact) (paths map[string]string, err error)
	Free(run string)
	// Used says before the first Want that a run of before the agent was started has Used them.
	Used(run string, all map[string]workload.Artifact)
	// Outdated is the directory of a damaged tree that a run has; "": it has none.
	Outdated(run string) string
	Updates() <-chan struct{}
}

// Groups has the control groups of workloads; see cgroup.Tree. Its methods are for any goroutine.
type Groups interface {
	// Enter makes a group with these constraints, and in it one for a run, and returns the directories of that.
	Enter(group, run string, constraints map[string]string) (dirs []string, err error)
	// Leave removes a group; one with processes is an error. That it is not there is no error.
	Leave(group string) error
	// Usage is what a group and the process of it use, as far as the node tells.
	Usage(group string, pid int) wire.WorkloadProcess
}

// Store keeps the states of the slots, by service.
type Store interface {
	Workloads() (map[string]supervise.Durable, error)
	SaveWorkloads(map[string]*supervise.Durable) error
}

// Config is what a Manager needs.
type Config struct {
	Dir       string // absolute; the directories and logs of the slots are made in it
	Rules     supervise.Rules
	LogBytes  int64                                     // of one file of a slot's log
	LogFiles  int                                       // that are kept
	Confine   keep.Confine                              // of all hooks, beside their own directory and resources
	Keeper    func(ctx context.Context) (Keeper, error) // called when something is to be run
	Kept      func() bool                               // a keeper may have runs of an earlier agent
	Resources Resources
	// Containers make the runs of configurations that are containers; nil: this node makes none.
	Containers Containers
	// Signed says that publishers' signatures are demanded: what has one that has expired is not put in force, and of a
	// container nothing is changed that its signed configuration does not leave to others.
	Signed bool
	Groups Groups
	Store  Store
	Now    func() time.Time
	Log    *zap.Logger
	// Emit and Report are called by Run's goroutine, and must not wait for it. Report comes with every
	// change, but with the progress of downloads only so often.
	Emit   func(kind string, err *wire.Error, detail supervise.Detail)
	Report func(wire.Workloads)
	Watch  pulse.Watch // is told that Run goes round; nil: nobody
}

const (
	idle         = time.Hour        // without anything to do
	saveAgain    = time.Second      // after a save that failed
	keeperAgain  = time.Second      // after the keeper could not be spoken with
	keeperMissed = 10               // times in a row, after which it is told
	tidyAgain    = 10 * time.Second // after leftovers could not be removed
	progressEach = 2 * time.Second  // between reports of progress
	atOnce       = 16               // things that are done beside each other
)

// Manager runs the slots of a node. Make it with New; it works while Run does.
type Manager struct {
	cfg   Config
	began time.Time
	calls chan func()
	ended chan struct{} // closed when Run ends
	room  chan struct{} // a token for each thing that is being done
	names sync.Map      // services of the slots
	paths sync.Map      // where the output of runs is, by ID: output
	need  chan struct{} // closed when the keeper is to be followed
	work  context.Context

	// The rest is Run's goroutine's.
	workers  sync.WaitGroup
	slots    map[string]*slot
	saveAt   time.Duration // 0: nothing waits to be saved
	asks     bool          // the resources are to be told which of them are needed
	asked    []workload.Artifact
	changed  bool // the report is to be made anew
	reported *wire.Workloads
	progress bool                  // the report is to be made anew when it is time
	reportAt time.Duration         // then
	overdues int                   // slots in force by signatures that have expired, as it was reported
	loose    map[string]keep.State // of runs that are being stopped or forgotten: nothing waits for them any more
	stale    map[string]bool       // services of which an earlier slot's directories are not removed yet
	needed   bool                  // need is closed
	missing  *wire.Error           // why the keeper has been away for a while
}

// slot is one slot of the node.
type slot struct {
	service string
	state   supervise.State
	saved   supervise.State    // before the events below
	events  []supervise.Event  // that are not saved
	effects []supervise.Effect // of them
	dirty   bool               // they have changed what is saved
	queue   []supervise.Effect // to be done; the first one is being done if busy
	busy    bool
	damaged []string // resources of what is in force that could not be fetched again
	// how far the process of that run is confined
	confined    confine.Level
	confinedRun string
}

// New makes a manager. Nothing happens before Run.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, calls: make(chan func(), 64), ended: make(chan struct{}),
		room: make(chan struct{}, atOnce), need: make(chan struct{}),
		slots: map[string]*slot{}, loose: map[string]keep.State{}, stale: map[string]bool{}}
}

// Want says what the node is to run from now on: all of it, at every call.
func (m *Manager) Want(configs []workload.Config) {
	configs = ordered(configs)
	m.call(func() {
		wanted, stopped := map[string]*workload.Config{}, map[string]bool{}
		for _, c := range configs {
			stopped[c.Slot.Service], c.Stopped = c.Stopped, false
			wanted[c.Slot.Service] = &c
		}
		for service := range wanted {
			if m.slots[service] == nil {
				m.add(supervise.Durable{Slot: wanted[service].Slot, Born: born()})
			}
		}
		for service, s := range m.slots {
			m.tell(s, supervise.Want{Config: wanted[service], Stopped: stopped[service]})
		}
		m.asks = true
	})
}

// born returns what tells a slot from an earlier one of its name.
func born() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Restart has a slot's process started anew, and what it needs fetched at once.
func (m *Manager) Restart(service string) *wire.Error {
	answer := make(chan *wire.Error, 1)
	m.call(func() {
		s := m.slots[service]
		if s == nil || s.state.Wanted == nil {
			answer <- wire.New(wire.CodeNotFound, "/service", fmt.Sprintf("this node has no slot %.64q", service))
			return
		}
		if s.state.Stopped {
			answer <- wire.New(wire.CodeWrongState, "/service", fmt.Sprintf("an operator has stopped %.64q; to have "+
				"it run again: tandem workload start", service))
			return
		}
		m.tell(s, supervise.Restart{})
		m.cfg.Resources.Retry(needs(s))
		answer <- nil
	})
	select {
	case err := <-answer:
		return err
	case <-m.ended:
		return wire.New(wire.CodeUnavailable, "", "the agent is stopping")
	}
}

// call has f called by Run's goroutine, unless Run ends.
func (m *Manager) call(f func()) {
	select {
	case m.calls <- f:
	case <-m.ended:
	}
}

// paths of a slot.
func (m *Manager) dir(service, dir string) string {
	return filepath.Join(m.cfg.Dir, "slots", service, dir)
}

func (m *Manager) logPath(service string) string {
	return filepath.Join(m.cfg.Dir, "logs", service, "process")
}

// hookLog is the log of one hook of a slot: those of all its configurations write there, so that it outlives one that
// was refused.
func (m *Manager) hookLog(service, hook string) string {
	if hook == workload.HookStart {
		return m.logPath(service)
	}
	return filepath.Join(m.cfg.Dir, "logs", service, hook)
}
