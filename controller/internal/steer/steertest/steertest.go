// Package steertest is a unit in memory, as kinds see it: its items, subjects and documents are what tests make them,
// and its nodes say what tests have them say. It is for tests only.
package steertest

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/controller/internal/kinds"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Now is the unit's time at first.
var Now = time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)

// Unit is a unit as kinds see it.
type Unit struct {
	kind.Unit
	T        testing.TB
	Contents map[wire.Kind]kind.Content
	States   map[wire.Kind]kind.State
	Nodes    []*kind.Node
	At       time.Time // of changes
	byName   map[string]*kind.Node
	seq      uint64
}

// New makes an empty unit.
func New(t testing.TB) *Unit {
	return &Unit{T: t, Contents: map[wire.Kind]kind.Content{}, States: map[wire.Kind]kind.State{},
		At: Now, byName: map[string]*kind.Node{}}
}

// Rolled says that no rollout goes on.
func (u *Unit) Rolled(wire.Kind) *kind.Rolled { return nil }

// Content is what is installed of a source.
func (u *Unit) Content(name wire.Kind) kind.Content { return u.Contents[name] }

// State is how the unit stands with a source.
func (u *Unit) State(name wire.Kind) kind.State { return u.States[name] }

// Artefact says that everything is in the store.
func (u *Unit) Artefact(string) (int64, bool) { return 5, true }

// Each calls fn for every node, as it is of a kind.
func (u *Unit) Each(k wire.Kind, fn func(kind.Node)) {
	for _, n := range u.Nodes {
		fn(of(n, k))
	}
}

// Node is a node as it is of a kind.
func (u *Unit) Node(k wire.Kind, name string) (kind.Node, bool) {
	if n := u.byName[name]; n != nil {
		return of(n, k), true
	}
	return kind.Node{}, false
}

// of is a node with what it tells of a kind: its detail, which is a map from kinds.
func of(n *kind.Node, k wire.Kind) kind.Node {
	v := *n
	if all, ok := n.Detail.(map[wire.Kind]any); ok {
		v.Detail = all[k]
	}
	return v
}

// Tells has a node tell something of a kind.
func (u *Unit) Tells(node string, k wire.Kind, detail any) {
	n := u.byName[node]
	all, _ := n.Detail.(map[wire.Kind]any)
	if all == nil {
		all = map[wire.Kind]any{}
		n.Detail = all
	}
	all[k] = detail
}

// Change changes a collection.
func (u *Unit) Change(name wire.Kind, data any) {
	u.T.Helper()
	fold := kinds.All().Source(name).Fold
	if err := fold.Judge(u.Contents[name], data); err != nil {
		u.T.Fatal(err)
	}
	u.seq++
	u.Contents[name] = fold.Apply(u.Contents[name], kind.Change{Seq: u.seq, At: u.At}, data)
}

// Accept makes a document the installed one.
func (u *Unit) Accept(name wire.Kind, document []byte) {
	u.T.Helper()
	p := kinds.All().Source(name).Parse(kind.Reading{Document: document, Version: "1.0.0"})
	if len(p.Problems) > 0 {
		u.T.Fatalf("%s: %v\n%s", name, p.Problems[0], document)
	}
	u.Contents[name] = p.Content
	u.States[name] = kind.State{State: kind.Installed, Version: p.Version, Hash: wire.Hash(document)}
}

// Has adds a version of an item that is ready: a file, or of a layer a packed directory.
func (u *Unit) Has(meta items.Meta) {
	u.T.Helper()
	name := meta.Codename + meta.Version
	c := items.Content{Form: items.File}
	b := items.Blob{Digest: wire.Hash([]byte(name)), Size: 5}
	if meta.Type == items.Layer {
		c.Form, b.DiffID, b.Unpacked = items.Tree, wire.Hash([]byte("tar "+name)), 9
	}
	c.Builds = []items.Build{{Blobs: []items.Blob{b}}}
	ref := meta.Ref()
	if kind.As[kinditems.Collection](u.Contents[kinditems.KindItems]).List[kinditems.Key(ref)] == nil {
		u.Change(kinditems.KindItems, kinditems.Change{Type: ref.Type, Codename: ref.Codename, ID: u.NextID()})
	}
	u.Change(kinditems.KindItems, kinditems.Change{Type: ref.Type, Codename: ref.Codename, Meta: &meta, Content: &c,
		State: items.Ready})
}

// NextID is the UUID of the next item that is created.
func (u *Unit) NextID() string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", u.seq) }

// Subject sets a subject.
func (u *Unit) Subject(s items.Subject) {
	u.T.Helper()
	for i := range s.Items {
		if s.Items[i].Type == items.Service && s.Items[i].Instances == 0 {
			s.Items[i].Instances = 1
		}
	}
	u.Change(kinditems.KindSubjects, kinditems.SubjectChange{Codename: s.Codename, Subject: &s})
}

// Joins adds a node that is online, with the runtime for processes and one for each component.
func (u *Unit) Joins(name, nodeType string, components ...string) *wire.NodeInfo {
	info := &wire.NodeInfo{Type: nodeType, OS: "linux", Arch: "amd64", CPUs: 4, RAM: 1 << 30, CPU: 1000,
		Runtimes: []wire.Runtime{{ID: "process", Type: "process", Architecture: "amd64"}}}
	for _, c := range components {
		info.Runtimes = append(info.Runtimes, wire.Runtime{ID: c, Type: c, Architecture: "amd64"})
	}
	n := &kind.Node{Name: name, Up: true, Since: Now, Info: info}
	u.Nodes, u.byName[name] = append(u.Nodes, n), n
	return info
}

// Apply decides, and makes what that comes to what is installed.
func (u *Unit) Apply() {
	u.T.Helper()
	d, err := steer.Look(u, Now).Decide()
	if err != nil {
		u.T.Fatal(err)
	}
	u.Accept(wire.KindWorkloads, d.Workloads)
	u.Accept(wire.KindComponents, d.Components)
}

// Slots are the configurations that a node gets.
func (u *Unit) Slots(node string) []workload.Config {
	u.T.Helper()
	body := u.Contents[wire.KindWorkloads].For(kind.Facts{Node: node})
	if body == nil {
		return nil
	}
	configs, problems := workload.ParseDocument(body.Bytes, node)
	if problems != nil {
		u.T.Fatal(problems[0])
	}
	return configs
}
