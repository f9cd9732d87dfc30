package view

import (
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// ItemInstance is a component, or an instance of a service, as it should run and as its node tells of it.
type ItemInstance struct {
	items.Instance
	Online bool        `json:"online"`          // its node is connected
	Slot   string      `json:"slot,omitempty"`  // of a service: service@node
	State  string      `json:"state"`           // of a component a wire.ComponentState, of a service a Slot's
	Why    string      `json:"why,omitempty"`   // a few words: what it waits for, or what is wrong
	Error  *wire.Error `json:"error,omitempty"` // as the node tells
}
