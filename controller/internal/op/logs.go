package op

import (
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// The logs of the programs themselves, and what nodes have measured.
var (
	NodeSamples = define(Op[NodeIn, view.NodeSamples]{
		Name: "node.samples", Route: "GET /v1/nodes/{node}/samples", Role: View,
		About: "Asks a node for what it has measured lately: CPU, RAM, partitions and traffic of the last hour, if " +
			"it measures every 10 s. Whoever asks within 5 s gets the same answer.",
	})
	NodeLog = define(Op[NodeLogIn, view.NodeLog]{
		Name: "node.log", Route: "GET /v1/nodes/{node}/log", Role: Operate,
		About: "Asks a node for a piece of its agent's own log, of which it keeps the last 64 KiB in memory. To " +
			"follow it, ask again with the cursor. Whoever reads logs is noted in the journal, once an hour for each " +
			"node.",
	})
	SetNodeLogLevel = define(Op[NodeLogLevel, view.Ordered]{
		Name: "node.log-level", Route: "POST /v1/nodes/{node}/log-level", Role: Operate, Optional: true,
		About: "Has a node's agent log more or less for a while, at most a day; it goes back by itself, and when it " +
			"starts again. Without a level it goes back now. A node that is offline is a wrong-state.",
	})
	ShowLogLevel = define(Op[None, view.LogLevel]{
		Name: "log-level", Route: "GET /v1/log-level", Role: View,
		About: "Shows what the controller logs.",
	})
	SetLogLevel = define(Op[LogFor, view.LogLevel]{
		Name: "log-level.set", Route: "POST /v1/log-level", Role: Operate, Optional: true,
		About: "Has the controller log more or less for a while, at most a day; it goes back by itself, and when it " +
			"starts again. Without a level it goes back now. The journal has who did it.",
	})
)

// NodeLogIn names a node, and which piece of its agent's log. Without cursor and lines it is all that the node has.
type NodeLogIn struct {
	NodeIn
	Cursor string `query:"cursor" json:"-"`                   // of the answer before
	Lines  int    `query:"lines" min:"1" max:"1000" json:"-"` // begin so many lines before the end
	Level  string `query:"level" json:"-"`                    // of this level and above: debug, info, warn or error
}

// Check judges the name of the level, and that the piece is named in one way.
func (in *NodeLogIn) Check() *wire.Error {
	p := wire.AgentLogParams{Cursor: in.Cursor, Lines: in.Lines, Level: in.Level}
	if _, err := wire.Decode[wire.AgentLogParams](wire.Encode(&p)); err != nil { // the node would say the same
		e := wire.AsError(err)
		return wire.New(e.Code, "", "the parameter "+e.Path[1:]+": "+e.Message)
	}
	return nil
}

// NodeLogLevel names a node, and what its agent logs.
type NodeLogLevel struct {
	NodeIn
	LogFor
}

// LogFor says what is logged, and for how long.
type LogFor struct {
	Level string `json:"level,omitempty"` // this and above: debug, info, warn or error; "": that of the settings, now
	For   string `json:"for,omitempty"`   // how long from now, ISO 8601, at most a day; there with level
}

// Wire is in as nodes are asked.
func (in *LogFor) Wire() *wire.LogLevelParams {
	return &wire.LogLevelParams{Level: in.Level, For: in.For}
}

// Check judges both.
func (in *LogFor) Check() *wire.Error {
	if _, err := wire.Decode[wire.LogLevelParams](wire.Encode(in.Wire())); err != nil {
		return wire.AsError(err)
	}
	return nil
}
