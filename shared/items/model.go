// Package items reads what a unit's desired status is made of: the metadata of update items and their released
// versions, subjects, what nodes tell of themselves, and what runs now (seed 001). Each format is read strictly; its
// JSON schema is made of the types here and stands in schema.
//
//tandem:pure
package items

import (
	"slices"
	"strings"

	"tandem.internal/shared/duration"
	"tandem.internal/shared/workload"
)

// Bounds of the formats.
const (
	MaxDocument  = 1 << 20   // bytes of a file
	MaxCurrent   = 4 << 20   // bytes of the current state
	MaxText      = 128       // bytes of an owner, label, runtime or resource
	MaxLong      = 4096      // bytes of a description
	MaxEnv       = 64        // variables of metadata, or of a subject's entry
	MaxEnvSize   = 4096      // bytes of their names and texts together
	MaxList      = 64        // elements of a list of metadata
	MaxAttached  = 1024      // items of a subject; nodes of a subject
	MaxInstances = 1000      // of one attached service
	MaxCPU       = 1 << 30   // DMIPS
	MaxBytes     = 1 << 50   // bytes of RAM, storage or state
	MaxPriority  = 1<<32 - 1 // as that of unit configurations
	maxDepth     = 8
)

// Type is what an update item is.
type Type string

// The types of items.
const (
	Component Type = "component" // a part of a node, updated in place: once per node
	Service   Type = "service"   // runs in instances that are placed on nodes
	Layer     Type = "layer"     // what services, components and layers need; nodes get it with them
)

// Ref names an item. Of one type no two items have one codename.
type Ref struct {
	Type     Type   `json:"type"`     // what the item is
	Codename string `json:"codename"` // its name
}

// String is the item as people write it.
func (r Ref) String() string { return string(r.Type) + " " + r.Codename }

// Meta is the metadata of one version of an update item.
type Meta struct {
	// letters, digits, dot, underscore and dash, a letter or digit first, at most 63
	Codename string `json:"codename"`
	Type     Type   `json:"type"` // what the item is
	// semantic version without build metadata; an item may be created without one, and is released with one
	Version     string `json:"version,omitzero"`
	Description string `json:"description,omitzero"`                       // for people, at most 4096 bytes
	Owner       string `json:"owner,omitzero"`                             // who is responsible for it
	Priority    int    `json:"priority,omitzero" min:"0" max:"4294967295"` // higher goes first; default: 0
	// what it is built for, the preferred first; default: any
	Platforms []Platform `json:"platforms,omitempty"`
	// types of runtimes, one of which it needs; default: any
	Runtimes []string `json:"runtimes,omitempty"`
	// what has to be there for it
	Dependencies []Dependency `json:"dependencies,omitempty"`
	// services and components of lower rank that are not to be there beside it; not of a layer
	SuppressItems []Ref `json:"suppressItems,omitempty"`
	// the most that an instance may use; a node's ratio of it is reserved; of services only
	Quotas Amounts `json:"quotas,omitzero"`
	// what is reserved in place of the ratio, up to the quota, which it needs
	Requested Amounts  `json:"requested,omitzero"`
	Resources []string `json:"resources,omitempty"` // of which an instance takes one share each; of services only
	Devices   []string `json:"devices,omitempty"`   // of which an instance takes one share each; of services only
	Ports     []Port   `json:"ports,omitempty"`     // that an instance listens on: once per node; of services only
	Hostname  string   `json:"hostname,omitzero"`   // of its instances: of one service in the unit
	Env       Env      `json:"env,omitempty"`       // environment of its instances; of services only
	// of its containers: none but itself, or the node's; default: none; of services only
	Network Network `json:"network,omitzero"`
	// whether its instances may leave a node that is overloaded; default: enabled; of services only
	BalancingPolicy Balancing `json:"balancingPolicy,omitzero"`
}

// Ref names the item.
func (m *Meta) Ref() Ref { return Ref{m.Type, m.Codename} }

// Network is the network that a container has.
type Network string

// The networks.
const (
	NoNetwork   Network = "none"               // nothing but itself
	NodeNetwork Network = workload.NodeNetwork // that of its node
)

// Balancing is whether the instances of a service may leave a node that is overloaded.
type Balancing string

// The policies of balancing.
const (
	Balanced   Balancing = "enabled"  // they may
	Unbalanced Balancing = "disabled" // they stay
)

// Platform is what a version is built for, in the terms of the OCI image specification.
type Platform struct {
	Architecture string   `json:"architecture"`         // amd64, arm64
	Variant      string   `json:"variant,omitzero"`     // of the architecture: v8; default: any
	OS           string   `json:"os,omitzero"`          // linux; default: any
	OSFeatures   []string `json:"osFeatures,omitempty"` // all of which are needed; default: none
}

// Name is what there is of OS, architecture and variant: linux/arm64/v8.
func (p *Platform) Name() string {
	parts := slices.DeleteFunc([]string{p.OS, p.Architecture, p.Variant}, func(s string) bool { return s == "" })
	return strings.Join(parts, "/")
}

// Condition is what a dependency has to be before its dependant starts. A layer is all of them once it is installed.
type Condition string

// The conditions of dependencies.
const (
	Started   Condition = "started"   // it has started
	Healthy   Condition = "healthy"   // it is in good health
	Completed Condition = "completed" // it has run to its end
	Before    Condition = "before"    // the dependant starts before it, if it is desired at all
	After     Condition = "after"     // the dependant starts after it, if it is desired at all
)

// Weak reports whether a condition only orders what is desired anyway.
func (c Condition) Weak() bool { return c == Before || c == After }

// Dependency is what an item needs of another one.
type Dependency struct {
	Type              Type      `json:"type"`                       // what the item needed is
	Codename          string    `json:"codename"`                   // its name
	Versions          Range     `json:"versions,omitzero"`          // which will do; default: any
	IncludePreRelease bool      `json:"includePreRelease,omitzero"` // pre-releases within the range will do, too
	Condition         Condition `json:"condition,omitzero"`         // default: started
}

// Ref names the item needed.
func (d *Dependency) Ref() Ref { return Ref{d.Type, d.Codename} }

// Amounts are processor time, memory, and room on partitions for what an instance stores and for its state.
type Amounts struct {
	CPU     int64 `json:"cpu,omitzero" min:"0" max:"1073741824"`           // DMIPS; absent: none
	RAM     int64 `json:"ram,omitzero" min:"0" max:"1125899906842624"`     // bytes; absent: none
	Storage int64 `json:"storage,omitzero" min:"0" max:"1125899906842624"` // bytes; absent: none
	State   int64 `json:"state,omitzero" min:"0" max:"1125899906842624"`   // bytes; absent: none
}

// Port is a port that an instance listens on.
type Port struct {
	Port     int      `json:"port" min:"1" max:"65535"` // its number
	Protocol Protocol `json:"protocol,omitzero"`        // default: tcp
}

// Protocol is a protocol with ports.
type Protocol string

// The protocols.
const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
)

// State is how far a version has come.
type State string

// The states of a version, in their order.
const (
	Preparation State = "preparation" // not to be deployed yet
	Ready       State = "ready"       // may be deployed
	Deprecated  State = "deprecated"  // is not deployed anew, and stays where it is
)

// Item is a version of an update item as the unit has it.
type Item struct {
	ID     string `json:"id,omitzero"`     // UUID, assigned when the item was created; the same for all its versions
	URN    string `json:"urn,omitzero"`    // RFC 8141, assigned with the ID
	State  State  `json:"state"`           // how far the version has come
	Digest string `json:"digest,omitzero"` // of its content: sha256: and 64 hexadecimal digits
	Meta   Meta   `json:"meta"`            // its metadata, with a version
}

// SubjectType is whom a subject stands for.
type SubjectType string

// The types of subjects.
const (
	Group    SubjectType = "group"    // what somebody has grouped
	User     SubjectType = "user"     // a user
	NodeType SubjectType = "nodeType" // the nodes of the type that is its codename
)

// Subject is what items are attached to, so that they are desired.
type Subject struct {
	Codename string      `json:"codename"`                                   // its name, as that of an item
	Type     SubjectType `json:"type"`                                       // whom it stands for
	Priority int         `json:"priority,omitzero" min:"0" max:"4294967295"` // higher goes first; default: 0
	Reported bool        `json:"reported,omitzero"`                          // counts only while a node reports it
	// the nodes that it is attached to; default: the unit; not of a node type, which has its nodes
	Nodes []string     `json:"nodes,omitempty"`
	Items []Attachment `json:"items,omitempty"` // what is desired for it
}

// Attachment is a component or service that is desired for a subject.
type Attachment struct {
	Type              Type     `json:"type"`                                  // component or service
	Codename          string   `json:"codename"`                              // its name; each item once
	Versions          Range    `json:"versions,omitzero"`                     // the highest is meant; default: any
	IncludePreRelease bool     `json:"includePreRelease,omitzero"`            // pre-releases are meant, too
	Instances         int      `json:"instances,omitzero" min:"1" max:"1000"` // of a service; default: 1
	Labels            []string `json:"labels,omitempty"`                      // all of which a node has to have
	// of a service: variables that come before those of its metadata of the same name
	Env Env `json:"env,omitempty"`
}

// Ref names the item.
func (a *Attachment) Ref() Ref { return Ref{a.Type, a.Codename} }

// NodeState is whether a node takes part.
type NodeState string

// The states of a node. Only a provisioned one gets anything.
const (
	Provisioned   NodeState = "provisioned"   // takes part
	Unprovisioned NodeState = "unprovisioned" // does not take part yet
	Paused        NodeState = "paused"        // keeps what it has, and gets nothing new
	Failed        NodeState = "error"         // as paused, for a fault of its own
)

// Node is what a node tells of itself. Labels, priority and resource ratios are those of its configuration.
type Node struct {
	Node  string    `json:"node"`           // its ID
	Type  string    `json:"type,omitzero"`  // its node type
	State NodeState `json:"state,omitzero"` // default: provisioned
	// for how long it is offline; default: it is online
	OfflineFor duration.Duration `json:"offlineFor,omitzero"`
	CPU        int64             `json:"cpu" min:"0" max:"1073741824"`       // of the node, in DMIPS
	RAM        int64             `json:"ram" min:"0" max:"1125899906842624"` // of the node, in bytes
	Used       Amounts           `json:"used,omitzero"`                      // by what is no instance of an item
	// where instances store; without one of a type nothing is reserved of it
	Partitions []Partition `json:"partitions,omitempty"`
	Runtimes   []Runtime   `json:"runtimes,omitempty"`  // what runs items
	Resources  []Resource  `json:"resources,omitempty"` // what instances share
	Devices    []Resource  `json:"devices,omitempty"`   // what instances share
	Subjects   []string    `json:"subjects,omitempty"`  // that it reports, by codename
}

// Partition is a part of a node's disk.
type Partition struct {
	Name      string   `json:"name"`                                     // of one partition of the node
	Types     []string `json:"types"`                                    // what it is for: storage, state, or others
	TotalSize int64    `json:"totalSize" min:"0" max:"1125899906842624"` // bytes
}

// The types of partitions of which instances reserve. Of each a node has one partition at most; one may be of both.
const (
	ForStorage = "storage" // what instances store
	ForState   = "state"   // the state of instances
)

// Runtime runs items on a node.
type Runtime struct {
	ID           string   `json:"id"`                                           // of one runtime of the node
	Type         string   `json:"type"`                                         // what metadata asks for: crun
	Architecture string   `json:"architecture"`                                 // of what it runs: amd64
	Variant      string   `json:"variant,omitzero"`                             // of the architecture
	OS           string   `json:"os,omitzero"`                                  // of what it runs: linux
	OSFeatures   []string `json:"osFeatures,omitempty"`                         // that it has
	CPU          *int64   `json:"cpu,omitempty" min:"0" max:"1073741824"`       // at most; default: the node's
	RAM          *int64   `json:"ram,omitempty" min:"0" max:"1125899906842624"` // at most; default: the node's
	MaxInstances int      `json:"maxInstances,omitzero" min:"0" max:"1000000"`  // of services; 0: no limit
}

// Resource is something of a node that instances share.
type Resource struct {
	Name   string `json:"name"`                                  // what metadata asks for
	Shared int    `json:"shared,omitzero" min:"0" max:"1000000"` // instances that may have it at a time; 0: any number
}

// Current is what runs now.
type Current struct {
	Instances []Instance       `json:"instances,omitempty"` // of components and services
	Layers    []InstalledLayer `json:"layers,omitempty"`    // on nodes
}

// Instance is a component or service that runs on a node.
type Instance struct {
	Type     Type   `json:"type"`                             // component or service
	Codename string `json:"codename"`                         // of the item
	Version  string `json:"version"`                          // that runs
	Subject  string `json:"subject"`                          // codename of the subject for which it runs
	Index    int    `json:"index,omitzero" min:"0" max:"999"` // of several instances; 0 of a component
	Node     string `json:"node"`                             // where it runs
	Runtime  string `json:"runtime"`                          // ID of the runtime that runs it
	// of the environment that it was started with, as the plan has it; default: it has none
	EnvDigest string `json:"envDigest,omitzero"`
}

// Ref names the item.
func (i *Instance) Ref() Ref { return Ref{i.Type, i.Codename} }

// InstalledLayer is a layer that a node has.
type InstalledLayer struct {
	Node     string `json:"node"`     // that has it
	Codename string `json:"codename"` // of the layer
	Version  string `json:"version"`  // of the layer
}
