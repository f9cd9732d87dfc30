package view

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/policy"
	"tandem.internal/shared/wire"
)

// AgentBuild is the program of a version of the agent for one architecture.
type AgentBuild struct {
	Arch     string   `json:"arch"`               // processor architecture, as Go names it
	Hash     string   `json:"hash"`               // of the program, sha256:…
	Size     int64    `json:"size"`               // of the program, bytes
	Stored   bool     `json:"stored,omitzero"`    // nodes fetch it from the controller's store, where it has to be
	URLs     []string `json:"urls,omitempty"`     // other addresses; of torrents only beside those of http
	Minisign string   `json:"minisign,omitempty"` // a publisher's signature of the program
	Brings   []string `json:"brings,omitempty"`   // names of the settings that it brings
}

// AgentRelease is a version of the agent that is on offer.
type AgentRelease struct {
	Version string       `json:"version"`       // semantic
	Builds  []AgentBuild `json:"builds"`        // by architecture
	Rev     uint64       `json:"rev"`           // record that put it on offer
	At      time.Time    `json:"at"`            // when
	Who     string       `json:"who,omitempty"` // who did
	Running int          `json:"running"`       // nodes that run it
}

// AgentReleases are the versions on offer.
type AgentReleases struct {
	Releases []AgentRelease `json:"releases"` // the lowest version first
}

// PolicyChange is the answer to a change of policies, properties or releases.
type PolicyChange struct {
	Rev    uint64 `json:"rev"`           // of the record
	Issued int    `json:"issued"`        // nodes that got a new document
	Back   uint64 `json:"back,omitzero"` // of a rollback: the version whose content it is again
	// ID of the rollout that brings it to the nodes; absent: they get it at once
	Rollout string `json:"rollout,omitempty"`
}

// Policy is a management policy (seed 003).
type Policy struct {
	Name     string         `json:"name"`               // given to apply
	Enabled  bool           `json:"enabled"`            // nodes act on it
	Rev      uint64         `json:"rev"`                // record of its newest change
	Since    uint64         `json:"since,omitzero"`     // record since which it is enabled
	At       time.Time      `json:"at"`                 // of the newest change
	Who      string         `json:"who,omitempty"`      // who made that
	Matching int            `json:"matching"`           // nodes that match it, enabled or not
	States   []PolicyCount  `json:"states,omitempty"`   // how far those are
	Document jsontext.Value `json:"document,omitempty"` // as it was applied, or was then; left out in lists
	Nodes    []string       `json:"nodes,omitempty"`    // that match it, at most MaxNamed; left out in lists
	Rollout  string         `json:"rollout,omitempty"`  // ID of that of its newest change, which goes on
}

// PolicyVersion is one change of a policy.
type PolicyVersion struct {
	Rev      uint64    `json:"rev"`               // of the record: the version of the policy
	At       time.Time `json:"at"`                // when it happened
	Who      string    `json:"who,omitempty"`     // caused it
	Via      string    `json:"via,omitempty"`     // "inbox"; "": the controller's own doors
	State    string    `json:"state"`             // applied, enabled, disabled, removed, rolled-back, aborted
	Back     uint64    `json:"back,omitzero"`     // rolled-back: the rev whose content it is again
	Enabled  bool      `json:"enabled"`           // nodes acted on it from then on
	AllNodes bool      `json:"allNodes,omitzero"` // that it may hit every node was confirmed
	Rollout  string    `json:"rollout,omitempty"` // ID of the one that brought it to the nodes
}

// PolicyHistory is what happened to the policies of one name.
type PolicyHistory struct {
	Name     string          `json:"name"`     // of the policy
	Versions []PolicyVersion `json:"versions"` // the newest last
}

// PolicyWhy says what becomes of a policy on a node, and why.
type PolicyWhy struct {
	Why
	Answer   string              `json:"answer"`           // one sentence
	Reason   string              `json:"reason"`           // the same for programs, a word such as "not-hit"
	Policy   string              `json:"policy"`           // its name
	Node     string              `json:"node"`             // its name
	Match    *policy.Explanation `json:"match,omitempty"`  // why the policy hits the node or not
	Status   *wire.PolicyStatus  `json:"status,omitempty"` // what the node said of it
	Findings []Finding           `json:"findings"`         // what is known, in the order in which it had to happen
	Events   []Entry             `json:"events,omitempty"` // of the node about it, at most five, the newest last
}

// PolicyCount is how many nodes are in a state.
type PolicyCount struct {
	State wire.PolicyState `json:"state"` // PolicyUnknown, PolicyQueued, PolicyTakenBack, or as nodes have said
	Nodes int              `json:"nodes"` // in it
}

// The states of a node that has not reported a policy that it should have, of one that its rollout has not reached, and
// of one that has what it had before, since its rollout is being taken back.
const (
	PolicyUnknown   wire.PolicyState = "unknown"
	PolicyQueued    wire.PolicyState = "queued"
	PolicyTakenBack wire.PolicyState = "taken-back"
)

// Policies are all policies.
type Policies struct {
	Policies []Policy `json:"policies"` // by name
}

// PolicyNode is how far a node is with a policy.
type PolicyNode struct {
	Node   string `json:"node"`   // its name
	Online bool   `json:"online"` // it is
	wire.PolicyStatus
}

// PolicyStatus is how far the nodes are with a policy.
type PolicyStatus struct {
	Name    string        `json:"name"`              // of the policy
	Enabled bool          `json:"enabled"`           // nodes act on it
	States  []PolicyCount `json:"states,omitempty"`  // of the nodes that match it
	Nodes   []PolicyNode  `json:"nodes,omitempty"`   // those that are not done first
	Omitted int           `json:"omitted,omitzero"`  // nodes that are not in the list
	Rollout string        `json:"rollout,omitempty"` // ID of that of its newest change, which goes on
}

// NodeProperty is a property of a node.
type NodeProperty struct {
	Name  string         `json:"name"`           // of the property
	Value jsontext.Value `json:"value"`          // a text, number, boolean or list of texts
	Type  string         `json:"type,omitempty"` // "": that of the value
	From  string         `json:"from"`           // "measured", "node" (its own settings) or "operator"
	At    time.Time      `json:"at,omitzero"`    // when the operator set it
	Who   string         `json:"who,omitempty"`  // who did
}

// NodeProperties are what policies choose a node by, and what it chooses policies by.
type NodeProperties struct {
	Node        string         `json:"node"`                  // its name
	Org         string         `json:"org,omitempty"`         // its organisation
	Pattern     string         `json:"pattern,omitempty"`     // that it uses
	Properties  []NodeProperty `json:"properties"`            // by name
	Constraints []string       `json:"constraints,omitempty"` // on the properties of policies
	Error       *wire.Error    `json:"error,omitempty"`       // why what the node says of itself cannot be read
}
