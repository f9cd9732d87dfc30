// Package record owns what the journal's entries are: their types and their shape, without the
// storage. It is pure, so that the state machines can speak of records without touching a disk.
//
//tandem:pure
package record

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Type says what a record is about. Types are only added, and numbers are never reused: a program refuses a journal
// with a record whose type it does not know (ADR 030).
type Type uint16

// The record types.
const (
	Opened          Type = iota + 1 // the controller started on this journal, or lost its session with the broker
	_                               // 2 and 9 were reserved, and never written
	Accepted                        // a submission was accepted, and why
	Refused                         // a submission was refused, and why
	Issued                          // desired documents for one or more nodes; its seq is their rev
	Withdrawn                       // nodes' desired documents were taken back
	Report                          // a reported envelope from a node
	Live                            // presence of a node
	_                               // 9, see 2
	Event                           // an event from a node
	Request                         // an operator ordered a node to do something
	Reply                           // what the node answered, or that it did not
	Confirm                         // a tried document was confirmed
	RolledBack                      // a tried document was rolled back
	State                           // the unit configuration changed its state
	Trouble                         // something went wrong that nobody submitted
	Note                            // a remark by an operator or the controller
	Enrol                           // a token was made, with which a node may join
	Joined                          // a node or another identity got its first certificate
	Renewed                         // and the next one
	Revoked                         // nothing of it counts any more
	JoinRefused                     // somebody was not let in, and why
	Keys                            // the unit's signing keys changed
	Settings                        // what operators want of a kind of document changed
	Maintenance                     // the controller, or the road to it, may be away on purpose; or not any more
	Proves                          // a node has proved a message; what it does not prove is refused from now on
	Forgotten                       // a node is not one of the unit any more, unless it says something again
	TokenWithdrawn                  // nobody joins with a node's open token any more; what has joined is left alone
	ArtefactLeased                  // an upload has its room in the store of artefacts, or goes on
	ArtefactAdded                   // an artefact is in the store, whole and verified
	ArtefactRemoved                 // an artefact, or an upload, is not in the store any more
	CA                              // the unit's CAs changed
	Root                            // a list of CAs came that a root key has signed
	Rollout                         // a rollout went on: begun, a wave opened, nodes issued to, paused, ended
	Batch                           // some nodes may join with one secret, or not any more; or one was approved
	Trimmed                         // some records go, which are older or more than is to be kept
	Backup                          // a whole backup of the unit has left the controller
	typeEnd
)

var typeNames = [typeEnd]string{
	Opened: "opened", Accepted: "accepted", Refused: "refused",
	Issued: "issued", Withdrawn: "withdrawn", Report: "report", Live: "live",
	Event: "event", Request: "request", Reply: "reply", Confirm: "confirm",
	RolledBack: "rolledback", State: "state", Trouble: "trouble", Note: "note",
	Enrol: "enrol", Joined: "joined", Renewed: "renewed", Revoked: "revoked", JoinRefused: "join-refused",
	Keys: "keys", Settings: "settings", Maintenance: "unit-maintenance", Proves: "proves",
	Forgotten: "forgotten", TokenWithdrawn: "token-withdrawn",
	ArtefactLeased: "artefact-leased", ArtefactAdded: "artefact-added", ArtefactRemoved: "artefact-removed", CA: "ca",
	Root:    "root",
	Rollout: "rollout",
	Batch:   "batch",
	Trimmed: "trimmed",
	Backup:  "backup",
}

// String returns the type's name, as in exports and filters.
func (t Type) String() string {
	if t.Known() {
		return typeNames[t]
	}
	return fmt.Sprintf("type-%d", uint16(t))
}

// Known reports whether t is in this program's list.
func (t Type) Known() bool { return t < typeEnd && typeNames[t] != "" }

// ParseType is the inverse of String for known types.
func ParseType(name string) (Type, bool) {
	i := slices.Index(typeNames[:], name)
	return Type(max(i, 0)), i > 0
}

// Types lists every known type in order.
func Types() []Type {
	all := make([]Type, 0, len(typeNames))
	for t := range typeEnd {
		if t.Known() {
			all = append(all, t)
		}
	}
	return all
}

// MaxData bounds the Data of a record in bytes.
const MaxData = 16 << 20

// Record is one thing that happened.
type Record struct {
	Seq  uint64    // given by the journal; from 1, never reused
	At   time.Time // given by the caller; kept to the nanosecond, returned in UTC
	Type Type
	Node string // "" for the unit itself
	Who  string // who caused it; "" for the node or the controller itself
	Kind string // document kind, "" if none
	Data []byte // JSON, verbatim; what came over the wire is raw, so it may be anything
}

// Body is the hash of the body that a record is about and that has to be kept as long as the record is: of
// an accepted submission, its document. ok is false if there is none.
func (r *Record) Body() (hash [32]byte, ok bool) {
	var d struct {
		Hash    string `json:"hash"`
		Nothing bool   `json:"nothing"`
	}
	if r.Type != Accepted || json.Unmarshal(r.Data, &d) != nil || d.Nothing {
		return hash, false
	}
	digits, ok := strings.CutPrefix(d.Hash, "sha256:")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != len(hash) {
		return hash, false
	}
	return [32]byte(sum), true
}
