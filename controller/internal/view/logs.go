package view

import (
	"time"

	"tandem.internal/shared/wire"
)

// NodeLog is a piece of an agent's own log.
type NodeLog struct {
	Node string `json:"node"` // name of the node
	wire.AgentLog
}

// NodeSamples is what a node has measured lately.
type NodeSamples struct {
	Node string `json:"node"` // name of the node
	wire.Samples
}

// LogLevel is what the controller logs.
type LogLevel struct {
	Level string    `json:"level"`          // this and above
	Until time.Time `json:"until,omitzero"` // then it is again what the settings say; absent: it is that
}
