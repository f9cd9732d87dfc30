package op

import (
	"slices"
	"time"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// What should run where (seed 001).
var (
	PlanDesired = define(Op[DecideIn, desired.Plan]{
		Name: "desired.plan", Route: "GET /v1/desired/plan", Role: View,
		About: "Decides what should run where, by the items, subjects and nodes that there are, and says what is to " +
			"be done for it, and why something is not there. Nothing is changed.",
	})
	WhyDesired = define(Op[WhyDesiredIn, ItemWhy]{
		Name: "desired.why", Route: "GET /v1/nodes/{node}/items/{item}/why", Role: View,
		About: "Says what decided that an item is, or is not, to run on a node.",
	})
	ShowDesired = define(Op[DesiredStateIn, DesiredState]{
		Name: "desired.show", Route: "GET /v1/desired", Role: View,
		About: "Lists what should run of update items: components and instances of services, by node, and how each is.",
	})
	ApplyDesired = define(Op[ApplyDesiredIn, view.Result]{
		Name: "desired.apply", Route: "POST /v1/desired", Role: Operate, Form: Verdict,
		About: "Decides as desired.plan does, and submits what components come to as the list of components, or what " +
			"services come to as the set of workloads.",
	})
)

// DecideIn says how it is decided.
type DecideIn struct {
	EvictAfter time.Duration `query:"evictAfter" json:"-"` // services leave a node that is offline for longer; 0: never
	Preempt    bool          `query:"preempt" json:"-"`    // services make room for those of higher priority
}

// DesiredStateIn says what is listed.
type DesiredStateIn struct {
	Node string `query:"node" is:"name" json:"-"` // of this node only
}

// DesiredState is what there is of update items.
type DesiredState struct {
	Instances []view.ItemInstance `json:"instances"`       // by node, then components, then services by slot
	Moves     []DesiredMove       `json:"moves,omitempty"` // of services that leave nodes which are overloaded
}

// DesiredMove is a service that leaves a node which is overloaded.
type DesiredMove struct {
	desired.ReliefMove
	Until time.Time `json:"until"` // taken back then, if it has not reached its node
	Why   string    `json:"why"`   // the same as a sentence
}

// WhyDesiredIn names a node and an item.
type WhyDesiredIn struct {
	NodeIn
	Item string     `path:"item" json:"-"`  // its codename
	Type items.Type `query:"type" json:"-"` // where items of several types have the codename
	DecideIn
}

// Check judges the type.
func (in *WhyDesiredIn) Check() *wire.Error {
	types := []items.Type{"", items.Service, items.Component, items.Layer}
	if !slices.Contains(types, in.Type) {
		return invalid("the parameter type is service, component or layer")
	}
	return nil
}

// ApplyDesiredIn says how it is decided and submitted.
type ApplyDesiredIn struct {
	DecideIn
	Of      wire.Kind `query:"of" need:"yes" json:"-"` // components or workloads
	DryRun  bool      `query:"dryRun" json:"-"`        // judge only
	Offline bool      `query:"offline" json:"-"`       // do not ask the nodes: they still judge what they receive
	Force   bool      `query:"force" json:"-"`         // also if the same set has failed before
	// in waves, by this plan: its JSON, without superfluous white space
	Rollout string `query:"rollout" is:"json" empty:"leave it out to send it to all nodes at once" json:"-"`
}

// Check judges what is submitted.
func (in *ApplyDesiredIn) Check() *wire.Error {
	if !Decided(in.Of) {
		return invalid("the parameter of is components or workloads")
	}
	return nil
}

// Decided reports whether documents of a kind may be made of what was decided.
func Decided(name wire.Kind) bool { return name == wire.KindComponents || name == wire.KindWorkloads }

// Submission is what is submitted, but for who submits it.
func (in *ApplyDesiredIn) Submission(document []byte) view.Submission {
	return (&Submit{Mode: wire.ModeApply, Document: document, DryRun: in.DryRun, Offline: in.Offline, Force: in.Force,
		Rollout: in.Rollout}).Submission(in.Of)
}
