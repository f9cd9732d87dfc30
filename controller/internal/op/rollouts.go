package op

import (
	"slices"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Rollouts. One begins with a submission that has a plan.
var (
	ListRollouts = define(Op[None, view.Rollouts]{
		Name: "rollouts.list", Route: "GET /v1/rollouts", Role: View,
		About: "Lists the rollouts, the oldest first: how far each is, and what holds it up.",
	})
	ShowRollout = define(Op[RolloutNodesIn, view.RolloutDetail]{
		Name: "rollout.show", Route: "GET /v1/rollouts/{rollout}", Role: View,
		About: "Shows a rollout: its waves, what holds it up and why, and its nodes; those that hold it up come first.",
	})
	WatchRollout = define(Op[RolloutWatchIn, view.RolloutDetail]{
		Name: "rollout.watch", Route: "GET /v1/rollouts/{rollout}", Role: View, When: "watch", Form: Stream,
		About: "Follows a rollout: a line now, and whenever it changes.",
	})
	PauseRollout = define(Op[PauseRolloutIn, view.Rollout]{
		Name: "rollout.pause", Route: "POST /v1/rollouts/{rollout}/pause", Role: Operate, Optional: true,
		About: "Stops issuing to nodes until the rollout is resumed. Nodes that were issued to go on.",
	})
	ResumeRollout = define(Op[RolloutIn, view.Rollout]{
		Name: "rollout.resume", Route: "POST /v1/rollouts/{rollout}/resume", Role: Operate,
		About: "Goes on with a rollout that is paused. Nodes that have failed or are silent by now are excused: they " +
			"do not count against the failure budget.",
	})
	AbortRollout = define(Op[AbortRolloutIn, view.Rollout]{
		Name: "rollout.abort", Route: "POST /v1/rollouts/{rollout}/abort", Role: Operate, Optional: true,
		About: "Ends a rollout: nothing more is issued, or each node gets its own last good document again. How is " +
			"leave or take-back; left out, it is what the plan says.",
	})
)

// RolloutIn names a rollout.
type RolloutIn struct {
	Rollout string `path:"rollout" json:"-"` // its ID
}

// RolloutNodesIn names a rollout, and says which of its nodes are listed.
type RolloutNodesIn struct {
	RolloutIn
	Status rollout.Status `query:"status" json:"-"`                     // only nodes in this one
	Limit  uint64         `query:"limit" min:"1" max:"100000" json:"-"` // of the nodes listed; 0: 100
}

// Check judges the status.
func (in *RolloutNodesIn) Check() *wire.Error {
	if in.Status != "" && !slices.Contains(rollout.Statuses(), in.Status) {
		return invalid("the parameter status is one of %v", rollout.Statuses())
	}
	return nil
}

// RolloutWatchIn is RolloutNodesIn for what is followed.
type RolloutWatchIn struct {
	RolloutNodesIn
	Watched
}

// PauseRolloutIn names a rollout, and why it is paused.
type PauseRolloutIn struct {
	RolloutIn
	PauseReason
}

// PauseReason says why.
type PauseReason struct {
	Reason string `json:"reason,omitzero"` // for whoever looks, and the journal; at most 256 bytes
}

// Check judges the reason's length.
func (in *PauseReason) Check() *wire.Error {
	if len(in.Reason) > 256 {
		return wire.New(wire.CodeTooLarge, "/reason", "longer than 256 bytes")
	}
	return nil
}

// AbortRolloutIn names a rollout, and how it ends.
type AbortRolloutIn struct {
	RolloutIn
	RolloutEnd
}

// RolloutEnd says how a rollout ends.
type RolloutEnd struct {
	How plan.OnAbort `json:"how,omitempty"` // absent: as the plan says
	Now bool         `json:"now,omitzero"`  // take back outside of maintenance windows, too
}

// Check judges how it ends.
func (in *RolloutEnd) Check() *wire.Error {
	switch in.How {
	case "", plan.Leave, plan.TakeBack:
	default:
		return wire.New(wire.CodeBadValue, "/how", "leave or take-back; left out, it is what the plan says")
	}
	if in.Now && in.How == plan.Leave {
		return wire.New(wire.CodeInvalidArgument, "/now", "to leave the nodes needs no maintenance window")
	}
	return nil
}
