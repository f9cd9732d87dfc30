// Package workload owns workload configurations (seed 004): instances and jobs that nodes run, and
// the templates that they are made from. It parses them strictly, fills topologies, checks that
// what comes out can be run, and computes the pauses between restarts. It is pure: no clock, disk or network.
//
// A reader's way: model.go, parse.go, then fill.go with filter.go and template.go.
//
//tandem:pure
package workload

import (
	"strings"
	"time"

	"tandem.internal/shared/strictjson"
)

// Limits of the format. The seed names none; these keep hostile input cheap.
const (
	MaxDocument    = 4 << 20 // bytes of one file
	MaxEntries     = 10_000  // configurations in one file
	MaxMembers     = 256     // properties, resources, constraints or hooks of one configuration
	MaxURLs        = 32      // of one resource
	MaxText        = 4096    // bytes of a value
	MaxName        = 255     // bytes of a name: a resource's becomes a file's
	MaxParents     = 32      // of one filler
	maxDepth       = 16      // nesting; the format itself needs seven levels
	maxFilterDepth = 64      // nesting of a filter
)

var limits = strictjson.Limits{Size: MaxDocument, Depth: maxDepth}

// Problems are the reasons why a document is refused, in the order of their places.
type Problems = strictjson.Problems

// Class is what a configuration describes (seed 004, Applicable and Inapplicable).
type Class string

// The classes. Each has a short name beside the one of the seed.
const (
	Instance            Class = "ru.yandex.iss.Instance"            // runs for as long as it is wanted
	Job                 Class = "ru.yandex.iss.Job"                 // runs until it has succeeded
	TopologicalInstance Class = "ru.yandex.iss.TopologicalInstance" // a slot to be filled
	InstanceFiller      Class = "ru.yandex.iss.InstanceFiller"      // what slots are filled with
)

// The classes of resources.
const (
	Resource        Class = "ru.yandex.iss.Resource"        // static: another one means a restart
	DynamicResource Class = "ru.yandex.iss.DynamicResource" // another one is told to the running instance by HookNotify
)

const classPrefix = "ru.yandex.iss."

// Short is the class without its prefix.
func (c Class) Short() string { return strings.TrimPrefix(string(c), classPrefix) }

// The hooks: resources with these names are programs that the agent runs at their moments.
const (
	HookStart      = "iss_hook_start" // the only one that must be there
	HookInstall    = "iss_hook_install"
	HookValidate   = "iss_hook_validate"
	HookStatus     = "iss_hook_status"
	HookNotify     = "iss_hook_notify"
	HookStop       = "iss_hook_stop"
	HookReopenLogs = "iss_hook_reopenlogs"
	HookUninstall  = "iss_hook_uninstall"
)

// Hooks lists them.
var Hooks = []string{HookInstall, HookNotify, HookReopenLogs, HookStart, HookStatus, HookStop, HookUninstall,
	HookValidate}

const hookPrefix = "iss_hook_"

// Slot is a place where one instance or job runs: service@node.
type Slot struct{ Service, Node string }

func (s Slot) String() string { return s.Service + "@" + s.Node }

// MarshalText writes service@node.
func (s Slot) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Slot) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSlot(string(text))
	return err
}

// Config is an applicable configuration: one instance or job (seed 004, Applicable).
type Config struct {
	Class           Class               `json:"@class"`
	ConfigurationID string              `json:"configurationId,omitempty"`
	Slot            Slot                `json:"slot"`
	Container       *Container          `json:"container,omitempty"`
	Properties      map[string]string   `json:"properties,omitempty"`
	Resources       map[string]Artifact `json:"resources"` // by name
	TimeLimits      map[string]Limit    `json:"timeLimits,omitempty"`
}

// Container is what a configuration's processes are kept in (seed 004, container).
type Container struct {
	Constraints map[string]string `json:"constraints,omitempty"` // control file of memory, cpu or blkio: its value
}

// Artifact is one resource: something to be fetched (seed 004, resources).
type Artifact struct {
	Class        Class        `json:"@class"`
	UUID         string       `json:"uuid,omitempty"`
	URLs         []string     `json:"urls"`
	Cached       bool         `json:"cached,omitzero"` // kept when it is no longer used, until space runs short
	Size         int64        `json:"size"`            // bytes to reserve before fetching; 0: none
	Verification Verification `json:"verification"`
}

// Verification says how an artifact is checked (seed 004, verification).
type Verification struct {
	Checksum    string      `json:"checksum,omitempty"` // EMPTY:, MD5:hex or SHA256:hex
	CheckPeriod CheckPeriod `json:"checkPeriod"`        // 0: once, after fetching
}

// CheckPeriod is how often an artifact is checked again, in whole minutes; in JSON 1d2h30m.
type CheckPeriod time.Duration

// Limit bounds how a hook is run and run again (seed 004, timeLimits). Nil is what the seed calls
// not given.
type Limit struct {
	MinRestartPeriodMs   *int64   `json:"minRestartPeriodMs,omitempty"`
	MaxRestartPeriodMs   *int64   `json:"maxRestartPeriodMs,omitempty"` // nil: no maximum
	RestartPeriodScaleMs *int64   `json:"restartPeriodScaleMs,omitempty"`
	RestartPeriodBackoff *float64 `json:"restartPeriodBackoff,omitempty"`
	MaxExecutionTimeMs   *int64   `json:"maxExecutionTimeMs,omitempty"` // nil: no limit
}

// Topology is a slot that waits to be filled (seed 004, Topology).
type Topology struct {
	Slot       Slot
	Properties map[string]string
}

// Filler is what slots are filled with (seed 004, Filler).
type Filler struct {
	Name    string
	Filter  *Filter // nil: every entry whose properties have the filler's values
	Parents []string
	Fill    Template
}

// Template is the part of a configuration that a filler gives. Its texts may have @{…} in them.
type Template struct {
	Class           Class // "": not said
	ConfigurationID string
	Container       *Container
	Properties      map[string]string
	Resources       map[string]Artifact
	TimeLimits      map[string]Limit
}

// Set is what some files say together.
type Set struct {
	Configs    []Config
	Topologies []Topology
	Fillers    []Filler

	places map[string][]Place // of entries, see note
}
