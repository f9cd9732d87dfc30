package event

import "tandem.internal/shared/wire"

// ViewDetail says what a node has not got.
type ViewDetail struct {
	Missing []wire.Kind `json:"missing,omitempty"` // kinds whose newest document does not arrive; none: no answer does
}
