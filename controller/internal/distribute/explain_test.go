package distribute

import (
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Whether a node has what is explained is not told by what became of another document.
func TestExplainedOnNode(t *testing.T) {
	ref := func(rev uint64, version string) wire.DocRef {
		return wire.DocRef{Epoch: 1, Rev: rev, Version: version, Hash: "hash of " + version}
	}
	last := func(rev uint64, version string, state wire.State, err *wire.Error) *wire.Attempt {
		r := ref(rev, version)
		return &wire.Attempt{Epoch: r.Epoch, Rev: r.Rev, Version: r.Version, Hash: r.Hash, State: state, Error: err,
			Attempt: 1}
	}
	old, now := ref(1, "1.0.0"), ref(2, "2.0.0")
	wants, tries, no := &kind.Doc{DocRef: now}, &kind.Doc{DocRef: ref(3, "3.0.0"), Mode: wire.ModeTry},
		wire.New(wire.CodeBadValue, "/priority", "too high")
	for name, c := range map[string]struct {
		k    kind.Document
		want view.Explanation
	}{
		"nothing was said": {kind.Document{Desired: wants}, view.Explanation{}},
		"it has it": {kind.Document{Desired: wants, Running: &now,
			Last: last(2, "2.0.0", wire.StateInstalled, nil)},
			view.Explanation{Running: "2.0.0", InForce: true, State: wire.StateInstalled}},
		"it has not heard of it": {kind.Document{Desired: wants, Running: &old,
			Last: last(1, "1.0.0", wire.StateInstalled, nil)}, view.Explanation{Running: "1.0.0"}},
		"it refused it": {kind.Document{Desired: wants, Running: &old,
			Last: last(2, "2.0.0", wire.StateRejected, no)},
			view.Explanation{Running: "1.0.0", State: wire.StateRejected, Error: no}},
		"it refused the one before": {kind.Document{Desired: wants, Last: last(1, "1.0.0", wire.StateRejected, no)},
			view.Explanation{}},
		"it tries another": {kind.Document{Desired: tries, Running: &now,
			Last: last(3, "3.0.0", wire.StateTrying, nil)},
			view.Explanation{Running: "3.0.0", State: wire.StateTrying}},
	} {
		var got view.Explanation
		onNode(&got, &c.k, now.Hash)
		if got.Running != c.want.Running || got.InForce != c.want.InForce || got.State != c.want.State ||
			got.Error != c.want.Error {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
