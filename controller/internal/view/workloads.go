package view

import (
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Warning tells what a lenient reading of a set of workloads let pass, and where.
type Warning = workload.Warning

// Placed is what a submitted set of workloads comes to (seed 004).
type Placed struct {
	Slots int      `json:"slots"`           // of the set
	Nodes int      `json:"nodes"`           // that have one
	Stops []string `json:"stops,omitempty"` // slots of the set before that are not in this one, at most 200
	// nodes that were never heard of, at most 200; they get theirs when they come
	Unknown []string `json:"unknown,omitempty"`
	Omitted int      `json:"omitted,omitzero"` // slots and nodes beyond those that the lists name
}

// SlotProgress counts how far the slots of the set have come, or the components of the list.
type SlotProgress struct {
	Slots         int    `json:"slots"`              // of the set, or components of the list
	Running       int    `json:"running"`            // what they should
	Completed     int    `json:"completed"`          // jobs that have; components that have their versions
	Stopped       int    `json:"stopped,omitzero"`   // by operators
	Missing       []Slot `json:"missing,omitempty"`  // the others, on online nodes first; at most 100 of them
	Omitted       int    `json:"omitted,omitempty"`  // others beyond those listed
	OnlineMissing int    `json:"onlineMissing"`      // on online nodes, and not failed for good
	Unfetched     int    `json:"unfetched,omitzero"` // on online nodes, with a resource that could not be fetched yet
	Failed        int    `json:"failed"`             // that do not run what they should, and nothing is tried any more
	Away          int    `json:"away,omitzero"`      // on offline nodes, and missing: whether they run is not known
}

// The states of a Slot that no node reports.
const (
	SlotWaiting = "waiting" // desired; its node has not told of it yet
	SlotUntold  = "untold"  // its node's report had no room for it
	SlotAway    = "away"    // its node is offline: whether it still runs is not known
)

// Slot is one slot of the unit: what should run there and what its node told last.
type Slot struct {
	Slot    string `json:"slot"`              // service@node
	Node    string `json:"node"`              // name of the node
	Online  bool   `json:"online"`            // its node is connected
	Job     bool   `json:"job,omitzero"`      // it ends by itself; otherwise an instance, which stays
	Desired string `json:"desired,omitempty"` // configurationId; empty: no longer wanted
	// as reported: a wire.WorkloadState; else "waiting", "untold" or "away"
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"` // of "away": when its node went offline
	// runs, or has completed, what it should; what is not wanted is gone
	Settled bool               `json:"settled"`
	Stopped *Stop              `json:"stopped,omitempty"` // by an operator
	Why     string             `json:"why,omitempty"`     // a few words: what it waits for, or what is wrong
	At      time.Time          `json:"at,omitzero"`       // when its node told
	Report  *wire.WorkloadSlot `json:"report,omitempty"`  // as its node told it last
}

// Stop says who has stopped a slot.
type Stop struct {
	At  time.Time `json:"at"`            // when
	Who string    `json:"who,omitempty"` // has done it
}

// SlotStop is the answer where a slot was stopped, or may run again.
type SlotStop struct {
	Slot    string `json:"slot"`    // service@node
	Stopped bool   `json:"stopped"` // it is to stop; else it may run again
	Rev     uint64 `json:"rev"`     // of the record
	Issued  int    `json:"issued"`  // documents made from it; 0: the set does not have the slot
}

// Logs is a piece of what a slot's processes have written.
type Logs struct {
	Slot string `json:"slot"` // service@node
	wire.LogsResult
}

// SlotWhy says why a slot does not run what it should, or how it runs.
type SlotWhy struct {
	Why
	Answer   string    `json:"answer"`           // one sentence
	Reason   string    `json:"reason"`           // the same for programs, a word such as "offline"
	Slot     Slot      `json:"slot"`             // as the list of slots shows it
	Findings []Finding `json:"findings"`         // what is known, in the order in which it had to happen
	Events   []Entry   `json:"events,omitempty"` // the newest about the slot, at most five, the newest last
}

// Finding is one thing that is known about what is asked for.
type Finding struct {
	About string    `json:"about"`       // "set", "node", "document", "resource", "hook", "exit" and so on
	State string    `json:"state"`       // "good", "bad", "waits", or "note": it says nothing about the answer
	Text  string    `json:"text"`        // in words
	At    time.Time `json:"at,omitzero"` // when it happened, or will
}

// The states of a Finding.
const (
	FindingGood  = "good"
	FindingBad   = "bad"
	FindingWaits = "waits"
	FindingNote  = "note"
)
