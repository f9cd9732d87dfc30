package view

import "time"

// Level says how much an entry or a sentence matters.
type Level string

// The levels, the least first.
const (
	LevelInfo    Level = "info"    // it went as it should
	LevelWarning Level = "warning" // somebody may have to look at it
	LevelError   Level = "error"   // something has failed
)

// Class is how a node stands, in a word; each node is in exactly one. Of those that fit it is the first of: revoked,
// offline, failed, onTheWay, unwell, inStep.
type Class string

// The classes.
const (
	ClassInStep   Class = "inStep"   // it runs what it should, and nothing is wrong with it
	ClassOnTheWay Class = "onTheWay" // it is to run something else, and has not told that this failed
	ClassUnwell   Class = "unwell"   // it runs what it should, but is in error, in ill health, or has an alert
	ClassFailed   Class = "failed"   // it did not take what it should run, or has lost it
	ClassOffline  Class = "offline"  // it is not connected, or never was
	ClassRevoked  Class = "revoked"  // it is not let in any more
)

// FleetCounts says how many nodes are in each class.
type FleetCounts struct {
	InStep   int `json:"inStep"`   // run what they should, and nothing is wrong with them
	OnTheWay int `json:"onTheWay"` // are to run something else, and have not told that this failed
	Unwell   int `json:"unwell"`   // run what they should, but are in error, in ill health, or have an alert
	Failed   int `json:"failed"`   // did not take what they should run, or have lost it
	Offline  int `json:"offline"`  // are not connected, or never were
	Revoked  int `json:"revoked"`  // are not let in any more
}

// Of returns the count of a class, to read or to set; nil: there is no such class.
func (c *FleetCounts) Of(class Class) *int {
	switch class {
	case ClassInStep:
		return &c.InStep
	case ClassOnTheWay:
		return &c.OnTheWay
	case ClassUnwell:
		return &c.Unwell
	case ClassFailed:
		return &c.Failed
	case ClassOffline:
		return &c.Offline
	case ClassRevoked:
		return &c.Revoked
	}
	return nil
}

// Fleet is all nodes of the unit at a glance.
type Fleet struct {
	Unit     string         `json:"unit"`               // ID of the unit
	Epoch    uint64         `json:"epoch"`              // of the journal
	Rev      uint64         `json:"rev"`                // newest journal record that it takes into account
	Nodes    int            `json:"nodes"`              // all of them, those that were revoked or never connected, too
	Online   int            `json:"online"`             // of them, those that are connected and were not revoked
	Counts   FleetCounts    `json:"counts"`             // by class; each node is in one
	Types    map[string]int `json:"types,omitempty"`    // nodes of each node type; "": not told. Without revoked ones
	Versions map[string]int `json:"versions,omitempty"` // likewise, by what runs of the unit configuration; "": nothing
	Look     []Sentence     `json:"look,omitempty"`     // what should be looked at, what is wrong first
}

// Sentence says something about nodes.
type Sentence struct {
	Text   string `json:"text"`             // one sentence
	Level  Level  `json:"level"`            // how much it matters
	Filter string `json:"filter,omitempty"` // selects the nodes that it is about, as q of GET /v1/nodes
}

// Row is a node in a line of a table: about 80 bytes.
type Row struct {
	Node    string    `json:"node"`              // name of the node
	Type    string    `json:"type,omitempty"`    // node type, as the node told
	Class   Class     `json:"class"`             // how it stands
	State   string    `json:"state"`             // of the unit configuration there, as Node.State says it
	Version string    `json:"version,omitempty"` // of the unit configuration that it runs
	Desired string    `json:"desired,omitempty"` // of the one that it should run
	Since   time.Time `json:"since,omitzero"`    // when State began; of an offline or revoked node, when that began
	Alerts  int       `json:"alerts,omitempty"`  // raised
	Why     string    `json:"why,omitempty"`     // why it is not in step or not well, in at most 80 characters
}

// Live is one line of a live stream; one of its fields is set. First come the fleet and the rows of all nodes, or of
// those that have changed after the cursor, then what changes. Each batch ends with a line that has At and Complete.
type Live struct {
	Reset  bool     `json:"reset,omitempty"`  // the cursor is of no use any more: forget all rows, all of them follow
	Fleet  *Fleet   `json:"fleet,omitempty"`  // as it is now
	Rows   []Row    `json:"rows,omitempty"`   // as they are now
	Gone   []string `json:"gone,omitempty"`   // names of nodes that are not known any more
	Entry  *Entry   `json:"entry,omitempty"`  // what has happened, in words and without its data
	Missed bool     `json:"missed,omitempty"` // entries are left out, as there were too many; GET /v1/events has them
	At     string   `json:"at,omitempty"`     // EPOCH-REV: what after has to be to go on from here
	// the batch ends here
	Complete bool `json:"complete,omitempty"`
}
