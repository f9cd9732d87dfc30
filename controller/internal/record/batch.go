package record

import "time"

// BatchData says what became of a batch: of nodes that may join with one secret. It has one of Created, Approved,
// Refused and Revoked.
type BatchData struct {
	Name     string      `json:"name,omitempty"` // of the batch that was made or revoked
	Hash     string      `json:"hash,omitempty"` // of its secret
	Created  *BatchTerms `json:"created,omitempty"`
	Approved []BatchNode `json:"approved,omitempty"` // may join, each with its key
	Refused  []BatchNode `json:"refused,omitempty"`  // may not, each with its key
	Revoked  bool        `json:"revoked,omitzero"`
	Reason   string      `json:"reason,omitempty"`
}

// BatchTerms says who may join with the secret of a batch.
type BatchTerms struct {
	Count    int       `json:"count"` // how many nodes
	Until    time.Time `json:"until"`
	From     []string  `json:"from"`               // networks, as CIDR
	Names    []string  `json:"names,omitempty"`    // names, or patterns of names; none: any
	NodeType string    `json:"nodeType,omitempty"` // the only one that these nodes may report; "": any
	OnSight  bool      `json:"onSight,omitzero"`   // nobody has to approve a node
}

// BatchNode is somebody who asks to join with the secret of a batch.
type BatchNode struct {
	Batch string `json:"batch"` // name of the batch
	Hash  string `json:"hash"`  // of the batch's secret
	Node  string `json:"node"`  // as claimed
	Key   string `json:"key"`   // hash of the key of the certificate request, or its first digits
	From  string `json:"from,omitempty"`
}

// Type is the type of the record.
func (BatchData) Type() Type { return Batch }
