// Package policytest is a controller as far as management policies go, for tests of both sides: the kind policies with
// its sources, and a journal in memory that outlives crashes. There is no fleet, and nothing is sent.
package policytest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds/policies"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Unit is a unit. Make it with New.
type Unit struct {
	kind.Unit
	set     kind.Set
	nodes   map[string]kind.Node
	has     map[wire.Kind]kind.Content
	journal []entry
	matched kind.Content
	had     map[string]bool // nodes that have a document
}

// entry is a record.
type entry struct {
	source wire.Kind
	at     kind.Change
	data   []byte
}

// New returns a unit without policies.
func New() *Unit {
	return &Unit{set: policies.Set(), nodes: map[string]kind.Node{}, has: map[wire.Kind]kind.Content{},
		had: map[string]bool{}}
}

// Describe says what a node is.
func (u *Unit) Describe(node string, info wire.NodeInfo) {
	n := u.nodes[node]
	n.Name, n.Up, n.Info = node, true, &info
	u.nodes[node] = n
}

// Report keeps what a node has reported.
func (u *Unit) Report(node string, all []wire.PolicyStatus) {
	n := u.nodes[node]
	n.Detail = &wire.PoliciesReport{Policies: all}
	u.nodes[node] = n
}

// Apply sets a policy.
func (u *Unit) Apply(at time.Time, name, document string) error {
	d := policies.Change{Name: name, Document: jsontext.Value(document), AllNodes: true}
	return u.change(at, wire.KindPolicies, d)
}

// Enable enables a policy, or disables it.
func (u *Unit) Enable(at time.Time, name string, yes bool) error {
	return u.change(at, wire.KindPolicies, policies.Change{Name: name, Enabled: &yes, AllNodes: true})
}

// Remove removes a policy.
func (u *Unit) Remove(at time.Time, name string) error {
	return u.change(at, wire.KindPolicies, policies.Change{Name: name, Removed: true})
}

// RollBack makes a policy again what it was.
func (u *Unit) RollBack(at time.Time, name string) error {
	past := &policies.Past{Name: name}
	for _, e := range u.journal {
		var d policies.Change
		if e.source != wire.KindPolicies {
			continue
		}
		if err := json.Unmarshal(e.data, &d); err != nil {
			return err
		}
		past.Add(e.at, d)
	}
	d, err := past.Back(true)
	if err != nil {
		return err
	}
	return u.change(at, wire.KindPolicies, d)
}

// Set sets a property of a node; a value of "" takes it back.
func (u *Unit) Set(at time.Time, node, name, value string) error {
	d := policies.PropertyChange{Node: node, Name: name}
	if value != "" {
		d.Value = jsontext.Value(value)
	}
	return u.change(at, policies.KindProperties, d)
}

// Release puts a version on offer.
func (u *Unit) Release(at time.Time, version, arch string) error {
	b := view.AgentBuild{Arch: arch, Hash: wire.Hash([]byte(version)), Size: 1, URLs: []string{"https://c/" + version}}
	return u.change(at, policies.KindReleases, policies.Offer{Version: version, Builds: []view.AgentBuild{b}})
}

// change judges a change, and makes it a record.
func (u *Unit) change(at time.Time, source wire.Kind, data any) error {
	raw, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		return err
	}
	fold := u.set.Source(source).Fold
	read, err := fold.Decode(raw)
	if err != nil {
		return err
	}
	if err := fold.Judge(u.has[source], read); err != nil {
		return err
	}
	if fold.Weigh != nil {
		if err := fold.Weigh(u, u.has[source], read); err != nil {
			return err
		}
	}
	e := entry{source, kind.Change{Seq: uint64(len(u.journal) + 1), At: at, Who: "token/ann"}, raw}
	u.journal = append(u.journal, e)
	return u.apply(e)
}

func (u *Unit) apply(e entry) error {
	fold := u.set.Source(e.source).Fold
	read, err := fold.Decode(e.data)
	if err != nil {
		return err
	}
	u.has[e.source], u.matched = fold.Apply(u.has[e.source], e.at, read), nil
	return nil
}

// Crash ends the controller, which goes on from a checkpoint at one of its records and those after it.
func (u *Unit) Crash(checkpoint int) error {
	all := u.journal
	u.has, u.matched = map[wire.Kind]kind.Content{}, nil
	for i, e := range all {
		if i == checkpoint {
			for _, source := range slices.Sorted(maps.Keys(u.has)) {
				fold := u.set.Source(source).Fold
				saved, err := json.Marshal(fold.Save(u.has[source]), json.Deterministic(true))
				if err != nil {
					return err
				}
				if u.has[source], err = fold.Load(saved); err != nil {
					return err
				}
			}
		}
		if err := u.apply(e); err != nil {
			return err
		}
	}
	return nil
}

// Records is how many records there are.
func (u *Unit) Records() int { return len(u.journal) }

// Document is what a node is to have; nil: it never got one.
func (u *Unit) Document(node string) []byte {
	k := u.set.Kind(wire.KindPolicies)
	if u.matched == nil {
		u.matched = k.Build(u.has)
	}
	n := u.nodes[node]
	b := u.matched.For(kind.Facts{Node: node, Type: n.Type(), Info: n.Info})
	switch {
	case b != nil:
		u.had[node] = true
	case u.had[node]:
		b = k.Empty
	default:
		return nil
	}
	return b.Bytes
}

// Status is how far the nodes are with a policy: by node, "state", or "state behind POLICY".
func (u *Unit) Status(name string) map[string]string {
	all := map[string]string{}
	v, err := policies.Status(u, name, "", len(u.nodes))
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	for _, n := range v.Nodes {
		text := string(n.State)
		if n.DecidedBy != "" {
			text += fmt.Sprint(" behind ", n.DecidedBy)
		}
		all[n.Node] = text
	}
	return all
}

// Content, Each and Node are what the kind asks of the unit.
func (u *Unit) Content(source wire.Kind) kind.Content { return u.has[source] }

// Rolled returns nothing: nothing is rolled out here.
func (*Unit) Rolled(wire.Kind) *kind.Rolled { return nil }

// Each calls fn for every node.
func (u *Unit) Each(_ wire.Kind, fn func(kind.Node)) {
	for _, name := range slices.Sorted(maps.Keys(u.nodes)) {
		fn(u.nodes[name])
	}
}

// Node returns a node.
func (u *Unit) Node(_ wire.Kind, name string) (kind.Node, bool) {
	n, known := u.nodes[name]
	return n, known
}
