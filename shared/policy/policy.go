// Package policy is the model of management policies (seed 003): the document, the nodes that it is about, which nodes
// a policy hits and why, and which of several policies acts. Its constraints are those of package constraint.
// It is pure.
//
//tandem:pure
package policy

import (
	"cmp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/policy/constraint"
)

// Policy is a management policy, as Parse returns it.
type Policy struct {
	Owner       string          `json:"owner,omitempty"` // who created it; org/user says its organisation
	Label       string          `json:"label,omitempty"`
	Description string          `json:"description,omitempty"`
	Constraints []string        `json:"constraints,omitempty"` // what a node's properties have to satisfy
	Properties  []Property      `json:"properties,omitempty"`  // what a node's constraints are about
	Patterns    []string        `json:"patterns,omitempty"`    // org/pattern, pattern or *
	Enabled     bool            `json:"enabled"`
	Upgrade     *AgentUpgrade   `json:"agentUpgradePolicy,omitempty"` // nil: it says nothing of upgrades
	Rollout     jsontext.Value  `json:"rollout,omitempty"`            // as it was given
	LastUpdated string          `json:"lastUpdated,omitempty"`        // as it was given
	Org         string          `json:"-"`                            // its organisation; "": that of each node
	constraints constraint.List // parsed
	properties  constraint.Properties
}

// AgentUpgrade is how agents upgrade themselves (seed 003, agentUpgradePolicy).
type AgentUpgrade struct {
	AutoUpgrade    bool   `json:"autoUpgrade,omitempty"`    // look for versions periodically; without Start, Duration
	AtLeastVersion string `json:"atLeastVersion,omitempty"` // a version or Current
	Start          string `json:"start,omitempty"`          // RFC 3339, or Now
	Duration       int64  `json:"duration,omitempty"`       // seconds from Start in which agents begin
	AllowDowngrade bool   `json:"allowDowngrade,omitempty"`
}

// The words for a version and a time. They are the defaults.
const (
	Current = "current" // the newest version offered
	Now     = "now"
)

// StartTime returns when an upgrade may begin; zero for Now.
func (u *AgentUpgrade) StartTime() time.Time {
	t, err := parseTime(u.Start)
	if err != nil {
		return time.Time{} // Now, the only other text that Parse lets through
	}
	return t
}

// Property is a typed value with a name.
type Property struct {
	Name  string          `json:"name"`
	Type  constraint.Type `json:"type,omitempty"`
	Value jsontext.Value  `json:"value"` // as it was given
}

// Node is what decides whether a policy hits a node, as ParseNode returns it.
type Node struct {
	Org         string      `json:"org,omitempty"`
	Properties  []Property  `json:"properties,omitempty"`
	Constraints []string    `json:"constraints,omitempty"` // what a policy's properties have to satisfy
	Pattern     string      `json:"pattern,omitempty"`     // the pattern that it uses, or org/pattern
	Management  *Management `json:"management,omitempty"`  // what is so for management only

	constraints constraint.List // those in force
	properties  constraint.Properties
	own         bool // it has a constraint, or a property that is no built-in
}

// Management is a node's section about management policies. Its properties stand before those of the same name outside
// it; its constraints, if it has some, in place of those outside it.
type Management struct {
	Properties  []Property `json:"properties,omitempty"`
	Constraints []string   `json:"constraints,omitempty"`
}

// The properties that every node has (seed 003: built-in).
const (
	CPU             = "openhorizon.cpu"    // number of processors
	Memory          = "openhorizon.memory" // MB
	Arch            = "openhorizon.arch"
	HardwareID      = "openhorizon.hardwareId"
	OperatingSystem = "openhorizon.operatingSystem"
	Containerized   = "openhorizon.containerized"
	AllowPrivileged = "openhorizon.allowPrivileged" // may be set; false by default
)

// builtIn is the beginning of the names of built-in properties.
const builtIn = "openhorizon."

// BuiltIns are the built-in properties and their types.
func BuiltIns() map[string]constraint.Type {
	return map[string]constraint.Type{CPU: constraint.TypeInt, Memory: constraint.TypeInt, Arch: constraint.TypeString,
		HardwareID: constraint.TypeString, OperatingSystem: constraint.TypeString,
		Containerized: constraint.TypeBoolean, AllowPrivileged: constraint.TypeBoolean}
}

// Encode returns a policy as JSON that Parse reads as the same. Equal policies give equal bytes.
func Encode(p *Policy) []byte { return encode(p) }

// Bare returns a policy as JSON without what the controller sets, owner and lastUpdated: policies with equal bytes say
// the same.
func Bare(p *Policy) []byte {
	b := *p
	b.Owner, b.LastUpdated = "", ""
	return encode(&b)
}

// EncodeNode returns a node as JSON that ParseNode reads as the same. Equal nodes give equal bytes.
func EncodeNode(n *Node) []byte { return encode(n) }

func encode(v any) []byte {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("policy: it cannot be written: " + err.Error()) // cannot happen: texts, numbers and JSON that was read
	}
	return data
}

// qualified returns a pattern with its organisation.
func qualified(pattern, org string) string {
	if strings.Contains(pattern, "/") || org == "" {
		return pattern
	}
	return org + "/" + pattern
}

// orgOf returns the organisation of an owner org/user; "" if it has none.
func orgOf(owner string) string {
	org, _, ok := strings.Cut(owner, "/")
	if !ok {
		return ""
	}
	return org
}

// effective returns the settings that count: where agents upgrade by themselves, the others are ignored.
func (u AgentUpgrade) effective() AgentUpgrade {
	u.AtLeastVersion, u.Start = cmp.Or(u.AtLeastVersion, Current), cmp.Or(u.Start, Now)
	if u.AutoUpgrade {
		u.Start, u.Duration = Now, 0
	}
	return u
}
