package op

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/view"
)

// Alive is the answer to GET /healthz and GET /readyz.
type Alive struct {
	Status string    `json:"status"` // "ok"
	At     time.Time `json:"at"`     // by the controller's clock
}

// History is what became of every submission of a kind, oldest first.
type History struct {
	Versions []view.Version `json:"versions"` // oldest first
}

// Nodes are nodes, sorted by name.
type Nodes struct {
	Nodes []view.Node `json:"nodes"` // sorted by name
	// what after has to be for those that follow; absent: there are none
	Next string `json:"next,omitempty"`
}

// NodeChange is one line of a node watch. First come all nodes and a line with Complete, then
// whatever changes, each batch ended by Complete.
type NodeChange struct {
	Node     *view.Node `json:"node,omitempty"`     // as it is now
	Gone     string     `json:"gone,omitempty"`     // name of a node that is not known any more
	Complete bool       `json:"complete,omitempty"` // the batch ends here
}

// Announced is the maintenance that is announced now.
type Announced struct {
	Maintenance *view.Maintenance `json:"maintenance,omitempty"` // what is announced now; absent: nothing
}

// Exported is a line of the journal's export: a record with all that it has.
type Exported struct {
	Seq  uint64         `json:"seq"`            // sequence number
	At   time.Time      `json:"at"`             // by the controller's clock
	Type string         `json:"type"`           // of the record
	Node string         `json:"node"`           // that it is about; "" for the unit
	Who  string         `json:"who"`            // caused it; "" for the node or the controller itself
	Kind string         `json:"kind"`           // of the document that it is about; of an event, the event's own type
	Data jsontext.Value `json:"data,omitempty"` // of the record; its members depend on the type; null: it has none
	Raw  []byte         `json:"raw,omitempty"`  // instead of data: what is not JSON, as it came
}

// Verification is what a check of the journal found.
type Verification struct {
	OK     bool   `json:"ok"`     // no damage
	Report string `json:"report"` // what was found, in words
}

// Settings is what a controller was started with.
type Settings struct {
	Settings []view.Setting `json:"settings"` // in the order of --help
}

// Tokens is every operator's token, sorted by name.
type Tokens struct {
	Tokens []view.Token `json:"tokens"` // sorted by name
}

// Alerts are alerts that are raised.
type Alerts struct {
	Alerts  []view.NodeAlert `json:"alerts"`           // by node, at most MaxAlerts
	Omitted int              `json:"omitted,omitzero"` // alerts beyond those
}

// MaxAlerts is how many alerts one answer has at most.
const MaxAlerts = 10_000

// Slots are slots of workloads, by node and service.
type Slots struct {
	Slots []view.Slot `json:"slots"` // sorted by node, then service
}
