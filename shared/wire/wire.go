// Package wire owns the messages that travel between the controller and the nodes: their
// shapes, their strict decoding, their states and their error codes. It is the public contract
// described in shared/docs/wire.md, version 1, and changes only by raising Version.
//
// It guarantees that a document's body is carried byte for byte, never re-encoded, and that a
// decoder refuses what the contract does not name. It does no I/O and reads no clock.
//
//tandem:pure
package wire

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is the wire version. History:
//
//	1  desired, reported, live, event, request, reply, beacon
const Version = 1

// Limits on what either side accepts, in bytes.
const (
	MaxPacket  = 256 << 10 // a whole MQTT packet
	MaxBody    = 64 << 10  // a document body inside an envelope; larger ones travel by reference
	MaxMessage = 1 << 10   // an error's message
	MaxPath    = 512       // an error's JSON pointer
)

// Kind names what a document is about.
type Kind string

// The document kinds. Info is only ever reported; Health has settings one way and status the other.
const (
	KindConfig     Kind = "config"
	KindPolicies   Kind = "policies"
	KindComponents Kind = "components"
	KindWorkloads  Kind = "workloads"
	KindInfo       Kind = "info"
	KindHealth     Kind = "health"
)

// Kinds lists every kind that the wire names, by name. It is the only such list: every input refuses a kind
// that is not in it, and names it.
func Kinds() []Kind {
	return []Kind{KindComponents, KindConfig, KindHealth, KindInfo, KindPolicies, KindWorkloads}
}

// Known reports whether the wire names the kind.
func (k Kind) Known() bool { return slices.Contains(Kinds(), k) }

// Stamp orders the documents of one unit: by epoch, then by rev. The order of arrival means nothing.
type Stamp struct {
	Epoch uint64 `json:"epoch"`
	Rev   uint64 `json:"rev"`
}

// Compare returns -1, 0 or 1 as s is older than, equal to or newer than o.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.Epoch, o.Epoch), cmp.Compare(s.Rev, o.Rev))
}

// IsZero reports whether s is the stamp of no document.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// Mode says what a node does with an accepted document.
type Mode string

// Apply makes a document last; Try rolls it back unless it is confirmed in time.
const (
	ModeApply Mode = "apply"
	ModeTry   Mode = "try"
)

// Ref points at a body too large for an envelope.
type Ref struct {
	URL  string `json:"url"`
	Hash string `json:"hash"` // "sha256:" and 64 hex digits
	Size int64  `json:"size,omitzero"`
}

// Signature is an Ed25519 signature over a message's preimage, or over the root of a Merkle tree
// of which the preimage is a leaf. See package seal.
type Signature struct {
	KeyID   string `json:"kid"`
	Ed25519 []byte `json:"ed25519"`        // 64 bytes, base64 on the wire
	Path    []byte `json:"path,omitempty"` // the way up, leaf to root: 32 bytes a step; empty: signed directly
}

// Desired is what a node should be: controller to node, retained.
type Desired struct {
	V             int            `json:"v"`
	Unit          string         `json:"unit"`
	Node          string         `json:"node"`
	Kind          Kind           `json:"kind"`
	Epoch         uint64         `json:"epoch"`
	Rev           uint64         `json:"rev"`
	Version       string         `json:"version"`
	Hash          string         `json:"hash"` // of the body's exact bytes
	Issued        time.Time      `json:"issued"`
	Mode          Mode           `json:"mode"`
	ConfirmWithin string         `json:"confirmWithin,omitempty"` // ISO 8601 duration, with ModeTry only
	Body          jsontext.Value `json:"body,omitzero"`
	Ref           *Ref           `json:"ref,omitempty"`
	Sig           *Signature     `json:"sig,omitempty"`
}

// Stamp returns the document's place in the order.
func (d *Desired) Stamp() Stamp { return Stamp{d.Epoch, d.Rev} }

// DocRef names one issued document without its body.
type DocRef struct {
	Epoch   uint64 `json:"epoch"`   // of the unit when it was issued
	Rev     uint64 `json:"rev"`     // of the record that issued it
	Version string `json:"version"` // of the content
	Hash    string `json:"hash"`    // of the document's bytes
}

// Stamp returns the document's place in the order.
func (d *DocRef) Stamp() Stamp { return Stamp{d.Epoch, d.Rev} }

// State is how far a node has come with a document.
type State string

// The states of an attempt. Installed means applied and confirmed running.
const (
	StateReceived   State = "received"
	StateRejected   State = "rejected"
	StateApplying   State = "applying"
	StateTrying     State = "trying"
	StateInstalled  State = "installed"
	StateFailed     State = "failed"
	StateRolledBack State = "rolledback"
	StateSuperseded State = "superseded"
)

// Settled reports whether a node that is in this state will do nothing more with the document
// by itself.
func (s State) Settled() bool {
	switch s {
	case StateRejected, StateInstalled, StateFailed, StateRolledBack, StateSuperseded:
		return true
	}
	return false
}

// Known reports whether s is a state of the contract.
func (s State) Known() bool {
	switch s {
	case StateReceived, StateRejected, StateApplying, StateTrying, StateInstalled, StateFailed, StateRolledBack,
		StateSuperseded:
		return true
	}
	return false
}

// Attempt is the newest document a node has dealt with, and what came of it.
type Attempt struct {
	Epoch   uint64    `json:"epoch"`           // of the document
	Rev     uint64    `json:"rev"`             // of the document
	Version string    `json:"version"`         // of the document
	Hash    string    `json:"hash"`            // of the document
	State   State     `json:"state"`           // of the attempt
	Error   *Error    `json:"error,omitempty"` // why it was not installed
	Attempt int       `json:"attempt"`         // 1 for the first
	At      time.Time `json:"at"`              // by the node's clock
}

// Stamp returns the attempted document's place in the order.
func (a *Attempt) Stamp() Stamp { return Stamp{a.Epoch, a.Rev} }

// Reported is what a node is: node to controller, retained.
type Reported struct {
	V       int            `json:"v"`
	Node    string         `json:"node"`
	Kind    Kind           `json:"kind"`
	Boot    string         `json:"boot"` // compare for equality only
	Seq     uint64         `json:"seq"`  // from 1, per boot and kind
	Running *DocRef        `json:"running,omitempty"`
	Last    *Attempt       `json:"last,omitempty"`
	Detail  jsontext.Value `json:"detail,omitzero"`
}

// Live says that a node is there, and what the newest of each of its messages is, so that the
// receiver can ask for what it missed. It is also the node's last will, with Up false.
type Live struct {
	V       int             `json:"v"`
	Node    string          `json:"node"`
	Boot    string          `json:"boot"`
	Session uint64          `json:"session"` // counts connections within a boot, from 1
	Up      bool            `json:"up"`
	Seqs    map[Kind]uint64 `json:"seqs,omitempty"`   // newest report of each kind
	Events  uint64          `json:"events,omitempty"` // newest event; counts across boots
}

// Event is something that happened on a node. Events wait on the node's disk until the
// controller has them.
type Event struct {
	V      int            `json:"v"`
	Node   string         `json:"node"`
	Boot   string         `json:"boot"`
	Seq    uint64         `json:"seq"` // from 1, across boots, without gaps but for Lost
	At     time.Time      `json:"at"`
	Type   string         `json:"type"`
	Lost   uint64         `json:"lost,omitempty"` // events just before this one that the node had no room to keep
	Error  *Error         `json:"error,omitempty"`
	Detail jsontext.Value `json:"detail,omitzero"`
}

// Method names what a request asks for.
type Method string

// The request methods.
const (
	MethodCheck   Method = "check"   // CheckParams: would you take this document? Result: CheckResult
	MethodReport  Method = "report"  // no params: publish live and every report again. Result: null
	MethodEvents  Method = "events"  // EventsParams: publish the events after this one again. Result: null
	MethodConfirm Method = "confirm" // ConfirmParams: keep the tried document. Result: null
	// RebootParams: reboot, once no trial is under way. Result: null, before it happens
	MethodReboot  Method = "reboot"
	MethodTry     Method = "try"     // TryParams: start the staged slot on trial. Result: null, before it happens
	MethodApprove Method = "approve" // ApproveParams: the tried slot may be kept. Result: null
	MethodRestart Method = "restart" // RestartParams: start a workload's process anew. Result: null, before it happens
	MethodLogs    Method = "logs"    // LogsParams: what a workload has written. Result: LogsResult
)

// Request is one question to one node.
type Request struct {
	V        int            `json:"v"`
	Unit     string         `json:"unit"`
	Node     string         `json:"node"`
	ID       string         `json:"id"` // the reply carries it back
	Method   Method         `json:"method"`
	Params   jsontext.Value `json:"params,omitzero"`
	NotAfter time.Time      `json:"notAfter"`
	Sig      *Signature     `json:"sig,omitempty"`
}

// CheckParams carries a document that is not issued yet.
type CheckParams struct {
	Kind    Kind           `json:"kind"`
	Version string         `json:"version"`
	Body    jsontext.Value `json:"body,omitzero"`
}

// CheckResult says whether the node would take the document, and why not.
type CheckResult struct {
	OK     bool     `json:"ok"`
	Errors []*Error `json:"errors,omitempty"` // at most a few; the first is the main one
}

// EventsParams asks for every event with a higher sequence number; what is at or below it may
// be forgotten by the node.
type EventsParams struct {
	After uint64 `json:"after"`
}

// ConfirmParams names the tried document to keep.
type ConfirmParams struct {
	Kind  Kind   `json:"kind"`
	Epoch uint64 `json:"epoch"`
	Rev   uint64 `json:"rev"`
}

// Reply answers the request of the same ID: with a result or with an error.
type Reply struct {
	V      int            `json:"v"`
	Node   string         `json:"node"`
	ID     string         `json:"id"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  *Error         `json:"error,omitempty"`
}

// Key is a public signing key of the unit.
type Key struct {
	ID      string `json:"kid"`
	Ed25519 []byte `json:"ed25519"` // 32 bytes, base64 on the wire
}

// Beacon is what every node of a unit hears first. As the controller's last will it has Up false.
type Beacon struct {
	V       int        `json:"v"`
	Unit    string     `json:"unit"`
	Epoch   uint64     `json:"epoch"`
	Up      bool       `json:"up"`
	Time    time.Time  `json:"time"`
	Keys    []Key      `json:"keys"`             // those that count, the oldest first
	KeysRev uint64     `json:"keysRev,omitzero"` // orders the lists of keys; 0: the unit's first
	Jitter  string     `json:"jitter"`           // ISO 8601: nodes spread repeated reports over this long
	Sig     *Signature `json:"sig,omitempty"`

	// Maintenance announces, by the controller's clock, until when the controller or the road to it may be
	// away on purpose: nodes stop the clocks that a loss of contact runs on. See MaxMaintenance.
	Maintenance time.Time `json:"maintenance,omitzero"`
}

// Submission is what the cloud side puts into inbox/{what}.
type Submission struct {
	V             int            `json:"v"`
	ID            string         `json:"id"`   // the answer carries it back
	From          string         `json:"from"` // who submits, for the journal
	Mode          Mode           `json:"mode,omitempty"`
	ConfirmWithin string         `json:"confirmWithin,omitempty"`
	Document      jsontext.Value `json:"document,omitzero"`
}

// Answer is what the controller says to a Submission, on outbox/{what}.
type Answer struct {
	V       int    `json:"v"`
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
	State   string `json:"state"` // accepted or refused
	Error   *Error `json:"error,omitempty"`
}

// NodeInfo is the detail of a reported/info envelope (seed 000, Node Info Change).
type NodeInfo struct {
	Type         string            `json:"type"`                 // the node type, nodeGroupSubject.codename of seed 000
	OS           string            `json:"os"`                   // operating system, as Go names it
	Arch         string            `json:"arch"`                 // processor architecture, as Go names it
	CPUs         int               `json:"cpus"`                 // number of processors
	RAM          uint64            `json:"ram"`                  // bytes
	Partitions   []Partition       `json:"partitions,omitempty"` // of its disks
	Attributes   map[string]string `json:"attributes,omitempty"` // set on the node
	AgentVersion string            `json:"agentVersion"`         // of the agent's program
	Keys         []string          `json:"keys,omitempty"`       // IDs of the signing keys that the node believes
	Error        *Error            `json:"error,omitempty"`      // the node's own trouble, when it has any
}

// Partition is one file system of a node that configurations may name.
type Partition struct {
	Name string `json:"name"` // of the partition
	Path string `json:"path"` // where it is mounted
	Size uint64 `json:"size"` // bytes
}
