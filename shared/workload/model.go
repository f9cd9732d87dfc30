// Package workload owns workload configurations (seed 004): the instances and jobs that nodes run, and the topologies
// and fillers that they are made from. It parses them strictly, applies fillers to topologies, checks that nodes can
// run the result, and computes the pauses between restarts. It is pure: no clock, disk or network.
//
// Read model.go first, then parse.go, then fill.go with filter.go and template.go.
//
//tandem:pure
package workload

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/strictjson"
	"tandem.internal/shared/wire"
)

// Limits of the format. The seed has none; these limit the cost of hostile input.
const (
	MaxDocument    = 4 << 20 // bytes of one file
	MaxEntries     = 10_000  // configurations in one file
	MaxMembers     = 256     // properties, resources, constraints or hooks of one configuration
	MaxURLs        = 32      // of one resource
	MaxText        = 4096    // bytes of a value
	MaxName        = 255     // bytes of a name; the name of a resource becomes that of a file
	MaxID          = 256     // bytes of a configurationId, which nodes report
	MaxParents     = 32      // of one filler
	maxDepth       = 16      // nesting; the format itself needs seven levels
	maxFilterDepth = 64      // nesting of a filter
)

var documentLimits = strictjson.Limits{Size: MaxDocument, Depth: maxDepth}

// Problems are the reasons why a document is refused, in the order in which they occur in it.
type Problems = strictjson.Problems

// Class is the kind of an entry, or of a resource (seed 004, Applicable and Inapplicable).
type Class string

// The classes of entries. Each also has a short name, without ru.yandex.iss.
const (
	Instance            Class = "ru.yandex.iss.Instance"            // runs for as long as it is wanted
	Job                 Class = "ru.yandex.iss.Job"                 // runs until it has succeeded
	TopologicalInstance Class = "ru.yandex.iss.TopologicalInstance" // a slot to which fillers apply
	InstanceFiller      Class = "ru.yandex.iss.InstanceFiller"      // values for configurations
)

// The classes of resources.
const (
	Resource        Class = "ru.yandex.iss.Resource"        // static: when it changes, the instance restarts
	DynamicResource Class = "ru.yandex.iss.DynamicResource" // when it changes, HookNotify tells the running instance
)

const classPrefix = "ru.yandex.iss."

// Short returns the class without its prefix: Instance, Job and so on.
func (c Class) Short() string { return strings.TrimPrefix(string(c), classPrefix) }

// The hooks: resources with these names are programs, which the agent runs (seed 004, resources).
const (
	HookStart      = "iss_hook_start" // does the work; the only required one
	HookInstall    = "iss_hook_install"
	HookValidate   = "iss_hook_validate"
	HookStatus     = "iss_hook_status"
	HookNotify     = "iss_hook_notify"
	HookStop       = "iss_hook_stop"
	HookReopenLogs = "iss_hook_reopenlogs"
	HookUninstall  = "iss_hook_uninstall"
)

// Hooks are the names of all hooks, sorted.
var Hooks = []string{HookInstall, HookNotify, HookReopenLogs, HookStart, HookStatus, HookStop, HookUninstall,
	HookValidate}

const hookPrefix = "iss_hook_"

// Slot is a workload slot: the place for one instance or job, written service@node.
type Slot struct{ Service, Node string }

func (s Slot) String() string { return s.Service + "@" + s.Node }

// MarshalText returns service@node.
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
	Needs           []Need              `json:"needs,omitempty"`
	// Stopped: an operator has stopped it. It is no part of a configuration: a document has it beside them.
	Stopped bool `json:"-"`
}

// Container is the control group of a configuration's processes (seed 004, container), and what it is run by.
type Container struct {
	Constraints map[string]string `json:"constraints,omitempty"` // value by control file of memory, cpu or blkio
	// Runtime is the container runtime that runs the image that HookStart has the configuration of (Image); "":
	// HookStart is a program.
	Runtime string `json:"runtime,omitempty"`
	// Network is NodeNetwork, or "": with Runtime, there is nothing in it but itself.
	Network string `json:"network,omitempty"`
}

// NodeNetwork is the network of a container that has that of its node.
const NodeNetwork = "node"

// Contained reports whether a configuration runs in a container.
func (c *Config) Contained() bool { return c.Container != nil && c.Container.Runtime != "" }

// Artifact is one resource: a file to be fetched (seed 004, resources).
type Artifact struct {
	Class        Class        `json:"@class"`
	UUID         string       `json:"uuid,omitempty"`
	URLs         []string     `json:"urls"`
	Cached       bool         `json:"cached,omitzero"` // kept when no configuration uses it, until space runs short
	Size         int64        `json:"size"`            // bytes to reserve before the download; 0: none
	Verification Verification `json:"verification"`
	Unpack       *Unpack      `json:"unpack,omitempty"` // nil: the file itself is what is needed
	// the file that the addresses lead to; nil: they lead to the content
	Encrypted *wire.Encrypted `json:"encrypted,omitempty"`
}

// File is a file with a hash of the contract (wire.Hash) as an artifact.
func File(hash string, size int64, urls []string, minisign string) Artifact {
	return Artifact{Class: Resource, URLs: urls, Size: size, Verification: Verification{
		Checksum: SHA256 + ":" + strings.TrimPrefix(hash, wire.HashPrefix), Minisign: minisign}}
}

// HasHTTP reports whether the artifact has an address that every agent can fetch from: http or https.
func (a Artifact) HasHTTP() bool {
	return slices.ContainsFunc(a.URLs, func(u string) bool {
		scheme, _, _ := strings.Cut(u, ":")
		return scheme == SchemeHTTP || scheme == SchemeHTTPS
	})
}

// NoBitTorrent is the error of a resource of a slot that an agent without BitTorrent cannot fetch.
func NoBitTorrent(s Slot, name string) *wire.Error {
	return wire.New(wire.CodeNotSupported, strictjson.Member(atResources, name)+"/urls", About(s, "resource "+
		strictjson.Show(name)+": this agent is built without BitTorrent: give an http or https address, too, or "+
		"install the full agent"))
}

// Unproved reports whether the artifact may come from another machine by plain HTTP with nothing that proves it: no
// checksum, or one of MD5, of which somebody may have made two contents.
func (a Artifact) Unproved() bool {
	if holds(a.Verification.Checksum) {
		return false
	}
	return slices.ContainsFunc(a.URLs, func(text string) bool {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != SchemeHTTP {
			return false
		}
		ip, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() != "localhost" && (err != nil || !ip.Unmap().IsLoopback())
	})
}

// NoProof is the error of a resource of a slot that is Unproved, on a node that takes no such.
func NoProof(s Slot, name string) *wire.Error {
	return wire.New(wire.CodeNotAllowed, strictjson.Member(atResources, name)+"/verification", About(s, "resource "+
		strictjson.Show(name)+": by plain HTTP it is whatever the network says: give it a checksum, SHA256:…, or "+
		"https addresses only; --unproved-resources on the node takes it as it is"))
}

// NoWorkloads is the error of every set on a node that runs none.
func NoWorkloads() *wire.Error {
	return wire.New(wire.CodeNotAllowed, "",
		"this node runs no workloads: its agent was started with --workloads=false")
}

// Verification is how and how often an artifact is checked (seed 004, verification).
type Verification struct {
	Checksum    string      `json:"checksum,omitempty"` // EMPTY:, MD5:hex or SHA256:hex
	CheckPeriod CheckPeriod `json:"checkPeriod"`        // 0: only after the download
	// Minisign is a publisher's signature of the file, as publisher.Parse reads it (ADR 049); "": it has none. The
	// checksum beside it is one of SHA256.
	Minisign string `json:"minisign,omitempty"`
}

// CheckPeriod is the time between checks of an artifact, in whole minutes; 1d2h30m in JSON.
type CheckPeriod time.Duration

// Limit limits the time of a hook and the pauses between its runs (seed 004, timeLimits). All times are in
// milliseconds. Nil means that the document does not have the field.
type Limit struct {
	MinRestartPeriodMs   *int64   `json:"minRestartPeriodMs,omitempty"`
	MaxRestartPeriodMs   *int64   `json:"maxRestartPeriodMs,omitempty"` // nil: no maximum
	RestartPeriodScaleMs *int64   `json:"restartPeriodScaleMs,omitempty"`
	RestartPeriodBackoff *float64 `json:"restartPeriodBackoff,omitempty"`
	MaxExecutionTimeMs   *int64   `json:"maxExecutionTimeMs,omitempty"` // nil: no limit
}

// Topology is a slot whose configuration comes from fillers, or properties that the instance or job of its slot gets
// besides its own (seed 004, Inapplicable and Topology).
type Topology struct {
	Slot       Slot
	Properties map[string]string
}

// Filler has values for the configurations of the entries to which it applies (seed 004, Filler).
type Filler struct {
	Name    string
	Filter  *Filter // nil: applies by properties alone, see Fill
	Parents []string
	Fill    Template
}

// Template has the values of a filler. Its texts may contain @{…}, see template.go.
type Template struct {
	Class           Class // "": none
	ConfigurationID string
	Container       *Container
	Properties      map[string]string
	Resources       map[string]Artifact
	TimeLimits      map[string]Limit
}

// Set is the content of one or several files.
type Set struct {
	Configs    []Config
	Topologies []Topology
	Fillers    []Filler

	places map[string][]Place // of entries, see addPlace
	stored bool               // some of it was accepted before, see ParseStored
}
