package op

import (
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Alive is the answer to GET /healthz and GET /readyz.
type Alive struct {
	Status string    `json:"status"` // "ok"
	At     time.Time `json:"at"`     // by the controller's clock
}

// Rollback is the body of POST /v1/config/rollback.
type Rollback struct {
	Version string `json:"version"` // whose content comes back
	As      string `json:"as"`      // the version it gets, above the installed one
}

// History is what became of every submission of a kind, oldest first.
type History struct {
	Versions []view.Version `json:"versions"` // oldest first
}

// Nodes is every node, sorted by name.
type Nodes struct {
	Nodes []view.Node `json:"nodes"` // sorted by name
}

// NodeChange is one line of a node watch. First come all nodes and a line with Complete, then
// whatever changes, each batch ended by Complete.
type NodeChange struct {
	Node     *view.Node `json:"node,omitempty"`     // as it is now
	Gone     string     `json:"gone,omitempty"`     // name of a node that is not known any more
	Complete bool       `json:"complete,omitempty"` // the batch ends here
}

// Enroll is the body of POST /v1/nodes/{node}/enroll; it may be left out.
type Enroll struct {
	TTL string `json:"ttl,omitempty"` // how long the token counts, ISO 8601; a day if it is left out
}

// Revoke is the body of POST /v1/nodes/{node}/revoke; it may be left out.
type Revoke struct {
	Reason string `json:"reason,omitempty"` // for the journal, at most 256 bytes
}

// Disown is the body of POST /v1/identities/revoke, and its answer.
type Disown struct {
	Identity string `json:"identity"`         // "cloud/eu", "operator/ann" or "broker/b1"
	Reason   string `json:"reason,omitempty"` // for the journal, at most 256 bytes
}

// SetHealth is the body of POST /v1/health/settings: for whom, and what. What is not named is the
// node's own setting, or the default.
type SetHealth struct {
	view.Scope
	Settings *wire.HealthSettings `json:"settings"` // replace all that was set for these
}

// Reboot is the body of POST /v1/nodes/{node}/reboot.
type Reboot struct {
	Reason string `json:"reason"` // for the journal and the node's boot reason
}

// Try is the body of POST /v1/nodes/{node}/try; it may be left out.
type Try struct {
	Component string `json:"component,omitempty"` // name of the component; "": the agent itself
	Version   string `json:"version,omitempty"`   // what must be staged; "": whatever is
}

// Approve is the body of POST /v1/nodes/{node}/approve.
type Approve struct {
	Version string `json:"version"` // what must be on trial
}

// Maintain is the body of POST /v1/unit/maintenance.
type Maintain struct {
	For    string `json:"for"`    // how long from now, ISO 8601; at most a day
	Reason string `json:"reason"` // for the nodes and the journal, at most 256 bytes
}

// Maintenance is the answer to POST /v1/unit/maintenance and its end.
type Maintenance struct {
	Maintenance *view.Maintenance `json:"maintenance,omitempty"` // what is announced now; absent: nothing
}

// Verification is what a check of the journal found.
type Verification struct {
	OK     bool   `json:"ok"`     // no damage
	Report string `json:"report"` // what was found, in words
}

// RotateKey is the body of POST /v1/keys/rotate; it may be left out.
type RotateKey struct {
	Force bool `json:"force,omitzero"` // switch although some nodes are not known to believe the new key
}

// RetireKey is the body of POST /v1/keys/retire.
type RetireKey struct {
	ID    string `json:"kid"`            // of the key that leaves the list
	Force bool   `json:"force,omitzero"` // although some nodes are not known to believe the key that signs
}

// NewToken is the body of POST /v1/tokens.
type NewToken struct {
	Name string `json:"name"`          // by which the journal knows who did what
	Role string `json:"role"`          // "view", "operate" or "admin"
	TTL  string `json:"ttl,omitempty"` // how long the token counts, ISO 8601; until it is revoked if it is left out
}

// Tokens is every operator's token, sorted by name.
type Tokens struct {
	Tokens []view.Token `json:"tokens"` // sorted by name
}

// Slots are slots of workloads, by node and service.
type Slots struct {
	Slots []view.Slot `json:"slots"` // sorted by node, then service
}
