package view

import (
	"time"

	"tandem.internal/shared/wire"
)

// HealthState is a node's health in a word. The list only grows.
type HealthState string

// The states: what matters most comes first.
const (
	HealthRestart HealthState = "restart" // a restart was decided
	HealthTrial   HealthState = "trial"   // a slot is on trial
	HealthCheck   HealthState = "check"   // a functional check fails
	HealthError   HealthState = "error"   // something else is wrong, see Text
	HealthContact HealthState = "contact" // the controller is not heard
	HealthOK      HealthState = "ok"
	HealthUnknown HealthState = "unknown" // the node has not told
)

// Health is a node's health at a glance, as the node told it last.
type Health struct {
	State      HealthState `json:"state"`               // in a word
	Text       string      `json:"text"`                // a few words: "ok", "trial 1.5.0 4m left", "check disk"
	Alerts     int         `json:"alerts,omitempty"`    // raised
	ReportedAt time.Time   `json:"reportedAt,omitzero"` // when the node told
}

// NodeHealth is all that is known of a node's health.
type NodeHealth struct {
	Node   string       `json:"node"`             // name of the node
	Online bool         `json:"online"`           // it is connected
	Since  time.Time    `json:"since,omitzero"`   // online or offline since
	Health Health       `json:"health"`           // at a glance
	Report *wire.Health `json:"report,omitempty"` // as the node told it last
	Raised []Alert      `json:"raised,omitempty"` // alerts, the oldest first
}

// Alert is one that was raised and has not fallen (seed 000, Alert Rules).
type Alert struct {
	Tag       string    `json:"tag"`          // of the alert rule
	Parameter string    `json:"parameter"`    // "cpu", "partition:services"
	Value     float64   `json:"value"`        // the newest known
	Min       float64   `json:"minThreshold"` // the alert falls below it
	Max       float64   `json:"maxThreshold"` // the alert is raised above it
	Since     time.Time `json:"since"`        // by the node's clock
	At        time.Time `json:"at"`           // when it was heard of last
}

// NodeAlert is an alert, and where it is raised.
type NodeAlert struct {
	Node   string `json:"node"`           // name of the node
	Type   string `json:"type,omitempty"` // node type, as the node told
	Online bool   `json:"online"`         // it is connected
	Alert
}

// Rule is why a setting counts for a node.
type Rule string

// The rules, the first that fits counts.
const (
	ByNode    Rule = "node"
	ByType    Rule = "type"
	ByDefault Rule = "default"
)

// Scope says whom settings are for: one of the three.
type Scope struct {
	All   bool     `json:"all,omitzero"`    // every node
	Types []string `json:"types,omitempty"` // nodes of these types
	Nodes []string `json:"nodes,omitempty"` // nodes with these names
}

// MaxScope is how many names a Scope has at most.
const MaxScope = 1000

// HealthSettings are all settings of health that operators have made.
type HealthSettings struct {
	Rev   uint64                   `json:"rev"`             // record of the newest change; 0: there was none
	All   *HealthSetting           `json:"all,omitempty"`   // of all nodes
	Types map[string]HealthSetting `json:"types,omitempty"` // by node type
	Nodes map[string]HealthSetting `json:"nodes,omitempty"` // by node
}

// HealthSetting is one of them, as it was given.
type HealthSetting struct {
	Settings wire.HealthSettings `json:"settings"`      // what is wanted
	Rev      uint64              `json:"rev"`           // of the record that has it
	At       time.Time           `json:"at"`            // when it was made
	Who      string              `json:"who,omitempty"` // made it
}

// NodeSettings are the settings of one node.
type NodeSettings struct {
	Node     string         `json:"node"`               // name of the node
	Type     string         `json:"type,omitempty"`     // node type, as the node told
	Rule     Rule           `json:"rule,omitempty"`     // why Set is for this node
	Set      *HealthSetting `json:"set,omitempty"`      // nil: nothing is set for it
	Document *Document      `json:"document,omitempty"` // what became of it there
	// as the node told: with its own settings and the defaults
	InEffect *wire.HealthSettings `json:"inEffect,omitempty"`
}

// SettingsChange is what came of a change of settings.
type SettingsChange struct {
	Rev     uint64   `json:"rev"`               // of the record that has it
	Issued  int      `json:"issued"`            // documents made from it
	Unknown []string `json:"unknown,omitempty"` // named nodes that were never heard of; they get it when they come
}

// Maintenance is one that the beacon announces.
type Maintenance struct {
	Since  time.Time `json:"since"`            // when it began
	Until  time.Time `json:"until"`            // when it ends
	Who    string    `json:"who,omitempty"`    // announced it
	Reason string    `json:"reason,omitempty"` // as announced
}

// Ordered is an order that a node has accepted.
type Ordered struct {
	Node   string      `json:"node"`   // name of the node
	Method wire.Method `json:"method"` // "reboot", "try", "approve", "restart" or "log-level"
	ID     string      `json:"id"`     // of the request, in the journal
	Rev    uint64      `json:"rev"`    // of the record that has the answer
}
