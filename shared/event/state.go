package event

// StateDetail says what became of the file of a node's state, and from where the node that began anew knows whom to
// believe and what is old.
type StateDetail struct {
	Reason string `json:"reason"`         // what was wrong with the file
	Kept   string `json:"kept,omitempty"` // its name now, in the state directory; "": it was gone
	Trust  string `json:"trust"`          // "marks", "join", "unit-key" or "first"
}

// What StateDetail.Trust may be.
const (
	TrustMarks   = "marks"    // from the copy of its marks: as if nothing had been lost
	TrustJoin    = "join"     // from its newest join: what was issued before it is old, what came after is not known
	TrustUnitKey = "unit-key" // the key that was given to it: anything that it has signed is new
	TrustFirst   = "first"    // from nowhere: it believes the first controller that it hears
)
