package wire

import (
	"strconv"
	"time"
)

// Workloads is the detail of a reported/workloads envelope: how far each slot of the node has come
// (seed 004). Times are the node's clock.
type Workloads struct {
	Slots []WorkloadSlot `json:"slots"`         // by name
	More  int            `json:"more,omitzero"` // slots that did not fit
}

// WorkloadState is what a slot's instance or job does.
type WorkloadState string

// The states of a slot.
const (
	// nothing has been started yet: resources come, it is installed and validated
	WorkloadPreparing  WorkloadState = "preparing"
	WorkloadRunning    WorkloadState = "running"    // its process is there
	WorkloadRestarting WorkloadState = "restarting" // its process has ended, and is started again at Next
	WorkloadCompleted  WorkloadState = "completed"  // a job that has succeeded
	WorkloadFailed     WorkloadState = "failed"     // it cannot be prepared, or does not stay up; Error says why
	WorkloadStopped    WorkloadState = "stopped"    // it is no longer wanted, and goes or is gone
)

func (s WorkloadState) known() bool {
	switch s {
	case WorkloadPreparing, WorkloadRunning, WorkloadRestarting, WorkloadCompleted, WorkloadFailed, WorkloadStopped:
		return true
	}
	return false
}

// WorkloadSlot is one slot of a node.
type WorkloadSlot struct {
	Slot string `json:"slot"`         // service@node
	Job  bool   `json:"job,omitzero"` // else an instance
	// configurationId of what State is about: what runs, or the first that is to
	ID       string        `json:"id"`
	State    WorkloadState `json:"state"`             // of the slot
	Since    time.Time     `json:"since"`             // of State; of WorkloadRunning: of the process that runs
	Next     time.Time     `json:"next,omitzero"`     // of WorkloadRestarting
	Restarts uint64        `json:"restarts,omitzero"` // of this configuration
	Exit     *WorkloadExit `json:"exit,omitempty"`    // how the process ended last
	// configurationId of what is to take its place, if it is another
	Wanted string `json:"wanted,omitempty"`
	// what happens with Wanted, or before the first start: fetch, link, a hook's name, or ready: the old process is to
	// end
	Doing     string             `json:"doing,omitempty"`
	Error     *Error             `json:"error,omitempty"`     // what keeps it, or Wanted, from running
	Resources []WorkloadResource `json:"resources,omitempty"` // that are not on the node yet, by name
}

// WorkloadExit is how a process ended.
type WorkloadExit struct {
	Code   int       `json:"code"`             // -1: by a signal, or nobody knows
	Signal string    `json:"signal,omitempty"` // SIGKILL
	OOM    bool      `json:"oom,omitzero"`     // it was killed because its memory ran out
	Late   bool      `json:"late,omitzero"`    // it was killed because maxExecutionTimeMs was over
	Lost   bool      `json:"lost,omitzero"`    // it ended while nobody looked
	Text   string    `json:"text,omitempty"`   // why it could not be started
	Said   string    `json:"said,omitempty"`   // the end of what it wrote, if it failed
	At     time.Time `json:"at"`               // by the node's clock
}

// WorkloadResource is a resource that is on its way.
type WorkloadResource struct {
	Name  string `json:"name"`            // of the resource
	State string `json:"state"`           // waiting, fetching, verifying or failed
	Done  int64  `json:"done,omitzero"`   // bytes
	Size  int64  `json:"size,omitzero"`   // bytes, 0: not known
	Error *Error `json:"error,omitempty"` // of the newest attempt
}

// LogsParams ask for what a slot's processes have written. Result: LogsResult.
type LogsParams struct {
	Service string `json:"service"`
	Cursor  string `json:"cursor,omitempty"` // of the LogsResult before; empty: the last Tail bytes
	Tail    int    `json:"tail,omitzero"`    // bytes, at most MaxLogs
}

// MaxLogs is how many bytes of a log one answer carries at most.
const MaxLogs = 32 << 10

// LogsResult is a piece of a log.
type LogsResult struct {
	Data    []byte `json:"data,omitempty"`   // base64 on the wire
	Cursor  string `json:"cursor"`           // for what comes next
	Skipped bool   `json:"skipped,omitzero"` // something between the cursor and Data is gone
}

// RestartParams ask the node to start a slot's process anew. Result: null, before it happens.
type RestartParams struct {
	Service string `json:"service"`
}

// MaxSlots is how many slots a report has at most.
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
		plain("/wanted", s.Wanted), plain("/doing", s.Doing), bounded("/error", s.Error)); err != nil {
		return err
	}
	if !s.State.known() {
		return New(CodeBadValue, "/state", "no such state")
	}
	if e := s.Exit; e != nil {
		if err := first(plain("/exit/signal", e.Signal), plain("/exit/text", e.Text), plain("/exit/said", e.Said),
			instant("/exit/at", e.At)); err != nil {
			return err
		}
	}
	if len(s.Resources) > maxList {
		return New(CodeTooLarge, "/resources", "more than "+strconv.Itoa(maxList))
	}
	for i, r := range s.Resources {
		at := "/resources/" + strconv.Itoa(i)
		if err := first(text(at+"/name", r.Name), text(at+"/state", r.State),
			bounded(at+"/error", r.Error)); err != nil {
			return err
		}
		if r.Done < 0 || r.Size < 0 {
			return New(CodeBadValue, at, "below 0")
		}
	}
	return nil
}
