// Package plan reads the file of a rollout: in which waves nodes get a document, what a node has to do to pass, and
// what stops it. Its JSON schema is published, schema.json; a test makes it of the types here.
//
//tandem:pure
package plan

import (
	_ "embed"
	"slices"

	"tandem.internal/shared/duration"
)

// Schema is the JSON schema (2020-12) of a plan.
//
//go:embed schema.json
var Schema []byte

// Plan is the file of a rollout. It is never changed while the rollout runs.
type Plan struct {
	// in this order; the last takes everything that is left: {"percent": 100} without a selector
	Waves []Wave `json:"waves"`
	Gate  Gate   `json:"gate,omitzero"` // what a node has to do to pass
	// nodes that may be failed or silent at a time; one more pauses the rollout; of a percentage of all planned nodes,
	// rounded down; default: none
	FailureBudget Amount `json:"failureBudget,omitzero"`
	// nodes of the whole unit that may be unavailable before another one is issued to, planned or not; of a
	// percentage, rounded down, at least 1; default: 10 %
	MaxUnavailable Amount  `json:"maxUnavailable,omitzero"`
	Groups         []Group `json:"groups,omitempty"` // limits of parts of the unit, beside that of the whole
	// time in which a node has to pass once it is issued to, more than the soak time; default: PT30M
	Deadline duration.Duration `json:"deadline,omitzero"`
	// a node that is offline for so long before it is issued to is not waited for; default: P1D
	AbsentAfter duration.Duration `json:"absentAfter,omitzero"`
	Windows     []Window          `json:"windows,omitempty"` // when nodes may be issued to; default: always
	OnAbort     OnAbort           `json:"onAbort,omitempty"` // what an abort does that does not say; default: leave
}

// Wave is a set of nodes that are issued to together. It has one of count and percent, or takes all that it selects.
type Wave struct {
	Name  string `json:"name,omitempty"`                       // for people
	Count int    `json:"count,omitzero" min:"1" max:"1000000"` // so many nodes more
	// of those that it selects, with the waves before, rounded up
	Percent int    `json:"percent,omitzero" min:"1" max:"100"`
	Label   string `json:"label,omitempty"`   // selects nodes with this label
	Type    string `json:"type,omitempty"`    // selects nodes of this type
	PerType bool   `json:"perType,omitempty"` // count is for each node type
	// nothing may fail in it, and a node has to pass; an absent node is replaced by the next; of the first wave only
	Canary bool `json:"canary,omitempty"`
}

// Gate says what a node has to do to pass: have what was issued installed, and be healthy for the soak time.
type Gate struct {
	Soak    duration.Duration `json:"soak,omitzero"`     // time in good health; default: PT10M
	Healthy []Aspect          `json:"healthy,omitempty"` // what health is; default: all
}

// Aspect is a part of a node's health. A trouble counts if it began after the node was issued to.
type Aspect string

// The aspects of health.
const (
	Alerts    Aspect = "alerts"    // no alert is raised
	Checks    Aspect = "checks"    // no functional check fails
	Restarts  Aspect = "restarts"  // neither the agent nor the node was started anew
	Workloads Aspect = "workloads" // no workload slot is failed or restarting
)

// Aspects are all of them.
func Aspects() []Aspect { return []Aspect{Alerts, Checks, Restarts, Workloads} }

// Amount is a number of nodes: exactly one of its members is set.
type Amount struct {
	Count *int `json:"count,omitempty" min:"0" max:"1000000"` // nodes; of maxUnavailable at least 1
	// of the nodes that it is about; of maxUnavailable at least 1
	Percent *int `json:"percent,omitempty" min:"0" max:"100"`
}

// Of returns the number of nodes out of all, rounded down.
func (a Amount) Of(all int) int {
	switch {
	case a.Count != nil:
		return *a.Count
	case a.Percent != nil:
		return *a.Percent * all / 100
	}
	return 0
}

// Group limits a part of the unit: the nodes with a label, or of a type.
type Group struct {
	Label          string `json:"label,omitempty"` // selects nodes with this label
	Type           string `json:"type,omitempty"`  // selects nodes of this type
	MaxUnavailable Amount `json:"maxUnavailable"`  // as the plan's, of the group
}

// Window is a maintenance window: it opens at the times of a cron expression, and is open for a duration.
type Window struct {
	// minute, hour, day of month, month, day of week; where the clock leaps over the time the window opens at the
	// leap, where it comes twice at the first
	Cron     string            `json:"cron"`
	Zone     string            `json:"zone"`     // name of the time zone: Europe/Berlin
	Duration duration.Duration `json:"duration"` // elapsed time, at most P7D
}

// OnAbort says what becomes of the nodes when a rollout is aborted.
type OnAbort string

// What an abort does.
const (
	Leave    OnAbort = "leave"     // nothing more is issued
	TakeBack OnAbort = "take-back" // each node gets its own last good document again
)

// Selects reports whether a selector takes a node of this type with these labels.
func Selects(label, nodeType, has string, labels []string) bool {
	return (nodeType == "" || nodeType == has) && (label == "" || slices.Contains(labels, label))
}

// Takes reports whether a wave selects a node of this type with these labels.
func (w *Wave) Takes(nodeType string, labels []string) bool {
	return Selects(w.Label, w.Type, nodeType, labels)
}

// Limit returns how many of a group of all nodes may be unavailable.
func Limit(a Amount, all int) int { return max(1, a.Of(all)) }
