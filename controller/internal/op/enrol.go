package op

import (
	"fmt"
	"strings"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Many nodes at once.
var (
	EnrolNodes = define(Op[EnrolList, view.EnrolledList]{
		Name: "enrol.list", Route: "POST /v1/enrol/list", Role: Admin,
		About: "Makes a token for each node of a list, all of them or none. They are shown in this answer and " +
			"nowhere else. An already-exists names nodes that the unit knows, unless known says what to do about them.",
	})
	ListBatches = define(Op[None, Batches]{
		Name: "enrol.batches", Route: "GET /v1/enrol/batches", Role: Admin,
		About: "Lists the batches, by name: secrets with each of which a number of new nodes may join.",
	})
	CreateBatch = define(Op[NewBatch, view.BatchGrant]{
		Name: "enrol.batch.create", Route: "POST /v1/enrol/batches", Role: Admin,
		About: "Makes a batch. The token is shown in this answer and nowhere else.",
	})
	RevokeBatch = define(Op[RevokeBatchIn, view.Batch]{
		Name: "enrol.batch.revoke", Route: "POST /v1/enrol/batches/{batch}/revoke", Role: Admin, Optional: true,
		About: "Ends a batch: nobody joins by it any more. Nodes that have joined stay. To revoke again is no error.",
	})
	ListPending = define(Op[None, PendingNodes]{
		Name: "enrol.pending", Route: "GET /v1/enrol/pending", Role: Admin,
		About: "Lists the nodes that wait for an approval to join by a batch, and those that were approved and have " +
			"not joined yet, by name.",
	})
	ApproveJoin = define(Op[JoinOrder, PendingNodes]{
		Name: "enrol.approve", Route: "POST /v1/enrol/approve", Role: Admin,
		About: "Lets nodes join, all of them or none: each with the key that is named, which need not have been " +
			"seen, or else with the one that it waits with, and with no other. A wrong-state: no key is named, and " +
			"several have asked under the name; another one was approved; or the batch has no room.",
	})
	RefuseJoin = define(Op[JoinRefusal, Refusals]{
		Name: "enrol.refuse", Route: "POST /v1/enrol/refuse", Role: Admin,
		About: "Keeps out nodes that wait, or were approved and have not joined, all of them or none: by their keys. " +
			"Somebody else may join under the same name.",
	})
)

// MaxEnrolList bounds the nodes of one list.
const MaxEnrolList = 5000

// EnrolList names nodes, each of which gets a token.
type EnrolList struct {
	Nodes []ListedNode `json:"nodes"` // at most 5000
	// What to do about nodes that the unit knows: "refuse" (if it is left out), "skip", or "replace", which makes a
	// token for them as well
	Known string `json:"known,omitempty"`
}

// ListedNode is a node of a list.
type ListedNode struct {
	Node string `json:"node"` // its name
	Enroll
}

// Check judges names, types and lives, and how many there are.
func (in *EnrolList) Check() *wire.Error {
	switch {
	case len(in.Nodes) == 0:
		return wire.New(wire.CodeMissing, "/nodes", "required")
	case len(in.Nodes) > MaxEnrolList:
		return wire.New(wire.CodeTooLarge, "/nodes", fmt.Sprintf("at most %d nodes", MaxEnrolList))
	case in.Known != "" && in.Known != "refuse" && in.Known != "skip" && in.Known != "replace":
		return wire.New(wire.CodeInvalidArgument, "/known", "refuse, skip or replace is expected")
	}
	seen := make(map[string]bool, len(in.Nodes))
	for i := range in.Nodes {
		n, at := &in.Nodes[i], fmt.Sprintf("/nodes/%d", i)
		if !wire.ValidName(n.Node) {
			return wire.New(wire.CodeInvalidArgument, at+"/node", fmt.Sprintf("%.80q is not a node ID", n.Node))
		}
		if seen[n.Node] {
			return wire.New(wire.CodeDuplicate, at+"/node", n.Node+" is named twice")
		}
		seen[n.Node] = true
		if err := n.Check(); err != nil {
			return wire.New(err.Code, at+err.Path, err.Message)
		}
	}
	return nil
}

// NewBatch describes a batch. The core judges its bounds.
type NewBatch struct {
	Name    string   `json:"name"`             // of the batch; letters, digits, dot, underscore and dash
	Count   int      `json:"count"`            // how many nodes may join, at most 10000
	TTL     string   `json:"ttl,omitempty"`    // how long, ISO 8601, at most 30 days; a day if it is left out
	From    []string `json:"from"`             // networks that nodes have to come from, as CIDR: "10.0.0.0/16"
	Names   []string `json:"names,omitempty"`  // names that nodes may have, or patterns ("press-*"); any if left out
	Type    string   `json:"type,omitempty"`   // the only node type that the nodes may have; any if it is left out
	OnSight bool     `json:"onSight,omitzero"` // let nodes in without an approval
}

// Life is TTL; 0: it was left out.
func (in *NewBatch) Life() time.Duration { return positive(in.TTL) }

// Check judges the TTL and the type.
func (in *NewBatch) Check() *wire.Error { return (&Enroll{TTL: in.TTL, Type: in.Type}).Check() }

// Batches are the batches of a unit.
type Batches struct {
	Batches []view.Batch `json:"batches"` // by name
}

// RevokeBatchIn names a batch, and says why it ends.
type RevokeBatchIn struct {
	Batch string `path:"batch" json:"-"` // its name
	Revoke
}

// PendingNodes are nodes that ask to join by a batch.
type PendingNodes struct {
	Nodes []view.Pending `json:"nodes"` // by name
}

// JoinOrder names nodes that are approved or refused.
type JoinOrder struct {
	Nodes []NodeKey `json:"nodes"` // at most 1000
}

// NodeKey names a node, and its key.
type NodeKey struct {
	Node string `json:"node"` // as it calls itself
	// The beginning of the SHA-256 of its key, 16 hexadecimal digits or more; left out: that of who waits
	Key string `json:"key,omitempty"`
}

// Bounds of a JoinOrder.
const (
	maxJoinOrder = 1000
	minKeyDigits = 16 // fewer could be met by trying keys
	maxKeyDigits = 64
)

// Check judges the names and the keys.
func (in *JoinOrder) Check() *wire.Error {
	switch {
	case len(in.Nodes) == 0:
		return wire.New(wire.CodeMissing, "/nodes", "required")
	case len(in.Nodes) > maxJoinOrder:
		return wire.New(wire.CodeTooLarge, "/nodes", fmt.Sprintf("at most %d nodes", maxJoinOrder))
	}
	seen := make(map[string]bool, len(in.Nodes))
	for i, n := range in.Nodes {
		at := fmt.Sprintf("/nodes/%d", i)
		switch {
		case !wire.ValidName(n.Node):
			return wire.New(wire.CodeInvalidArgument, at+"/node", fmt.Sprintf("%.80q is not a node ID", n.Node))
		case seen[n.Node]:
			return wire.New(wire.CodeDuplicate, at+"/node", n.Node+" is named twice")
		case n.Key != "" && !keyPrefix(n.Key):
			return wire.New(wire.CodeInvalidArgument, at+"/key", fmt.Sprintf("the first digits of a key are expected, "+
				"%d or more: hexadecimal, in lower case", minKeyDigits))
		}
		seen[n.Node] = true
	}
	return nil
}

func keyPrefix(s string) bool {
	return len(s) >= minKeyDigits && len(s) <= maxKeyDigits && strings.Trim(s, "0123456789abcdef") == ""
}

// JoinRefusal names nodes that are refused, and says why.
type JoinRefusal struct {
	JoinOrder
	Revoke
}

// Check judges the names, the keys and the reason.
func (in *JoinRefusal) Check() *wire.Error {
	if err := in.JoinOrder.Check(); err != nil {
		return err
	}
	return in.Revoke.Check()
}

// Refusals names the nodes that were refused.
type Refusals struct {
	Nodes []string `json:"nodes"` // in the order in which they were named
}
