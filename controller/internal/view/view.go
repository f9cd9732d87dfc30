// Package view owns the shapes in which the controller shows a unit: the JSON of the HTTP API and
// of the operator's CLI. It has no behaviour. Fields are only ever added.
//
//tandem:pure
package view

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/cloud"
	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Identity is how a node stands with the unit's CA.
type Identity struct {
	State     string    `json:"state"`               // "enrolled" (a token is open), "joined" or "revoked"
	Joined    time.Time `json:"joined,omitzero"`     // when it joined first
	Expires   time.Time `json:"expires,omitzero"`    // of its newest certificate
	Revoked   time.Time `json:"revoked,omitzero"`    // when it was revoked
	RevokedBy string    `json:"revokedBy,omitempty"` // who revoked it
	Proves    time.Time `json:"proves,omitzero"`     // since when it proves its messages; absent: it does not
}

// Enrolment is a token for a node, shown once.
type Enrolment struct {
	Node       string    `json:"node"`       // name of the node
	Token      string    `json:"token"`      // what the node joins with
	Expires    time.Time `json:"expires"`    // end of the token
	Controller string    `json:"controller"` // URL of the join door
	CA         string    `json:"ca"`         // fingerprint of the unit's CA
}

// Certification asks for the certificate of somebody who is not a node.
type Certification struct {
	Identity string   `json:"identity"`        // "cloud/eu", "operator/ann" or "broker/b1"
	CSR      string   `json:"csr"`             // PKCS #10 in PEM
	Hosts    []string `json:"hosts,omitempty"` // of a broker
}

// Certificate is what a Certification brings.
type Certificate struct {
	Identity    string    `json:"identity"`    // whom it is for
	Certificate string    `json:"certificate"` // PEM
	CA          string    `json:"ca"`          // PEM
	Expires     time.Time `json:"expires"`     // end of the certificate
}

// Remark is the data of a note in the journal: what happened beside the unit's state.
type Remark struct {
	Text  string `json:"text"`
	Token string `json:"token,omitempty"` // name of the operator's token that it is about
	Role  string `json:"role,omitempty"`
}

// Token is an operator's token as it is listed; what it is itself is shown once, in a Grant.
type Token struct {
	Name    string    `json:"name"`             // by which the journal knows who did what
	Role    string    `json:"role"`             // "metrics", "view", "operate" or "admin"
	Created time.Time `json:"created"`          // when it was made
	By      string    `json:"by,omitempty"`     // who made it
	Expires time.Time `json:"expires,omitzero"` // end of the token; absent: it counts until it is revoked
	Expired bool      `json:"expired,omitzero"` // it does not count any more
}

// Grant is a new token, shown once, with what its bearer needs besides.
type Grant struct {
	Token
	Secret string `json:"token"`         // what goes after "Authorization: Bearer"
	URL    string `json:"url,omitempty"` // of the controller; empty: it serves its unix socket only
	CA     string `json:"ca,omitempty"`  // fingerprint of the unit's CA, which vouches for URL
}

// Self is who a caller is to the controller.
type Self struct {
	Name string `json:"name,omitempty"` // of its token; absent: it has come by the unix socket
	Who  string `json:"who"`            // as the journal names it
	Role string `json:"role"`           // "view", "operate" or "admin"
}

// Submission is one unit configuration, or set of workloads, on its way in, from any door.
type Submission struct {
	Kind          wire.Kind     // of the documents to be made of it; it is never guessed
	Version       string        // of a set of workloads; "" derives one. A unit configuration has its own
	Lenient       bool          // workloads only: read what people leave out as meant
	Document      []byte        // exact bytes as given
	Who           string        // lands in the journal beside the verdict
	Via           string        // "http", "cli", "inbox" or "file"
	ID            string        // the submitter's own; "" makes one
	Mode          wire.Mode     // "" means apply
	ConfirmWithin time.Duration // with wire.ModeTry only
	DryRun        bool          // check only: every verdict, nothing journaled as accepted
	Offline       bool          // do not ask the nodes: they still judge what they receive
	Force         bool          // also if the same document has failed before
	Signed        time.Time     // when Who signed it; zero: it is not signed
	// the plan by which nodes get it, as it was given; nil: all get it at once
	Rollout jsontext.Value
}

// PlanHash is the hash of the plan; "": there is none.
func (s *Submission) PlanHash() string {
	if s.Rollout == nil {
		return ""
	}
	return wire.Hash(s.Rollout)
}

// Result is the verdict on a Submission.
type Result struct {
	ID       string      `json:"id"`                // of the submission
	State    string      `json:"state"`             // "accepted", "refused"; with DryRun "acceptable"
	Version  string      `json:"version,omitempty"` // of the document
	Rev      uint64      `json:"rev,omitempty"`     // of the documents issued
	Epoch    uint64      `json:"epoch,omitempty"`   // of the unit
	Mode     wire.Mode   `json:"mode,omitempty"`    // "apply" or "try"
	Deadline time.Time   `json:"deadline,omitzero"` // a trial ends then unless confirmed
	Error    *wire.Error `json:"error,omitempty"`   // the first of Problems, or the rule that said no
	// with DryRun: the same document has failed before, and would be refused unless it is forced
	Quarantined *wire.Error   `json:"quarantined,omitempty"`
	Problems    []*wire.Error `json:"problems,omitempty"` // of the document
	Checks      Checks        `json:"checks"`             // what the nodes said
	Issued      int           `json:"issued"`             // documents made from it
	Rollout     string        `json:"rollout,omitempty"`  // ID of the rollout that brings it to the nodes
	Placed      *Placed       `json:"placed,omitempty"`   // of workloads
	Warnings    []Warning     `json:"warnings,omitempty"` // what a lenient reading let pass, at most 100
}

// Checks is what the nodes said to a Submission before it was accepted.
type Checks struct {
	Asked     int         `json:"asked"`               // nodes that were asked
	Agreed    int         `json:"agreed"`              // nodes that had nothing against it
	Refused   []NodeError `json:"refused,omitempty"`   // nodes that said no
	Silent    []string    `json:"silent,omitempty"`    // online, but no verdict within the deadline
	Unchecked []string    `json:"unchecked,omitempty"` // offline: they judge it when they are back
	Omitted   int         `json:"omitted,omitzero"`    // nodes beyond those that the lists name
}

// NodeError is what one node has told: why it refuses a document, or what it is in error with.
type NodeError struct {
	Node   string        `json:"node"`   // name of the node
	Errors []*wire.Error `json:"errors"` // the main one first
}

// SourceStatus is the state of a source of documents, such as the unit configuration (seed 000, Status Reporting),
// and how far the nodes have come with it.
type SourceStatus struct {
	State     string        `json:"state"`               // "absent", "installed" or "failed"
	Version   string        `json:"version"`             // installed; empty when absent
	Rev       uint64        `json:"rev,omitempty"`       // of the newest issue to the whole unit
	Since     time.Time     `json:"since,omitzero"`      // when State began
	Who       string        `json:"who,omitempty"`       // submitted what is installed
	Error     *wire.Error   `json:"error,omitempty"`     // when failed
	Trial     *Trial        `json:"trial,omitempty"`     // a document that awaits confirmation
	Attempted *Attempted    `json:"attempted,omitempty"` // the newest refused one, until a newer is accepted
	Progress  Progress      `json:"progress"`            // of the nodes with the newest documents
	Slots     *SlotProgress `json:"slots,omitempty"`     // of workloads and components
	Unknown   []string      `json:"unknown,omitempty"`   // of both: nodes that were never heard of
	NoBroker  string        `json:"noBroker,omitempty"`  // why the controller, so far without a broker, reaches no node
}

// Diff is what changes from one document to another.
type Diff struct {
	From    string   `json:"from"`             // version of the older one
	To      string   `json:"to"`               // version of the newer one
	Changes []Change `json:"changes"`          // value by value
	Omitted int      `json:"omitted,omitzero"` // changes beyond those that the list has
}

// Change is one value that differs between two documents.
type Change = unitconfig.Change

// Trial is a tried document.
type Trial struct {
	Version  string    `json:"version"`  // on trial
	Rev      uint64    `json:"rev"`      // of the documents issued
	Deadline time.Time `json:"deadline"` // it ends then unless confirmed
}

// Attempted is a refused submission.
type Attempted struct {
	Version string      `json:"version,omitempty"` // as submitted
	At      time.Time   `json:"at"`                // when it was refused
	Who     string      `json:"who,omitempty"`     // submitted it
	Error   *wire.Error `json:"error"`             // why it was refused
}

// Progress counts how far the nodes have come with the newest documents issued to them.
type Progress struct {
	Nodes         int       `json:"nodes"`             // known, and not revoked
	Online        int       `json:"online"`            // of them
	Installed     int       `json:"installed"`         // running what they should; with a trial: trying it
	Missing       []Laggard `json:"missing,omitempty"` // not there yet, online ones first; at most 100 of them
	Omitted       int       `json:"omitted,omitempty"` // laggards beyond those listed
	OnlineMissing int       `json:"onlineMissing"`     // online nodes that have not settled on the newest document
	Failed        int       `json:"failed"`            // settled without installing it: rejected, failed, rolled back
}

// Laggard is a node that does not run what it should, and why.
type Laggard struct {
	Node   string      `json:"node"`            // name of the node
	Online bool        `json:"online"`          // it is connected
	State  wire.State  `json:"state,omitempty"` // of the newest document there; empty: nothing heard of it
	Error  *wire.Error `json:"error,omitempty"` // why it does not run it
}

// Node is one node.
type Node struct {
	Node      string                 `json:"node"`                // name of the node
	Type      string                 `json:"type,omitempty"`      // node type, as the node told
	Online    bool                   `json:"online"`              // it is connected
	Since     time.Time              `json:"since,omitzero"`      // online or offline since
	FirstSeen time.Time              `json:"firstSeen,omitzero"`  // when it connected first
	InSync    bool                   `json:"inSync"`              // it runs every document that it should
	Documents map[wire.Kind]Document `json:"documents,omitempty"` // by kind
	Info      *wire.NodeInfo         `json:"info,omitempty"`      // what the node is, as it told
	Boot      string                 `json:"boot,omitempty"`      // ID of the boot that it is in
	Session   uint64                 `json:"session,omitempty"`   // number of its connection to the broker
	Events    uint64                 `json:"events,omitempty"`    // newest event journaled
	Identity  *Identity              `json:"identity,omitempty"`  // how it stands with the unit's CA
	Health    *Health                `json:"health,omitempty"`    // at a glance
	// alerts, oldest first; only where one node is asked for
	Raised     []Alert                `json:"raised,omitempty"`
	Slots      []Slot                 `json:"slots,omitempty"`      // of workloads; likewise
	Components []wire.HealthComponent `json:"components,omitempty"` // parts of the node that programs update; likewise
}

// State is how a node stands with its document of a kind, in a word: the state of the newest document there, "waiting"
// until it has told of that, "unconfigured" if there is none; of a node that is revoked or was never heard of that of
// its Identity.
func (n *Node) State(kind wire.Kind) string {
	d, ok := n.Documents[kind]
	switch {
	case n.Identity != nil && (n.Identity.State == "revoked" || !ok && n.FirstSeen.IsZero()):
		return n.Identity.State
	case d.Desired == nil && d.Last == nil:
		return "unconfigured"
	case d.Last != nil && (d.Desired == nil || d.Last.Stamp() == d.Desired.Stamp()):
		return string(d.Last.State)
	}
	return "waiting"
}

// Document is one document kind on one node: what it should run, what it runs, what it last tried.
type Document struct {
	Desired    *Desired      `json:"desired,omitempty"`   // what it should run
	Running    *wire.DocRef  `json:"running,omitempty"`   // what it runs
	Last       *wire.Attempt `json:"last,omitempty"`      // what it last tried
	InSync     bool          `json:"inSync"`              // it runs what it should
	Error      *wire.Error   `json:"error,omitempty"`     // how what it tells contradicts what was issued to it
	ReportedAt time.Time     `json:"reportedAt,omitzero"` // when the node told
}

// Desired is what was issued to a node.
type Desired struct {
	wire.DocRef
	Mode   wire.Mode `json:"mode"`   // "apply" or "try"
	Issued time.Time `json:"issued"` // when it was issued
}

// Version is one entry of the history of a source.
type Version struct {
	Seq     uint64    `json:"seq"`               // of the journal record
	At      time.Time `json:"at"`                // when it happened
	Version string    `json:"version,omitempty"` // of the document
	// "accepted", "refused", "confirmed", "expired", "imported", "failed", "restored"
	State   string      `json:"state"`
	Who     string      `json:"who,omitempty"`    // caused it
	Via     string      `json:"via,omitempty"`    // door: "cli" (socket, a user's name), "http", "inbox", "file"
	Mode    wire.Mode   `json:"mode,omitempty"`   // "apply" or "try"
	Hash    string      `json:"hash,omitempty"`   // of the submitted document
	Lenient bool        `json:"lenient,omitzero"` // workloads: the document is not strict; of old records only
	Error   *wire.Error `json:"error,omitempty"`  // why it was refused, or failed
}

// Resolved is what one node gets from the installed unit configuration.
type Resolved struct {
	Node     string         `json:"node"`            // name of the node
	Type     string         `json:"type,omitempty"`  // node type
	Rule     string         `json:"rule"`            // "node", "type" or "default"
	Entry    string         `json:"entry,omitempty"` // JSON pointer of the entry that was used
	Hash     string         `json:"hash"`            // of the document
	Document jsontext.Value `json:"document"`        // what the node gets
}

// Explanation says where one value of a node's configuration comes from.
type Explanation struct {
	Node    string         `json:"node"`              // name of the node
	Pointer string         `json:"pointer"`           // JSON pointer into the resolved document
	Value   jsontext.Value `json:"value"`             // what the node gets there
	Rule    string         `json:"rule"`              // "node", "type" or "default"
	Source  string         `json:"source,omitempty"`  // JSON pointer into the unit configuration; empty: a default
	Why     string         `json:"why"`               // one phrase for people
	Version string         `json:"version"`           // of the unit configuration
	Running string         `json:"running,omitempty"` // version that the node runs
	InForce bool           `json:"inForce"`           // the node reports running exactly this document
	State   wire.State     `json:"state,omitempty"`   // of the newest document there
	Error   *wire.Error    `json:"error,omitempty"`   // when State says that it was not installed
}

// Entry is one journal record as people read it.
type Entry struct {
	Seq  uint64         `json:"seq"`            // sequence number, one above the record before
	At   time.Time      `json:"at"`             // by the controller's clock
	Type string         `json:"type"`           // of the record; the page of the HTTP API lists them
	Node string         `json:"node,omitempty"` // that it is about
	Who  string         `json:"who,omitempty"`  // caused it: "uid:1000(alice)", "token/press for bob"
	Kind string         `json:"kind,omitempty"` // of the document that it is about; of an event, the event's own type
	Data jsontext.Value `json:"data,omitempty"` // of the record; its members depend on the type
	// what happened, in one sentence; what is not understood has the data here, cut to 400 characters
	Text  string `json:"text,omitempty"`
	Level Level  `json:"level,omitempty"` // how much it matters
}

// EntryFilter selects journal entries.
type EntryFilter struct {
	From    uint64 // lowest sequence number
	To      uint64 // highest sequence number; 0: the newest
	Limit   int    // 0: 1,000
	Node    string
	Slot    workload.Slot // events about it, and orders to it; zero: everything
	Types   []string      // record type names; for node events also the event's own type
	Reverse bool          // newest first
}

// EntriesSize is how many bytes of data are enough: when entries have so many, those after them are left out.
const EntriesSize = 4 << 20

// UnitStatus is the unit at a glance.
type UnitStatus struct {
	Unit        string       `json:"unit"`                  // ID of the unit
	Epoch       uint64       `json:"epoch"`                 // of the journal
	Rev         uint64       `json:"rev"`                   // newest journal record
	Version     string       `json:"version"`               // of the controller's program
	Started     time.Time    `json:"started"`               // when the controller started
	Broker      Broker       `json:"broker"`                // the controller's road to its nodes
	Config      SourceStatus `json:"config"`                // of the unit configuration
	Maintenance *Maintenance `json:"maintenance,omitempty"` // that is announced to the nodes
	Clock       *ClockJump   `json:"clock,omitempty"`       // why nothing is said to the nodes; absent: it is
	InError     []NodeError  `json:"inError,omitempty"`     // nodes that are in error, as they told; at most 200
	Trouble     []string     `json:"trouble,omitempty"`     // what an operator should look at, in words
	Cloud       *Followed    `json:"cloud,omitzero"`        // what the cloud side wants; absent: others steer
	// nodes, items, instances and subjects as the cloud side hears of them; only if it was asked for
	Report *cloud.UnitStatus `json:"report,omitempty"`
}

// Setting is a setting of the controller.
type Setting struct {
	Name    string `json:"name"`             // as the flag has it
	Value   string `json:"value"`            // as YAML; *** stands for what is secret
	Changed bool   `json:"changed,omitzero"` // it is not at its default
}

// Followed is the desired status that the unit follows.
type Followed struct {
	Rev           uint64   `json:"rev,omitzero"`            // of its record; 0: none was sent yet
	CorrelationID string   `json:"correlationId,omitempty"` // as it was sent
	Who           string   `json:"who,omitempty"`           // sent it
	Failures      []string `json:"failures,omitempty"`      // what of it cannot be there, in words; at most 20
	Omitted       int      `json:"omitted,omitzero"`        // more failures
}

// ClockJump is a jump of the controller's clock by more than a day.
type ClockJump struct {
	Since   time.Time `json:"since"`   // when it was noticed, by time
	Time    time.Time `json:"time"`    // what time it would be without the jump; the controller goes by it
	Clock   time.Time `json:"clock"`   // what the machine's clock shows
	Seconds int64     `json:"seconds"` // by which it jumped; negative: back
}

// Broker is the controller's road to its nodes.
type Broker struct {
	Embedded bool      `json:"embedded"`        // it runs in the controller's process
	Address  string    `json:"address"`         // host and port
	Up       bool      `json:"up"`              // the controller is connected to it
	Since    time.Time `json:"since,omitzero"`  // up or down since
	Error    string    `json:"error,omitempty"` // why it is down
}
