package view

import "time"

// CAs are the unit's CAs that count.
type CAs struct {
	Rev uint64 `json:"rev"` // number of the list; 0: the unit's first CA, never rotated
	CAs []CA   `json:"cas"` // oldest first

	Root *Root `json:"root,omitempty"` // the newest list that a root key has signed; absent: there is none
}

// Root is a list of CAs and signing keys that a root key has signed away from the unit.
type Root struct {
	Number uint64    `json:"number"` // Unix seconds; it only rises
	Time   time.Time `json:"time"`   // of its export
	By     string    `json:"by"`     // ID of the key that has signed it
	Keys   []string  `json:"keys"`   // IDs of those of which one has to sign the next
	Nodes  int       `json:"nodes"`  // that have taken it, or need not
	// Behind: the unit's CAs or signing keys are others now; a node that depends on the list would not get back.
	Behind bool `json:"behind,omitzero"`
}

// RootDraft is a list that a root key has to sign.
type RootDraft struct {
	List string `json:"list"` // the text that is signed
}

// CA is one of them. State is "announced" (nodes learn it), "signing", or "leaving" (another one signs; what it has
// signed counts).
type CA struct {
	ID          string    `json:"id"`                // the beginning of the fingerprint
	Fingerprint string    `json:"fingerprint"`       // sha256: of the certificate
	State       string    `json:"state"`             // "announced", "signing" or "leaving"
	Since       time.Time `json:"since,omitzero"`    // in State since; absent: since the unit began
	Who         string    `json:"who,omitempty"`     // made the change
	Expires     time.Time `json:"expires,omitzero"`  // end of its validity
	Nodes       int       `json:"nodes"`             // that are known to believe it
	Missing     []string  `json:"missing,omitempty"` // nodes that are not, at most 100; of a leaving one, who needs it
	Omitted     int       `json:"omitted,omitzero"`  // further ones
}
