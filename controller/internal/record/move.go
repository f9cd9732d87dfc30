package record

import (
	"tandem.internal/shared/duration"
	"tandem.internal/shared/wire"
)

// KindMoves is the source of Settings records about services that leave nodes which are overloaded.
const KindMoves wire.Kind = "moves"

// MoveData is the data of a Settings record about a service that leaves a node: it was decided, or has ended.
type MoveData struct {
	Codename  string            `json:"codename"`           // of the service
	Subject   string            `json:"subject"`            // for which it runs
	Index     int               `json:"index"`              // of the instance
	From      string            `json:"from"`               // node that it leaves
	To        string            `json:"to"`                 // node where it goes
	Parameter string            `json:"parameter,omitzero"` // of what was decided: of which too much was used
	Average   float64           `json:"average,omitzero"`   // share of the node's that was used
	Max       float64           `json:"max,omitzero"`       // of the rule
	For       duration.Duration `json:"for,omitzero"`       // for how long it was so
	Ended     string            `json:"ended,omitzero"`     // what has become of it; "": it was decided
}
