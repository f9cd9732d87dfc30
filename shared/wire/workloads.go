package wire

import (
	"fmt"
	"strconv"
	"time"
)

// Workloads is the detail of a reported/workloads envelope: the state of each workload slot of the node (seed 004).
// Times are by the node's clock.
type Workloads struct {
	Slots []WorkloadSlot `json:"slots"`         // by name
	More  int            `json:"more,omitzero"` // number of further slots, for which the report has no room
}

// WorkloadState is the state of a workload slot.
type WorkloadState string

// The states of a slot.
const (
	// its process was not started yet: resources are fetched, install and validate hooks run
	WorkloadPreparing  WorkloadState = "preparing"
	WorkloadRunning    WorkloadState = "running"    // its process runs
	WorkloadRestarting WorkloadState = "restarting" // its process has ended, and is started again at Next
	WorkloadCompleted  WorkloadState = "completed"  // its job has succeeded
	WorkloadFailed     WorkloadState = "failed"     // it cannot be prepared, or does not stay up; Error has the reason
	// it is no longer wanted, or an operator has stopped it; it is being stopped or has stopped
	WorkloadStopped WorkloadState = "stopped"
)

func (s WorkloadState) known() bool {
	switch s {
	case WorkloadPreparing, WorkloadRunning, WorkloadRestarting, WorkloadCompleted, WorkloadFailed, WorkloadStopped:
		return true
	}
	return false
}

// WorkloadSlot is one workload slot of a node.
type WorkloadSlot struct {
	Slot string `json:"slot"`         // service@node
	Job  bool   `json:"job,omitzero"` // it has a job; else an instance
	// configurationId of the configuration that State is about: the one that runs, or the first that is to run
	ID       string        `json:"id"`
	State    WorkloadState `json:"state"`             // of the slot
	Since    time.Time     `json:"since"`             // start of State; if running, start of the process
	Next     time.Time     `json:"next,omitzero"`     // if restarting: time of the next start
	Restarts uint64        `json:"restarts,omitzero"` // number of restarts with this configuration
	Exit     *WorkloadExit `json:"exit,omitempty"`    // the newest end of the process
	// configurationId of the configuration that is to replace ID; absent: none is
	Wanted string `json:"wanted,omitempty"`
	// step in preparing Wanted, or the first configuration: fetch (resources), link, the name of a hook, ready (the
	// process that runs has to end first), or needs (Waits has to be so first)
	Doing string `json:"doing,omitempty"`
	// why the configuration, or Wanted, does not run, or what it lacks while it runs
	Error     *Error             `json:"error,omitempty"`
	Resources []WorkloadResource `json:"resources,omitempty"` // those that are not on the node, by name
	// what its process waits for; absent: nothing. Doing is needs then, unless something else is done
	Waits []WorkloadNeed `json:"waits,omitempty"`
	// how far the newest process is confined: none, basic, files, landlock; absent: not known
	Confined string `json:"confined,omitempty"`
}

// WorkloadNeed is what a slot's process waits for.
type WorkloadNeed struct {
	Slot      string `json:"slot"`      // service@node
	Condition string `json:"condition"` // what that has to be: started, healthy, completed or after
}

// WorkloadExit is how a process ended.
type WorkloadExit struct {
	Code   int       `json:"code"`             // exit code; -1: it ended by a signal, or the code is not known
	Signal string    `json:"signal,omitempty"` // name of the signal that ended it, such as SIGKILL
	OOM    bool      `json:"oom,omitzero"`     // it was killed because its memory ran out
	Late   bool      `json:"late,omitzero"`    // it was killed because maxExecutionTimeMs was over
	Lost   bool      `json:"lost,omitzero"`    // it ended with the keeper or the machine
	Text   string    `json:"text,omitempty"`   // why it could not be started
	Output string    `json:"said,omitempty"`   // the end of its output, if it failed
	At     time.Time `json:"at"`               // by the node's clock
}

// Words says how it ended.
func (e *WorkloadExit) Words() string {
	text := ""
	switch {
	case e.Text != "":
		return "it could not be started: " + e.Text
	case e.OOM:
		text = "killed: it has used up its memory"
	case e.Late:
		text = "killed: its maxExecutionTimeMs was over"
	case e.Lost:
		text = "it ended while nobody looked"
	case e.Signal != "":
		text = "killed by " + e.Signal
	default:
		text = "exit status " + strconv.Itoa(e.Code)
	}
	if e.Output != "" {
		text += ": " + e.Output
	}
	return text
}

// WorkloadResource is the state of a resource that is not on the node: not yet, or it was found damaged.
type WorkloadResource struct {
	Name  string `json:"name"`            // of the resource
	State string `json:"state"`           // waiting, fetching, verifying, unpacking or failed
	Done  int64  `json:"done,omitzero"`   // bytes that are on the node
	Size  int64  `json:"size,omitzero"`   // bytes; 0: not known
	Error *Error `json:"error,omitempty"` // why the newest attempt failed
	// time of the next attempt, if the newest has failed or there is no room; absent: no time is set
	Next time.Time `json:"next,omitzero"`
}

// LogsParams ask for the output of a workload slot's processes. Result: LogsResult.
type LogsParams struct {
	Service string `json:"service"`
	Cursor  string `json:"cursor,omitempty"` // of the previous LogsResult; empty: the last Tail bytes
	Tail    int    `json:"tail,omitzero"`    // bytes, at most MaxLogs
	Hook    string `json:"hook,omitempty"`   // whose output it is, such as iss_hook_install; empty: iss_hook_start
}

// MaxLogs is the most bytes of output in one LogsResult.
const MaxLogs = 32 << 10

// LogsResult is a part of the output of a workload slot's processes.
type LogsResult struct {
	Data    []byte `json:"data,omitempty"`   // base64 on the wire
	Cursor  string `json:"cursor"`           // for the next LogsParams
	Skipped bool   `json:"skipped,omitzero"` // output between the cursor and Data was deleted
	Hook    string `json:"hook,omitempty"`   // the one that was asked for
	// what the slot's process uses; absent: none runs, a cursor was given, or the agent is older
	Process *WorkloadProcess `json:"process,omitempty"`
}

// WorkloadProcess is a slot's process, with all that it has started in its control group. A number that is absent is
// not known to the node.
type WorkloadProcess struct {
	PID       int    `json:"pid"`                // of the main process
	Processes int    `json:"processes,omitzero"` // in the control group
	Memory    uint64 `json:"memory,omitzero"`    // bytes in use now
	CPUMs     uint64 `json:"cpuMs,omitzero"`     // processor time until now, in milliseconds
}

// RestartParams ask the node to restart the process of a workload slot. Result: null, before it happens.
type RestartParams struct {
	Service string `json:"service"`
}

// MaxSlots is the most slots in one report.
const MaxSlots = 1024

func (w *Workloads) check() error {
	if len(w.Slots) > MaxSlots {
		return New(CodeTooLarge, "/slots", "more than "+strconv.Itoa(MaxSlots))
	}
	if w.More < 0 {
		return New(CodeBadValue, "/more", "below 0")
	}
	for i := range w.Slots {
		if err := w.Slots[i].check(); err != nil {
			return within("/slots/"+strconv.Itoa(i), err)
		}
	}
	return nil
}

func (s *WorkloadSlot) check() error {
	if err := first(text("/slot", s.Slot), text("/id", s.ID), instant("/since", s.Since), optional("/next", s.Next),
		plain("/wanted", s.Wanted), plain("/doing", s.Doing), plain("/confined", s.Confined),
		bounded("/error", s.Error)); err != nil {
		return err
	}
	if !s.State.known() {
		return New(CodeBadValue, "/state", "no such state")
	}
	if e := s.Exit; e != nil {
		if err := first(plain("/exit/signal", e.Signal), plain("/exit/text", e.Text), plain("/exit/said", e.Output),
			instant("/exit/at", e.At)); err != nil {
			return err
		}
	}
	if len(s.Resources) > maxList {
		return New(CodeTooLarge, "/resources", "more than "+strconv.Itoa(maxList))
	}
	if err := most("/waits", len(s.Waits), maxList); err != nil {
		return err
	}
	for i, n := range s.Waits {
		at := "/waits/" + strconv.Itoa(i)
		if err := first(text(at+"/slot", n.Slot), text(at+"/condition", n.Condition)); err != nil {
			return err
		}
	}
	for i, r := range s.Resources {
		at := "/resources/" + strconv.Itoa(i)
		if err := first(text(at+"/name", r.Name), text(at+"/state", r.State), bounded(at+"/error", r.Error),
			optional(at+"/next", r.Next)); err != nil {
			return err
		}
		if r.Done < 0 || r.Size < 0 {
			return New(CodeBadValue, at, "below 0")
		}
	}
	return nil
}

func (p *LogsParams) check() error {
	if p.Tail < 0 || p.Tail > MaxLogs {
		return New(CodeBadValue, "/tail", fmt.Sprintf("from 0 to %d", MaxLogs))
	}
	return first(name("/service", p.Service), plain("/cursor", p.Cursor), plain("/hook", p.Hook))
}
