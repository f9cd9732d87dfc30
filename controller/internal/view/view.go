// Package view owns the shapes in which the controller shows a unit: the JSON of the HTTP API and
// of the operator's CLI. It has no behaviour. Fields are only ever added.
//
//tandem:pure
package view

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// Identity is how a node stands with the unit's CA.
type Identity struct {
	State     string    `json:"state"` // "enrolled" (a token is open), "joined" or "revoked"
	Joined    time.Time `json:"joined,omitzero"`
	Expires   time.Time `json:"expires,omitzero"` // of its newest certificate
	Revoked   time.Time `json:"revoked,omitzero"`
	RevokedBy string    `json:"revokedBy,omitempty"`
}

// Enrolment is a token for a node, shown once.
type Enrolment struct {
	Node       string    `json:"node"`
	Token      string    `json:"token"`
	Expires    time.Time `json:"expires"`
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
	Identity    string    `json:"identity"`
	Certificate string    `json:"certificate"` // PEM
	CA          string    `json:"ca"`          // PEM
	Expires     time.Time `json:"expires"`
}

// Remark is the data of a note in the journal: what happened beside the unit's state.
type Remark struct {
	Text  string `json:"text"`
	Token string `json:"token,omitempty"` // name of the operator's token that it is about
	Role  string `json:"role,omitempty"`
}

// Token is an operator's token as it is listed; what it is itself is shown once, in a Grant.
type Token struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"` // "view", "operate" or "admin"
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"` // who made it
	Expires time.Time `json:"expires,omitzero"`
	Expired bool      `json:"expired,omitzero"`
}

// Grant is a new token, shown once, with what its bearer needs besides.
type Grant struct {
	Token
	Secret string `json:"token"`         // what goes after "Authorization: Bearer"
	URL    string `json:"url,omitempty"` // of the controller; empty: it serves its unix socket only
	CA     string `json:"ca,omitempty"`  // fingerprint of the unit's CA, which vouches for URL
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
}

// Result is the verdict on a Submission.
type Result struct {
	ID       string        `json:"id"`
	State    string        `json:"state"` // "accepted", "refused"; with DryRun "acceptable" instead of accepted
	Version  string        `json:"version,omitempty"`
	Rev      uint64        `json:"rev,omitempty"` // of the documents issued
	Epoch    uint64        `json:"epoch,omitempty"`
	Mode     wire.Mode     `json:"mode,omitempty"`
	Deadline time.Time     `json:"deadline,omitzero"` // a trial ends then unless confirmed
	Error    *wire.Error   `json:"error,omitempty"`   // the first of Problems, or the rule that said no
	Problems []*wire.Error `json:"problems,omitempty"`
	Checks   Checks        `json:"checks"`
	Issued   int           `json:"issued"`             // documents made from it
	Placed   *Placed       `json:"placed,omitempty"`   // of workloads
	Warnings []Warning     `json:"warnings,omitempty"` // what a lenient reading let pass, at most 100
}

// Checks is what the nodes said to a Submission before it was accepted.
type Checks struct {
	Asked     int         `json:"asked"`
	Agreed    int         `json:"agreed"`
	Refused   []NodeError `json:"refused,omitempty"`
	Silent    []string    `json:"silent,omitempty"`    // online, but no answer within the deadline
	Unchecked []string    `json:"unchecked,omitempty"` // offline: they judge it when they are back
	Omitted   int         `json:"omitted,omitzero"`    // nodes beyond those that the lists name
}

// NodeError is one node's refusal.
type NodeError struct {
	Node   string        `json:"node"`
	Errors []*wire.Error `json:"errors"`
}

// ConfigStatus is the state of the unit configuration (seed 000, Status Reporting).
type ConfigStatus struct {
	State     string      `json:"state"`               // "absent", "installed" or "failed"
	Version   string      `json:"version"`             // installed; empty when absent
	Rev       uint64      `json:"rev,omitempty"`       // of the newest issue to the whole unit
	Since     time.Time   `json:"since,omitzero"`      // when State began
	Error     *wire.Error `json:"error,omitempty"`     // when failed
	Trial     *Trial      `json:"trial,omitempty"`     // a configuration that awaits confirmation
	Attempted *Attempted  `json:"attempted,omitempty"` // the newest refused one, until a newer is accepted
	Progress  Progress    `json:"progress"`
}

// Trial is a tried unit configuration.
type Trial struct {
	Version  string    `json:"version"`
	Rev      uint64    `json:"rev"`
	Deadline time.Time `json:"deadline"`
}

// Attempted is a refused submission.
type Attempted struct {
	Version string      `json:"version,omitempty"`
	At      time.Time   `json:"at"`
	Who     string      `json:"who,omitempty"`
	Error   *wire.Error `json:"error"`
}

// Progress counts how far the nodes have come with the newest documents issued to them.
type Progress struct {
	Nodes         int       `json:"nodes"`             // known
	Online        int       `json:"online"`            // of them
	Installed     int       `json:"installed"`         // running what they should; with a trial: trying it
	Missing       []Laggard `json:"missing,omitempty"` // not there yet, online ones first; at most 100 of them
	Omitted       int       `json:"omitted,omitempty"` // laggards beyond those listed
	OnlineMissing int       `json:"onlineMissing"`     // online nodes that have not settled on the newest document
	Failed        int       `json:"failed"`            // settled without installing it: rejected, failed, rolled back
}

// Laggard is a node that does not run what it should, and why.
type Laggard struct {
	Node   string      `json:"node"`
	Online bool        `json:"online"`
	State  wire.State  `json:"state,omitempty"` // of the newest document there; empty: nothing heard of it
	Error  *wire.Error `json:"error,omitempty"`
}

// Node is one node.
type Node struct {
	Node       string                 `json:"node"`
	Type       string                 `json:"type,omitempty"`
	Online     bool                   `json:"online"`
	Since      time.Time              `json:"since,omitzero"` // online or offline since
	FirstSeen  time.Time              `json:"firstSeen,omitzero"`
	InSync     bool                   `json:"inSync"`
	Documents  map[wire.Kind]Document `json:"documents,omitempty"`
	Info       *wire.NodeInfo         `json:"info,omitempty"`
	Boot       string                 `json:"boot,omitempty"`
	Session    uint64                 `json:"session,omitempty"`
	Events     uint64                 `json:"events,omitempty"` // newest event journaled
	Identity   *Identity              `json:"identity,omitempty"`
	Health     *Health                `json:"health,omitempty"`
	Raised     []Alert                `json:"raised,omitempty"`     // alerts, the oldest first; only where one node is asked for
	Slots      []Slot                 `json:"slots,omitempty"`      // of workloads; likewise
	Components []wire.HealthComponent `json:"components,omitempty"` // parts of the node that programs update; likewise
}

// Document is one document kind on one node: what it should run, what it runs, what it last tried.
type Document struct {
	Desired    *Desired      `json:"desired,omitempty"`
	Running    *wire.DocRef  `json:"running,omitempty"`
	Last       *wire.Attempt `json:"last,omitempty"`
	InSync     bool          `json:"inSync"`
	ReportedAt time.Time     `json:"reportedAt,omitzero"`
}

// Desired is what was issued to a node.
type Desired struct {
	wire.DocRef
	Mode   wire.Mode `json:"mode"`
	Issued time.Time `json:"issued"`
}

// Version is one entry of the history of the unit configuration, or of the workloads.
type Version struct {
	Seq     uint64      `json:"seq"`
	At      time.Time   `json:"at"`
	Version string      `json:"version,omitempty"`
	State   string      `json:"state"` // "accepted", "refused", "confirmed", "expired", "imported", "failed", "restored"
	Who     string      `json:"who,omitempty"`
	Via     string      `json:"via,omitempty"`
	Mode    wire.Mode   `json:"mode,omitempty"`
	Hash    string      `json:"hash,omitempty"`   // of the submitted document
	Lenient bool        `json:"lenient,omitzero"` // workloads: it was read so
	Error   *wire.Error `json:"error,omitempty"`
}

// Resolved is what one node gets from the installed unit configuration.
type Resolved struct {
	Node     string         `json:"node"`
	Type     string         `json:"type,omitempty"`
	Rule     string         `json:"rule"`            // "node", "type" or "default"
	Entry    string         `json:"entry,omitempty"` // JSON pointer of the entry that was used
	Hash     string         `json:"hash"`
	Document jsontext.Value `json:"document"`
}

// Explanation says where one value of a node's configuration comes from.
type Explanation struct {
	Node    string         `json:"node"`
	Pointer string         `json:"pointer"`
	Value   jsontext.Value `json:"value"`
	Rule    string         `json:"rule"`
	Source  string         `json:"source,omitempty"`  // JSON pointer into the unit configuration; empty: a default
	Why     string         `json:"why"`               // one phrase for people
	Version string         `json:"version"`           // of the unit configuration
	Running string         `json:"running,omitempty"` // version that the node runs
	InForce bool           `json:"inForce"`           // the node reports running exactly this document
	State   wire.State     `json:"state,omitempty"`   // of the newest document there
	Error   *wire.Error    `json:"error,omitempty"`
}

// Entry is one journal record as people read it.
type Entry struct {
	Seq  uint64         `json:"seq"`
	At   time.Time      `json:"at"`
	Type string         `json:"type"`
	Node string         `json:"node,omitempty"`
	Who  string         `json:"who,omitempty"`
	Kind string         `json:"kind,omitempty"`
	Data jsontext.Value `json:"data,omitempty"`
}

// EntryFilter selects journal entries.
type EntryFilter struct {
	From    uint64 // lowest sequence number
	Limit   int    // 0: 1,000
	Node    string
	Types   []string // record type names; for node events also the event's own type
	Reverse bool     // newest first
}

// UnitStatus is the unit at a glance.
type UnitStatus struct {
	Unit        string       `json:"unit"`
	Epoch       uint64       `json:"epoch"`
	Rev         uint64       `json:"rev"`     // newest journal record
	Version     string       `json:"version"` // of the controller's program
	Started     time.Time    `json:"started"`
	Broker      Broker       `json:"broker"`
	Config      ConfigStatus `json:"config"`
	Maintenance *Maintenance `json:"maintenance,omitempty"` // that is announced to the nodes
	Trouble     []string     `json:"trouble,omitempty"`     // what an operator should look at, in words
}

// Broker is the controller's road to its nodes.
type Broker struct {
	Embedded bool      `json:"embedded"`
	Address  string    `json:"address"`
	Up       bool      `json:"up"`
	Since    time.Time `json:"since,omitzero"`
	Error    string    `json:"error,omitempty"`
}
