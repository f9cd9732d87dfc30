package view

import "time"

// Keys are the unit's signing keys.
type Keys struct {
	Rev  uint64       `json:"rev"`  // number of the list; 0: the unit's first key, never rotated
	Keys []SigningKey `json:"keys"` // oldest first
}

// SigningKey is one of them. State is "announced" (nodes learn it), "signing", or "leaving" (another
// one signs; nodes still believe it).
type SigningKey struct {
	ID      string    `json:"kid"`               // by which envelopes name it
	Ed25519 []byte    `json:"ed25519"`           // the public half, as --unit-key takes it
	State   string    `json:"state"`             // "announced", "signing" or "leaving"
	Since   time.Time `json:"since,omitzero"`    // in State since; absent: since the unit began
	Who     string    `json:"who,omitempty"`     // made the change
	Nodes   int       `json:"nodes"`             // that are known to believe it
	Missing []string  `json:"missing,omitempty"` // that are not, at most 100
	Omitted int       `json:"omitted,omitzero"`  // further ones
}
