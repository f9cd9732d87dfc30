package fleet

import (
	"strings"
	"time"

	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Arrival says that a node runs what it should of a kind, for the first time since that was issued to it.
type Arrival struct {
	Kind  wire.Kind
	After time.Duration // since it was issued
}

// Heard returns the names of the nodes that were ever heard of, in no order.
func (f *Fleet) Heard() []string {
	all := make([]string, 0, len(f.nodes))
	for name := range f.nodes {
		all = append(all, name)
	}
	return all
}

// TallyUnit counts what is not a node's: trials, rollouts, and who may join and was never heard of.
func (f *Fleet) TallyUnit(now time.Time, t *view.Tally) {
	for _, src := range f.sources {
		if src.State.Trial != nil {
			t.Trials["document"]++
		}
	}
	for phase, n := range f.rollouts.Phases() {
		t.Rollouts[string(phase)] += n
	}
	t.Nodes[view.Standing{State: view.NodeAwaited}] += len(f.Awaited(now))
	t.Keeps = f.MaintenanceView() != nil
}

// TallyNodes counts some nodes. One that is not known any more is passed over.
func (f *Fleet) TallyNodes(names []string, t *view.Tally) {
	for _, name := range names {
		if n := f.nodes[name]; n != nil {
			f.tallyNode(n, t)
		}
	}
}

func (f *Fleet) tallyNode(n *Node, t *view.Tally) {
	sub := f.enrolled.Lookup(nodePrefix + n.Name)
	if sub != nil && !sub.Revoked.IsZero() {
		t.Nodes[view.Standing{State: view.NodeRevoked, Type: n.Type()}]++
		return
	}
	if sub != nil && len(sub.Certificates) > 0 {
		end := sub.Certificates[len(sub.Certificates)-1].Expires
		if t.Expires.IsZero() || end.Before(t.Expires) {
			t.Expires = end
		}
	}
	inStep, failed := true, n.inError() != nil
	for name, k := range n.Kinds {
		o := f.output(name)
		if o == nil || len(o.from) == 0 {
			continue
		}
		if k.Desired == nil {
			inStep = inStep && !(o.Everyone && (k.Running != nil || k.Last != nil))
			continue
		}
		t.Documents[view.DocumentStates{Kind: string(name), State: k.state()}]++
		failed = failed || k.Failed()
		inStep = inStep && k.InStep() && !n.unheard(k)
	}
	for _, a := range n.Alerts {
		family, _, _ := strings.Cut(a.Parameter, ":")
		t.Alerts[family]++
	}
	unwell := len(n.Alerts) > 0
	for _, o := range f.outputs {
		if o.Tally != nil {
			unwell = o.Tally(f, f.as(n, o.Name), t) || unwell
		}
	}
	state := view.NodeInStep
	switch {
	case !n.Up:
		state = view.NodeOffline
	case failed:
		state = view.NodeFailed
	case !inStep:
		state = view.NodeBehind
	case unwell:
		state = view.NodeUnwell
	}
	t.Nodes[view.Standing{State: state, Type: n.Type()}]++
}

// state is what became of the document that the node should have: the state that it reported of it, or "waiting".
func (k *KindState) state() string {
	if last := k.Last; last != nil && last.Stamp() == k.Desired.Stamp() {
		return string(last.State)
	}
	if k.Running != nil && k.Running.Stamp() == k.Desired.Stamp() {
		return string(wire.StateInstalled)
	}
	return "waiting"
}
