package view

import "time"

// Why says how something is and why: sentences, what is wrong first. There is at least one.
type Why struct {
	About     About     `json:"about"`     // what was asked about
	State     string    `json:"state"`     // of it, in a word for programs; the words depend on About.Kind
	Sentences []Because `json:"sentences"` // for people, the most urgent first
}

// About names what a Why is about: of the names those that its kind has.
type About struct {
	Kind     string `json:"kind"`               // "node", "document", "slot", "item", "rollout" or "policy"
	Node     string `json:"node,omitempty"`     // name of a node
	Document string `json:"document,omitempty"` // kind of a document
	Slot     string `json:"slot,omitempty"`     // service@node
	Item     string `json:"item,omitempty"`     // type/codename
	Rollout  string `json:"rollout,omitempty"`  // its ID
	Policy   string `json:"policy,omitempty"`   // its name
}

// The kinds of an About.
const (
	AboutNode     = "node"
	AboutDocument = "document"
	AboutSlot     = "slot"
	AboutItem     = "item"
	AboutRollout  = "rollout"
	AboutPolicy   = "policy"
)

// Because is one fact as a sentence: where it is known from, and what would change it.
type Because struct {
	Text    string    `json:"text"`        // the fact
	Level   Level     `json:"level"`       // "error", "warning", or "info": it is as it should be
	Source  string    `json:"source"`      // "the node's report of health", "record 812", "the certificate"
	Changes string    `json:"changes"`     // what would change it
	At      time.Time `json:"at,omitzero"` // since when it is so, or when it will change
}

// NodeDiff is what a node runs beside what it should run.
type NodeDiff struct {
	Node  string     `json:"node"`  // its name
	Kinds []KindDiff `json:"kinds"` // those in which something differs first
}

// KindDiff is the same of one kind of documents.
type KindDiff struct {
	Kind    string   `json:"kind"`              // of the documents
	InSync  bool     `json:"inSync"`            // the node runs what it should
	Running string   `json:"running,omitempty"` // version that it runs; absent: none
	Desired string   `json:"desired,omitempty"` // version that it should run; absent: none
	Changes []Change `json:"changes"`           // from what it runs to what it should run, value by value
	Same    int      `json:"same"`              // values that do not differ
	Omitted int      `json:"omitted,omitzero"`  // changes beyond those that the list has
	// why the values of one of them cannot be had, in words; absent: they can
	Unknown string `json:"unknown,omitempty"`
}
