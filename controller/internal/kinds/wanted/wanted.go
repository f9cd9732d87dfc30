// Package wanted has what the cloud side wants of the unit, its newest desired status (seed 001, DesiredStatus message
// sequence). Nodes get nothing of it by themselves: what should run where is made of it.
//
//tandem:pure
package wanted

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/wire"
)

// Set returns the source.
func Set() kind.Set {
	return kind.Set{Sources: []*kind.Source{{Name: record.KindWanted, Title: "desired status", Noun: "desired status",
		Heavy: true, Fold: kind.JSON[Change, Status](kind.Fold{Reason: "desired status changed", Judge: judge,
			Same: same, Submit: submit, Apply: apply})}}}
}

// Change is the data of its records.
type Change = record.WantedData

// Status is the newest desired status. It is never changed, only replaced.
type Status struct {
	Document      jsontext.Value `json:"document,omitzero"` // canonical; nil: there is none yet
	CorrelationID string         `json:"correlationId,omitempty"`
	Rev           uint64         `json:"rev,omitzero"`
	Who           string         `json:"who,omitempty"`

	read atomic.Pointer[reading] // what Of has made
}

// reading is the document as it was read.
type reading struct {
	doc *cloud.DesiredStatus
	err *wire.Error
}

// For returns nothing: nodes get what is made of it.
func (*Status) For(kind.Facts) *kind.Body { return nil }

// Of reads the newest desired status from a content of this source, which may be nil; nil: there is none. It is shared:
// nobody writes to it.
func Of(c kind.Content) (*Status, *cloud.DesiredStatus) {
	s := kind.As[Status](c)
	return s, s.reading().doc
}

// Trouble says why the newest desired status cannot be read, as one of a journal that was altered; "": it can, or
// there is none.
func Trouble(c kind.Content) string {
	s := kind.As[Status](c)
	if r := s.reading(); r.err != nil {
		return fmt.Sprintf("the cloud side's desired status, record %d, cannot be read and is not followed: %s; "+
			"it has to send another one", s.Rev, r.err.Error())
	}
	return ""
}

func (s *Status) reading() *reading {
	if r := s.read.Load(); r != nil {
		return r
	}
	r := &reading{}
	if len(s.Document) > 0 {
		r.doc, r.err = cloud.ParseDesired(s.Document)
		s.read.Store(r) // one that was made at the same time is the same
	}
	return r
}

// submit reads what was submitted.
func submit(m *wire.Submission, from record.InboxData) (any, *wire.Error) {
	switch {
	case m.Name != "":
		return nil, wire.New(wire.CodeNotSupported, "/name", "there is one desired status: it has no name")
	case m.Mode == wire.ModeTry:
		return nil, wire.New(wire.CodeNotSupported, "/mode", "a desired status is not tried: nodes try what they "+
			"get of it")
	case m.Force:
		return nil, wire.New(wire.CodeNotSupported, "/force", "a desired status does not fail as a whole")
	case m.AllNodes:
		return nil, wire.New(wire.CodeNotSupported, "/allNodes", "a desired status is the unit's")
	}
	d, err := cloud.ParseDesired(m.Document)
	if err != nil {
		return nil, err
	}
	if d.MessageType == "" { // what is kept has none
		return nil, wire.New(wire.CodeMissing, "/messageType", "must be "+cloud.TypeDesiredStatus+": a message that "+
			"does not say that it is one stops nothing")
	}
	// as it is kept it is no longer than it was
	return Change{Document: d.Canonical(), CorrelationID: d.CorrelationID, Inbox: &from}, nil
}

// judge has nothing against what was read: what cannot be met stops no other.
func judge(kind.Content, any) *wire.Error { return nil }

// same reports whether the same is wanted already.
func same(c kind.Content, data any) bool {
	return bytes.Equal(kind.As[Status](c).Document, data.(Change).Document)
}

func apply(_ kind.Content, at kind.Change, data any) kind.Content {
	d := data.(Change)
	return &Status{Document: d.Document, CorrelationID: d.CorrelationID, Rev: at.Seq, Who: at.Who}
}
