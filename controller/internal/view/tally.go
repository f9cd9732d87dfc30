package view

import "time"

// Tally is the unit in numbers, as package metrics shows it. It names no node, and no secret; the texts in it may be
// strangers': types of nodes, and parameters of alerts.
type Tally struct {
	Nodes     map[Standing]int       // each node is counted once
	Documents map[DocumentStates]int // of nodes that were not revoked, those that they should have
	Health    map[HealthState]int    // nodes that were not revoked
	Workloads map[string]int         // slots that nodes should have, by state
	Alerts    map[string]int         // raised, by what is before the colon in their parameter
	Trials    map[string]int         // going on, of what: "document", "agent" or "component"
	Rollouts  map[string]int         // by phase
	CPU, RAM  Load                   // of nodes that are online and tell
	Expires   time.Time              // end of the certificate of a node that ends first; zero: there is none
	Keeps     bool                   // a maintenance is announced
}

// Standing is how a node stands, and its type.
type Standing struct {
	State NodeState
	Type  string // as it told; "": it has not
}

// NodeState is how a node stands with all that it should be.
type NodeState string

// The states: the first that fits counts.
const (
	NodeRevoked NodeState = "revoked"
	NodeAwaited NodeState = "awaited" // it may join, or has, and was never heard of
	NodeOffline NodeState = "offline"
	NodeFailed  NodeState = "failed"  // a newest document went wrong on it, or it is in error
	NodeBehind  NodeState = "behind"  // it does not run every document that it should
	NodeUnwell  NodeState = "unwell"  // its health is not ok, or an alert is raised
	NodeInStep  NodeState = "in-step" // it runs what it should
)

// DocumentStates is a kind of documents, and a state that they are in on nodes.
type DocumentStates struct {
	Kind  string
	State string // a wire.State of the newest document; "waiting": the node has told nothing of it
}

// Load is how much is used of something on some nodes, as shares from 0 to 1.
type Load struct {
	Nodes int
	Sum   float64
	Most  float64
}

// Add counts a node in.
func (l *Load) Add(share float64) {
	l.Nodes++
	l.Sum += share
	l.Most = max(l.Most, share)
}

// Mean is the average; 0 without nodes.
func (l *Load) Mean() float64 {
	if l.Nodes == 0 {
		return 0
	}
	return l.Sum / float64(l.Nodes)
}

// NewTally returns a Tally in which nothing was counted yet.
func NewTally() *Tally {
	return &Tally{Nodes: map[Standing]int{}, Documents: map[DocumentStates]int{}, Health: map[HealthState]int{},
		Workloads: map[string]int{}, Alerts: map[string]int{}, Trials: map[string]int{}, Rollouts: map[string]int{}}
}
