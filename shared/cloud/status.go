// Package cloud is what the cloud side and a unit say to each other of update items, in the shape of version 7 of the
// seeds' protocol: the desired status goes to the unit, the unit status comes back, whole or as what has changed.
//
//tandem:pure
package cloud

import (
	"tandem.internal/shared/wire"
)

// UnitStatus is how a unit is. Its lists are in the order of seed 001: nodes; what runs for subjects that are no node
// types, components first, then for node types; the rest. Of a delta a list that is absent has not changed.
type UnitStatus struct {
	MessageType   string        `json:"messageType"`             // unitStatus
	CorrelationID string        `json:"correlationId,omitempty"` // of the desired status that it follows
	IsDeltaInfo   bool          `json:"isDeltaInfo"`             // it has what has changed, and nothing else
	Nodes         []Node        `json:"nodes,omitzero"`          // by ID
	Items         []Item        `json:"items,omitzero"`          // a version each
	Instances     []Instances   `json:"instances,omitzero"`      // those of an item, version and subject together
	Subjects      []Identity    `json:"subjects,omitzero"`       // that nodes report
	UnitConfig    []ConfigState `json:"unitConfig,omitzero"`     // in force, then the one that was attempted
}

// The message types.
const (
	TypeUnitStatus    = "unitStatus"
	TypeDesiredStatus = "desiredStatus"
)

// Identity names something; one member is enough.
type Identity struct {
	ID       string `json:"id,omitempty"`       // UUID
	Type     string `json:"type,omitempty"`     // of an item: component, service or layer
	Codename string `json:"codename,omitempty"` // its name
	Title    string `json:"title,omitempty"`    // for people
	URN      string `json:"urn,omitempty"`      // its name in the whole world
}

// ConfigState is a version of the unit configuration.
type ConfigState struct {
	Version   string     `json:"version"`             // of the document
	State     string     `json:"state"`               // absent, installed or failed
	ErrorInfo *ErrorInfo `json:"errorInfo,omitempty"` // why it has failed
}

// ErrorInfo is what went wrong.
type ErrorInfo struct {
	AosCode  int    `json:"aosCode"`           // what kind of error it is
	ExitCode int    `json:"exitCode,omitzero"` // of the process
	Message  string `json:"message"`           // for people
}

// Node is a node of the unit.
type Node struct {
	Identity         Identity          `json:"identity"`                   // its codename is its name
	NodeGroupSubject *Identity         `json:"nodeGroupSubject,omitempty"` // its node type
	MaxDmips         int64             `json:"maxDmips,omitzero"`          // of its processors
	TotalRAM         uint64            `json:"totalRam,omitzero"`          // bytes
	OSInfo           *OSInfo           `json:"osInfo,omitempty"`           // its operating system
	CPUs             []CPU             `json:"cpus,omitempty"`             // its processors
	Attrs            map[string]string `json:"attrs,omitempty"`            // set on the node, and told by its agent
	Partitions       []Partition       `json:"partitions,omitempty"`       // of its disks
	// provisioned, paused or error; in a delta, of one that is gone: unprovisioned
	State       string     `json:"state"`
	IsConnected bool       `json:"isConnected"`         // it is online
	ErrorInfo   *ErrorInfo `json:"errorInfo,omitempty"` // what is wrong with it
	Runtimes    []Runtime  `json:"runtimes,omitempty"`  // what runs items on it
	Resources   []Resource `json:"resources,omitempty"` // that instances share
	Devices     []Resource `json:"devices,omitempty"`   // not of v7: seed 001 has them beside resources
}

// The states of a node.
const (
	NodeUnprovisioned = "unprovisioned"
	NodeProvisioned   = "provisioned"
	NodePaused        = "paused"
	NodeError         = "error"
)

// OSInfo is an operating system.
type OSInfo struct {
	OS       string   `json:"os"`                 // linux
	Version  string   `json:"version,omitempty"`  // of it
	Features []string `json:"features,omitempty"` // that it has
}

// ArchInfo is a processor's architecture.
type ArchInfo struct {
	Architecture string `json:"architecture"`      // arm64
	Variant      string `json:"variant,omitempty"` // v8
}

// CPU are processors that are alike.
type CPU struct {
	TotalNumCores int      `json:"totalNumCores"` // how many
	ArchInfo      ArchInfo `json:"archInfo"`      // of them
}

// Partition is a part of a node's disk.
type Partition struct {
	Name      string   `json:"name"`            // that configurations name
	Path      string   `json:"path,omitempty"`  // where it is mounted
	Types     []string `json:"types,omitempty"` // what it is for: storage, state
	TotalSize uint64   `json:"totalSize"`       // bytes
}

// Runtime runs items on a node.
type Runtime struct {
	Identity     Identity `json:"identity"`               // its codename is its ID
	RuntimeType  string   `json:"runtimeType"`            // what items ask for
	ArchInfo     ArchInfo `json:"archInfo"`               // of what it runs
	OSInfo       *OSInfo  `json:"osInfo,omitempty"`       // of what it runs
	AllowedDmips *int64   `json:"allowedDmips,omitempty"` // that its instances may reserve; absent: the node's
	AllowedRAM   *int64   `json:"allowedRam,omitempty"`   // bytes that its instances may reserve; absent: the node's
	MaxInstances int      `json:"maxInstances"`           // of services; 0: no limit
}

// Resource is what instances share.
type Resource struct {
	Name        string `json:"name"`        // what items ask for
	SharedCount int    `json:"sharedCount"` // instances that may have it at a time; 0: any number
}

// Item is a version of an update item in the unit.
type Item struct {
	Item      Identity   `json:"item"`                // which one
	Version   string     `json:"version"`             // of it
	State     ItemState  `json:"state"`               // how far it is
	ErrorInfo *ErrorInfo `json:"errorInfo,omitempty"` // of the node with the lowest ID that has failed at it
}

// ItemState is how far a version is on the nodes that are to have it: the first of failed, downloading, installing and
// pending that holds for one of them, else installed.
type ItemState string

// The states of items. Unknown and removing are of v7, and no unit says them.
const (
	ItemDownloading ItemState = "downloading"
	ItemPending     ItemState = "pending"
	ItemInstalling  ItemState = "installing"
	ItemInstalled   ItemState = "installed"
	ItemRemoved     ItemState = "removed" // of a delta: it is not desired any more
	ItemFailed      ItemState = "failed"
)

// Instances are those of a version of an item for a subject.
type Instances struct {
	Item      Identity   `json:"item"`      // which one
	Subject   Identity   `json:"subject"`   // for which they are
	Version   string     `json:"version"`   // of the item
	Instances []Instance `json:"instances"` // by index and node; of a delta none: they are gone
}

// Instance is one of them.
type Instance struct {
	Node      *Identity     `json:"node,omitempty"`      // absent: no node has a place for it
	Runtime   *Identity     `json:"runtime,omitempty"`   // of the node
	Instance  int           `json:"instance"`            // its index
	State     InstanceState `json:"state"`               // how it is
	ErrorInfo *ErrorInfo    `json:"errorInfo,omitempty"` // what is wrong with it
}

// InstanceState is how an instance is.
type InstanceState string

// The states of instances.
const (
	InstanceActivating InstanceState = "activating"
	InstanceActive     InstanceState = "active"
	InstanceInactive   InstanceState = "inactive" // it has run to its end, or an operator has stopped it
	InstanceFailed     InstanceState = "failed"
)

// ErrorOf is an error as v7 tells it; nil for nil.
func ErrorOf(err *wire.Error) *ErrorInfo {
	if err == nil {
		return nil
	}
	return &ErrorInfo{AosCode: aosCode(err.Code), Message: err.Error()}
}

// aosCode is the code of v7 for one of ours: those for which there is no other are 1, failed.
func aosCode(c wire.Code) int {
	switch c {
	case wire.CodeTooLarge:
		return 4 // out of range
	case wire.CodeNotFound:
		return 5
	case wire.CodeMalformed, wire.CodeUnknownField, wire.CodeDuplicate, wire.CodeMissing, wire.CodeBadValue,
		wire.CodeInvalidArgument, wire.CodeWrongTarget:
		return 6 // invalid argument
	case wire.CodeTimeout, wire.CodeNoAnswer, wire.CodeExpired, wire.CodeUnconfirmed:
		return 7 // time-out
	case wire.CodeAlreadyExists:
		return 8
	case wire.CodeWrongState, wire.CodeStale, wire.CodeFork, wire.CodeQuarantined, wire.CodeBelowFloor, wire.CodeDrift:
		return 9 // wrong state
	case wire.CodeHashMismatch, wire.CodeBadSignature, wire.CodeUnsigned, wire.CodeUnknownKey:
		return 10 // checksum
	case wire.CodeNotSupported, wire.CodeWrongVersion, wire.CodeNotAllowed:
		return 12 // not supported
	case wire.CodeInterrupted:
		return 14 // cancelled
	}
	return 1
}
