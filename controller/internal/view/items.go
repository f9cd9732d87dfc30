package view

import (
	"time"

	"tandem.internal/shared/items"
)

// Item is an update item.
type Item struct {
	Type        items.Type    `json:"type"`                  // component, service or layer
	Codename    string        `json:"codename"`              // its name
	ID          string        `json:"id"`                    // UUID, given when it was created
	URN         string        `json:"urn"`                   // made of the ID
	Description string        `json:"description,omitempty"` // for people
	Owner       string        `json:"owner,omitempty"`       // who is responsible for it
	Rev         uint64        `json:"rev"`                   // record that created it
	At          time.Time     `json:"at"`                    // when
	Who         string        `json:"who,omitempty"`         // who did
	Versions    []ItemVersion `json:"versions"`              // the lowest first
}

// ItemVersion is a version of an update item.
type ItemVersion struct {
	Version string         `json:"version"`           // semantic
	State   items.State    `json:"state"`             // preparation, ready or deprecated
	Digest  string         `json:"digest"`            // of its content
	Form    items.Form     `json:"form"`              // file, tree or image
	Size    int64          `json:"size"`              // of its files together, in bytes
	Signed  bool           `json:"signed"`            // every file has a publisher's signature
	Rev     uint64         `json:"rev"`               // record of its newest change
	At      time.Time      `json:"at"`                // of that
	Who     string         `json:"who,omitempty"`     // who made that
	Meta    *items.Meta    `json:"meta,omitempty"`    // its metadata; not in a list
	Content *items.Content `json:"content,omitempty"` // what it consists of; not in a list
}

// Items are the update items.
type Items struct {
	Items []Item `json:"items"` // by type and codename
}

// ItemChange is what a change of an item or a subject came to.
type ItemChange struct {
	Rev       uint64 `json:"rev,omitzero"`       // of its record; 0: there is none
	Unchanged bool   `json:"unchanged,omitzero"` // it was so before
	ID        string `json:"id,omitempty"`       // of an item that was created
	URN       string `json:"urn,omitempty"`      // the same
	Digest    string `json:"digest,omitempty"`   // of the content that was released
	// of a subject: nodes that it names and that were never heard of; at most 100
	Unknown []string `json:"unknown,omitempty"`
	// of a subject: what else of it has no effect, in words; at most 101
	Warnings []string `json:"warnings,omitempty"`
}

// ItemEvent is something that happened to an item or a subject.
type ItemEvent struct {
	Rev     uint64    `json:"rev"`               // of its record
	At      time.Time `json:"at"`                // when
	Who     string    `json:"who,omitempty"`     // who did it
	Version string    `json:"version,omitempty"` // of the item; "": it was the item itself
	// created, released, ready, deprecated, removed; of a subject set, removed
	Did    string `json:"did"`
	Digest string `json:"digest,omitempty"` // of the content that was released
}

// ItemHistory is what happened to the items of one name, or to a subject.
type ItemHistory struct {
	Events []ItemEvent `json:"events"` // oldest first
}

// Subject is what items are attached to.
type Subject struct {
	Codename string            `json:"codename"`           // its name
	Type     items.SubjectType `json:"type"`               // group, user or nodeType
	Priority int               `json:"priority"`           // higher goes first
	Reported bool              `json:"reported"`           // it counts only while a node reports it
	Nodes    int               `json:"nodes"`              // that it names; 0: the unit, or those of the type
	Items    int               `json:"items"`              // that are attached to it
	Rev      uint64            `json:"rev"`                // record of its newest change
	At       time.Time         `json:"at"`                 // of that
	Who      string            `json:"who,omitempty"`      // who made that
	Document *items.Subject    `json:"document,omitempty"` // the whole subject; not in a list
}

// Subjects are the subjects.
type Subjects struct {
	Subjects []Subject `json:"subjects"` // by codename
}
