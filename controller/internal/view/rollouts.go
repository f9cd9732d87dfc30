package view

import (
	"tandem.internal/controller/internal/rollout"
	"tandem.internal/controller/internal/rollout/plan"
)

// Rollouts are all that are known, the oldest first.
type Rollouts struct {
	Rollouts []Rollout `json:"rollouts"` // those that have ended included, for as long as they are kept
}

// Rollout is a rollout, and what holds it up.
type Rollout struct {
	rollout.View
	Version string `json:"version,omitempty"` // of the document that it brings
	Why     string `json:"why"`               // what holds it up and what ends that, or what became of it; one sentence
}

// RolloutDetail is a rollout with its plan and its nodes.
type RolloutDetail struct {
	Rollout
	Plan     *plan.Plan    `json:"plan"`               // complete
	List     []RolloutNode `json:"list"`               // nodes; those that hold it up come first
	Omitted  int           `json:"omitted,omitzero"`   // nodes that are not listed
	Warnings []string      `json:"warnings,omitempty"` // of the plan
}

// RolloutNode is a node in a rollout.
type RolloutNode struct {
	rollout.NodeView
	Why string `json:"why,omitempty"` // how it holds the rollout up, what it waits for, or why it has failed
}
