package view

import "time"

// EnrolledList are tokens for the nodes of a list, shown once.
type EnrolledList struct {
	Controller string      `json:"controller"`        // URL of the join door
	CA         string      `json:"ca"`                // fingerprint of the unit's CA
	Nodes      []NodeToken `json:"nodes"`             // in the order of the list
	Skipped    []string    `json:"skipped,omitempty"` // nodes that the unit knows, and that got no token
}

// NodeToken is the token of one node of a list.
type NodeToken struct {
	Node    string    `json:"node"`    // name of the node
	Token   string    `json:"token"`   // what the node joins with
	Expires time.Time `json:"expires"` // end of the token
}

// Batch is a secret with which a number of new nodes may join, as it is listed: without the secret.
type Batch struct {
	Batch     string    `json:"batch"`               // its name
	State     string    `json:"state"`               // "open", "full" (all nodes have joined), "expired" or "revoked"
	Count     int       `json:"count"`               // how many nodes may join
	Joined    int       `json:"joined"`              // how many have joined
	Approved  int       `json:"approved"`            // how many may join, and have not yet
	Waiting   int       `json:"waiting"`             // how many wait for an approval
	From      []string  `json:"from"`                // networks that nodes have to come from, as CIDR
	Names     []string  `json:"names,omitempty"`     // names, or patterns of names, that nodes may have; absent: any
	Type      string    `json:"type,omitempty"`      // the only node type that the nodes may have; absent: any
	OnSight   bool      `json:"onSight"`             // nobody has to approve a node
	Created   time.Time `json:"created"`             // when it was made
	By        string    `json:"by,omitempty"`        // who made it
	Expires   time.Time `json:"expires"`             // end of the batch
	Revoked   time.Time `json:"revoked,omitzero"`    // when it was revoked
	RevokedBy string    `json:"revokedBy,omitempty"` // who revoked it
}

// BatchGrant is a new batch, with the token that its nodes join with, shown once.
type BatchGrant struct {
	Batch
	Token      string `json:"token"`      // what the nodes join with
	Controller string `json:"controller"` // URL of the join door
	CA         string `json:"ca"`         // fingerprint of the unit's CA
}

// Pending is a node that asks to join with the token of a batch.
type Pending struct {
	Node     string    `json:"node"`              // as it calls itself
	State    string    `json:"state"`             // "waiting", or "approved": it may join, and has not yet
	Batch    string    `json:"batch"`             // name of the batch
	Key      string    `json:"key"`               // SHA-256 of the node's public key, hexadecimal; or its first digits
	From     string    `json:"from,omitempty"`    // its address
	First    time.Time `json:"first,omitzero"`    // when it asked first, since the start of the controller
	Last     time.Time `json:"last,omitzero"`     // when it asked last
	Rival    *Rival    `json:"rival,omitempty"`   // who asked last under the same name, with another key
	Approved time.Time `json:"approved,omitzero"` // when it was approved
	By       string    `json:"by,omitempty"`      // who approved it
}

// Rival is somebody who asks to join under the name of a node that waits.
type Rival struct {
	Key   string    `json:"key"`             // SHA-256 of the public key, hexadecimal
	Batch string    `json:"batch,omitempty"` // name of the batch
	From  string    `json:"from,omitempty"`  // address
	Last  time.Time `json:"last"`            // when it asked last
}
