package fleet

import (
	"fmt"
	"testing"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// A submission of which two kinds are made has arrived where both have: what is under way counts before what failed,
// and that before what is in place.
func TestProgressOfSeveralKinds(t *testing.T) {
	const source, first, second wire.Kind = "pair", "first", "second"
	made := func(name wire.Kind) *kind.Kind { return &kind.Kind{Name: name, From: []wire.Kind{source}} }
	f := New(Options{Unit: "u1", Epoch: 1, Kinds: kind.Set{
		Sources: []*kind.Source{{Name: source}}, Kinds: []*kind.Kind{made(first), made(second)},
	}})
	ref := wire.DocRef{Epoch: 1, Rev: 1, Version: "1.0.0", Hash: "h"}
	state := func(what string) *KindState {
		k := &KindState{Document: kind.Document{Desired: &kind.Doc{DocRef: ref}}}
		switch what {
		case "installed":
			k.Running = &ref
		case "rejected":
			k.Last = &wire.Attempt{Epoch: 1, Rev: 1, Version: "1.0.0", Hash: "h", State: wire.StateRejected}
		case "none":
			return nil
		}
		return k
	}
	for i, states := range [][2]string{
		{"installed", "installed"}, {"installed", "under way"}, {"rejected", "under way"}, {"rejected", "installed"},
		{"none", "installed"}, {"none", "none"},
	} {
		n := &Node{Name: fmt.Sprintf("n%d", i), Kinds: map[wire.Kind]*KindState{}}
		n.Up = true
		for j, name := range []wire.Kind{first, second} {
			if k := state(states[j]); k != nil {
				n.Kinds[name] = k
			}
		}
		f.nodes[n.Name] = n
	}
	p := f.Status(source).Progress
	got := fmt.Sprintf("%d nodes, %d installed, %d under way, %d failed:",
		p.Nodes, p.Installed, p.OnlineMissing, p.Failed)
	for _, l := range p.Missing {
		got += " " + l.Node
	}
	if want := "5 nodes, 2 installed, 2 under way, 1 failed: n1 n2 n3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if p := f.Progress(second); p.Nodes != 5 || p.Installed != 3 {
		t.Errorf("of one kind: %+v", p)
	}
}
