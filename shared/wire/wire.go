// Package wire owns the messages between the controller and the nodes: their types, their strict decoding, their
// states and their error codes. It is the public contract that shared/docs/wire.md describes. A change that an older
// program cannot read raises Version.
//
// The bytes of a document's body never change on their way. A decoder refuses fields that the contract does not name.
// The package does no I/O and reads no clock.
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
	MaxPayload = 256 << 10          // a whole message: the payload of an MQTT PUBLISH
	MaxPacket  = MaxPayload + 1<<10 // the MQTT packet around it: brokers and links let a larger one not through
	MaxBody    = 64 << 10           // a document body in an envelope; a larger one is referred to, see Ref
	MaxMessage = 1 << 10            // an error's message
	MaxPath    = 512                // an error's JSON pointer
)

// Kind is the subject of a document or report.
type Kind string

// The kinds. Nodes report info and get no document of it. A document of kind health has settings, its report the
// node's health.
const (
	KindConfig     Kind = "config"
	KindPolicies   Kind = "policies"
	KindComponents Kind = "components"
	KindWorkloads  Kind = "workloads"
	KindInfo       Kind = "info"
	KindHealth     Kind = "health"
)

// Kinds returns every kind of the contract, sorted by name. It is the only such list: each input refuses other kinds.
func Kinds() []Kind {
	return []Kind{KindComponents, KindConfig, KindHealth, KindInfo, KindPolicies, KindWorkloads}
}

// Documents returns the kinds of which nodes get documents, sorted by name.
func Documents() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return k == KindInfo })
}

// Known reports whether k is a kind of the contract.
func (k Kind) Known() bool { return slices.Contains(Kinds(), k) }

// Stamp orders the documents of one unit: by epoch, then by rev. The order of arrival has no meaning.
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

// Mode is what a node does with an accepted document.
type Mode string

// ModeApply keeps the document; ModeTry rolls it back unless it is confirmed in time.
const (
	ModeApply Mode = "apply"
	ModeTry   Mode = "try"
)

// Ref refers to a body that is too large for an envelope.
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
	Path    []byte `json:"path,omitempty"` // Merkle path from leaf to root, 32 bytes a step; empty: signed directly
}

// Desired is the envelope of a document, from the controller to one node; retained.
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

// Stamp returns the document's stamp.
func (d *Desired) Stamp() Stamp { return Stamp{d.Epoch, d.Rev} }

// DocRef identifies an issued document.
type DocRef struct {
	Epoch   uint64 `json:"epoch"`   // of the unit when it was issued
	Rev     uint64 `json:"rev"`     // of the record that issued it
	Version string `json:"version"` // of the content
	Hash    string `json:"hash"`    // of the document's bytes
}

// Stamp returns the document's stamp.
func (d *DocRef) Stamp() Stamp { return Stamp{d.Epoch, d.Rev} }

// State is the state of a node's attempt to install a document.
type State string

// The states of an attempt. Installed means applied and confirmed.
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

// Settled reports whether s is final: the node does nothing more with the document of its own accord.
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

// Attempt is the newest document that a node has received, and the state of its installation.
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

// Stamp returns the document's stamp.
func (a *Attempt) Stamp() Stamp { return Stamp{a.Epoch, a.Rev} }

// Reported is a report of one kind, from a node to the controller; retained.
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

// Live reports the presence of a node, and the numbers of its newest reports and events, so that the controller can ask
// for those that it has missed. With Up false it is the node's last will, or its last message before it stops.
type Live struct {
	V       int             `json:"v"`
	Node    string          `json:"node"`
	Boot    string          `json:"boot"`
	Session uint64          `json:"session"` // counts connections within a boot, from 1
	Up      bool            `json:"up"`
	Seqs    map[Kind]uint64 `json:"seqs,omitempty"`   // newest report of each kind
	Events  uint64          `json:"events,omitempty"` // newest event; counts across boots
	Asks    string          `json:"asks,omitempty"`   // mark of a beacon: which documents should this node have?
}

// Event is one occurrence on a node. The node keeps it on its disk until the controller has acknowledged it.
type Event struct {
	V      int            `json:"v"`
	Node   string         `json:"node"`
	Boot   string         `json:"boot"`
	Seq    uint64         `json:"seq"` // from 1, across boots; without gaps, except for Lost
	At     time.Time      `json:"at"`
	Type   string         `json:"type"`
	Lost   uint64         `json:"lost,omitempty"` // number of events before this one for which there was no room
	Error  *Error         `json:"error,omitempty"`
	Detail jsontext.Value `json:"detail,omitzero"`
}

// Method is the name of what a request asks for.
type Method string

// The request methods.
const (
	MethodCheck   Method = "check"   // CheckParams: whether the node would take the document. Result: CheckResult
	MethodReport  Method = "report"  // no params: publish live and every report again. Result: null
	MethodEvents  Method = "events"  // EventsParams: publish events again. Result: null
	MethodConfirm Method = "confirm" // ConfirmParams: keep the document on trial. Result: null
	// RebootParams: reboot the machine, after a trial if there is one. Result: null, before it happens
	MethodReboot  Method = "reboot"
	MethodTry     Method = "try"     // TryParams: start the staged version on trial. Result: null, before it happens
	MethodApprove Method = "approve" // ApproveParams: allow to keep the version on trial. Result: null
	MethodRestart Method = "restart" // RestartParams: restart a workload's process. Result: null, before it happens
	MethodNewest  Method = "newest"  // NewestParams: know which documents are the newest. Result: null
	MethodCA      Method = "ca"      // no params: ask the join door which CAs and brokers count. Result: null
	MethodShow    Method = "show"    // ShowParams: show the newest document's signature. Result: Shown
	MethodLogs    Method = "logs"    // LogsParams: return a workload's output. Result: LogsResult
	// AgentLogParams: return lines of the agent's own log. Result: AgentLog
	MethodAgentLog Method = "agent-log"
	MethodLogLevel Method = "log-level" // LogLevelParams: log more or less for a while. Result: null
	MethodSamples  Method = "samples"   // no params: return what was measured lately. Result: Samples
)

// Request is a request of the controller to one node.
type Request struct {
	V        int            `json:"v"`
	Unit     string         `json:"unit"`
	Node     string         `json:"node"`
	ID       string         `json:"id"` // repeated in the reply
	Method   Method         `json:"method"`
	Params   jsontext.Value `json:"params,omitzero"`
	NotAfter time.Time      `json:"notAfter"`
	Sig      *Signature     `json:"sig,omitempty"`
}

// CheckParams has a document that is not issued yet.
type CheckParams struct {
	Kind    Kind           `json:"kind"`
	Version string         `json:"version"`
	Body    jsontext.Value `json:"body,omitzero"`
}

// CheckResult is a node's verdict: whether it would take the document, and why not.
type CheckResult struct {
	OK     bool     `json:"ok"`
	Errors []*Error `json:"errors,omitempty"` // at most a few; the first is the main one
}

// EventsParams asks for all events with a sequence number above After, and acknowledges the others, which the node may
// delete.
type EventsParams struct {
	After uint64 `json:"after"`
}

// NewestParams says which documents a node should have.
type NewestParams struct {
	Mark   string         `json:"mark"`            // of the beacon that the node has asked about
	Stamps map[Kind]Stamp `json:"stamps,omitzero"` // of its documents, by kind
}

// ConfirmParams identifies the document on trial that the node is to keep.
type ConfirmParams struct {
	Kind  Kind   `json:"kind"`
	Epoch uint64 `json:"epoch"`
	Rev   uint64 `json:"rev"`
}

// Reply is a node's reply to the request with the same ID. It has a result or an error.
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

// Beacon is the controller's signed message to all nodes of the unit; retained. With Up false it is the controller's
// last will, or its last message before it stops.
type Beacon struct {
	V       int        `json:"v"`
	Unit    string     `json:"unit"`
	Epoch   uint64     `json:"epoch"`
	Up      bool       `json:"up"`
	Time    time.Time  `json:"time"`
	Keys    []Key      `json:"keys"`             // the valid ones, the oldest first
	KeysRev uint64     `json:"keysRev,omitzero"` // orders the lists of keys; 0: the unit's first
	Jitter  string     `json:"jitter"`           // ISO 8601: nodes spread repeated reports over this long
	Sig     *Signature `json:"sig,omitempty"`

	// Maintenance is the end of announced maintenance, by the controller's clock. Until then the controller, or the
	// network to it, may be away, and nodes do not count the time without contact. See MaxMaintenance.
	Maintenance time.Time `json:"maintenance,omitzero"`
}

// Submission is a submission over MQTT, published on inbox/{source} by a cloud side.
type Submission struct {
	V             int            `json:"v"`
	ID            string         `json:"id"`   // repeated in the answer
	From          string         `json:"from"` // who submits, for the journal
	Mode          Mode           `json:"mode,omitempty"`
	ConfirmWithin string         `json:"confirmWithin,omitempty"`
	Force         bool           `json:"force,omitzero"`    // also if the same document has failed before
	Time          time.Time      `json:"time,omitzero"`     // when it was signed
	Name          string         `json:"name,omitempty"`    // of what it sets, where a unit has several: a policy
	AllNodes      bool           `json:"allNodes,omitzero"` // a policy may hit every node
	Document      jsontext.Value `json:"document,omitzero"`
	Rollout       jsontext.Value `json:"rollout,omitzero"` // the plan by which nodes get it; absent: all at once
	Sig           *Signature     `json:"sig,omitempty"`    // by the submitter; not signed as a tree
}

// Answer is the controller's answer to a Submission, published on outbox/{source}.
type Answer struct {
	V       int    `json:"v"`
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
	State   string `json:"state"` // accepted or refused
	Error   *Error `json:"error,omitempty"`
	// when it was published, by the controller's clock; there if Sig is
	Time time.Time  `json:"time,omitzero"`
	Of   string     `json:"of,omitempty"`  // hash of the payload that it answers; absent after a restart
	Sig  *Signature `json:"sig,omitempty"` // by the controller's key
}

// UnitStatus is the state of the unit configuration, on outbox/status (seed 000, Status Reporting).
type UnitStatus struct {
	V       int          `json:"v"`
	State   string       `json:"state"` // absent, installed or failed
	Version string       `json:"version"`
	Error   *Error       `json:"error,omitempty"`
	Trial   *StatusTrial `json:"trial,omitempty"`
	At      time.Time    `json:"at"`             // since when
	Epoch   uint64       `json:"epoch,omitzero"` // of the journal that it is of; there if Sig is
	Rev     uint64       `json:"rev,omitzero"`   // of the newest record then; it grows within an epoch
	Time    time.Time    `json:"time,omitzero"`  // when it was made, by the controller's clock
	Part    *StatusPart  `json:"part,omitempty"` // of the status of the whole unit; nil: this is the configuration's
	Sig     *Signature   `json:"sig,omitempty"`  // by the controller's key
}

// StatusPart is a part of the status of the whole unit (seed 001, UnitStatus message sequence). All parts of one have
// the same Epoch, Rev and Time, Prev, PrevTime and Of.
type StatusPart struct {
	Prev     uint64    `json:"prev,omitzero"`     // Rev of the status that this is a delta to; 0: it is whole
	PrevTime time.Time `json:"prevTime,omitzero"` // Time of that: of a rev there may be several; there if Prev is
	Part     int       `json:"part"`              // which one, from 1
	Of       int       `json:"of"`                // how many there are
	Data     []byte    `json:"data"`              // a piece of the status, compressed with gzip
}

// StatusTrial is the version that nodes try.
type StatusTrial struct {
	Version  string    `json:"version"`  // on trial
	Rev      uint64    `json:"rev"`      // of the documents issued
	Deadline time.Time `json:"deadline"` // it ends then unless confirmed
}
