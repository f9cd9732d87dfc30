package policies

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/controller/internal/kind"
	"tandem.internal/shared/wire"
)

// large is a unit of 10,000 nodes with 100 policies.
func large(b *testing.B) (*unit, *Matching) {
	u := &unit{contents: map[wire.Kind]kind.Content{}, nodes: map[string]kind.Node{}}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		name := fmt.Sprint("node-", i)
		u.nodes[name] = kind.Node{Name: name, Info: &wire.NodeInfo{Type: fmt.Sprint("t", i%20), OS: "linux",
			Arch: "arm64", CPUs: 4, RAM: 2 << 30, AgentVersion: "1.0.0",
			Attributes: map[string]string{"line": fmt.Sprint(random.IntN(50))}}}
	}
	all := kind.Content(nil)
	for i := range 100 {
		doc := fmt.Sprintf(`{"enabled":true,"constraints":["tandem.type == t%d && (line == %d || `+
			`openhorizon.memory < 1024)"],"agentUpgradePolicy":{"atLeastVersion":"1.%d.0"}}`, i%20, i%50, i)
		all = apply(all, kind.Change{Seq: uint64(i + 1), At: at},
			Change{Name: fmt.Sprint("p", i), Document: jsontext.Value(doc)})
	}
	u.contents[wire.KindPolicies] = all
	return u, build(u.contents).(*Matching)
}

// BenchmarkMatching: 10,000 nodes with 100 policies.
func BenchmarkMatching(b *testing.B) {
	u, _ := large(b)
	for b.Loop() {
		m := build(u.contents)
		for name, n := range u.nodes {
			m.For(kind.Facts{Node: name, Type: n.Type(), Info: n.Info})
		}
	}
}

// BenchmarkOneNode: one node's change, with 100 policies.
func BenchmarkOneNode(b *testing.B) {
	u, m := large(b)
	n := u.nodes["node-7"]
	for b.Loop() {
		m.For(kind.Facts{Node: "node-7", Type: n.Type(), Info: n.Info})
	}
}
