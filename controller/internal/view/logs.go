package view

import (
	"time"

	"tandem.internal/shared/wire"
)

// AgentLog is a piece of an agent's own log.
type AgentLog struct {
	Node string `json:"node"` // name of the node
	wire.AgentLog
}

// Samples is what a node has measured lately.
type Samples struct {
	Node string `json:"node"` // name of the node
	wire.Samples
}

// LogLevel is what the controller logs.
type LogLevel struct {
	Level string    `json:"level"`          // this and above
	Until time.Time `json:"until,omitzero"` // then it is again what the settings say; absent: it is that
}
