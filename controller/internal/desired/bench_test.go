package desired_test

import (
	"fmt"
	"testing"

	"tandem.internal/controller/internal/desired"
	"tandem.internal/shared/items"
	"tandem.internal/shared/unitconfig"
)

// Sizes of the unit of the benchmarks.
const (
	benchNodes    = 1000
	benchItems    = 200
	benchSubjects = 50
)

// benchUnit is a unit of 1,000 nodes, 200 items (20 components, 20 layers, 160 services in 2 versions each) and 50
// subjects (10 node types, with components; 40 groups, each with 8 services in 1 to 10 instances).
func benchUnit(t testing.TB) *desired.Input {
	in := &desired.Input{}
	rule := func(s string) items.Range {
		r, err := items.ParseRange(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i := range benchNodes {
		n := &items.Node{Node: fmt.Sprintf("node-%04d", i), Type: fmt.Sprintf("type-%d", i%10), CPU: 4000, RAM: 4 << 30,
			State: items.Provisioned, Runtimes: []items.Runtime{{ID: "boot", Type: "boot", Architecture: "arm64"},
				{ID: "crun", Type: "crun", Architecture: "arm64", OS: "linux", MaxInstances: 16}},
			Resources: []items.Resource{{Name: fmt.Sprintf("bus-%d", i%4), Shared: 2}, {Name: "log"}}}
		in.Nodes = append(in.Nodes, desired.Node{Info: n, Labels: []string{fmt.Sprintf("hall-%d", i%5)},
			Priority: i % 3, Ratios: unitconfig.EntryRatios{}.Resolved()})
	}
	for i := range benchItems {
		for _, v := range []string{"1.0.0", "1.1.0"} {
			m := items.Meta{Codename: fmt.Sprintf("item-%03d", i), Version: v, Priority: i % 7}
			layer := func(k int) {
				m.Dependencies = append(m.Dependencies, items.Dependency{Type: items.Layer,
					Codename: fmt.Sprintf("item-%03d", k), Versions: rule("^1.0.0"), Condition: items.Started})
			}
			switch {
			case i < 20:
				m.Type, m.Runtimes = items.Component, []string{"boot"}
			case i < 40:
				m.Type = items.Layer
				if i > 20 && i%3 == 0 {
					layer(i - 1)
				}
			default:
				m.Type, m.Runtimes = items.Service, []string{"crun"}
				m.Quotas = items.Amounts{CPU: int64(100 + i), RAM: int64(i) << 20}
				m.Resources = []string{"log"}
				if i%5 == 0 {
					m.Resources = append(m.Resources, fmt.Sprintf("bus-%d", i%4))
				}
				layer(20 + i%20)
				if i%40 == 0 {
					m.SuppressItems = []items.Ref{{Type: items.Service, Codename: fmt.Sprintf("item-%03d", i+1)}}
				}
			}
			in.Items = append(in.Items, items.Item{State: items.Ready, Meta: m})
		}
	}
	for i := range benchSubjects {
		s := items.Subject{Codename: fmt.Sprintf("subject-%02d", i), Type: items.Group, Priority: i}
		if i < 10 {
			s.Codename, s.Type = fmt.Sprintf("type-%d", i), items.NodeType
			for k := range 20 {
				s.Items = append(s.Items, items.Attachment{Type: items.Component,
					Codename: fmt.Sprintf("item-%03d", k)})
			}
		} else {
			for k := range 8 {
				s.Items = append(s.Items, items.Attachment{Type: items.Service, Instances: 1 + (i+k)%10,
					Codename: fmt.Sprintf("item-%03d", 40+(i*4+k)%160)})
				if k == 0 {
					s.Items[len(s.Items)-1].Labels = []string{fmt.Sprintf("hall-%d", i%5)}
				}
			}
		}
		in.Subjects = append(in.Subjects, s)
	}
	return in
}

// settled is the unit once its plan is carried out.
func settled(t testing.TB) *desired.Input {
	in := benchUnit(t)
	p := decide(t, in)
	if p.Changes.Start < 20_000+1000 || len(p.Reasons) == 0 {
		t.Fatalf("%+v", p.Changes)
	}
	in.Current = currentOf(p)
	return in
}

// BenchmarkFull decides for a unit in which nothing runs yet.
func BenchmarkFull(b *testing.B) {
	in := benchUnit(b)
	b.ReportAllocs()
	for b.Loop() {
		decide(b, in)
	}
}

// BenchmarkFullFloor is what it costs to go once over every node for every service instance.
func BenchmarkFullFloor(b *testing.B) {
	in := benchUnit(b)
	count := 0
	for _, s := range in.Subjects {
		for _, a := range s.Items {
			count += a.Instances
		}
	}
	for b.Loop() {
		best := 0
		for range count {
			for i := range in.Nodes {
				if n := &in.Nodes[i]; n.Priority > in.Nodes[best].Priority && n.Info.CPU >= 100 {
					best = i
				}
			}
		}
	}
}

// BenchmarkChange decides anew when one node of a unit that is settled goes away, and when it comes back.
func BenchmarkChange(b *testing.B) {
	in := settled(b)
	all := in.Nodes
	moved := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		in.Nodes = all
		if i%2 == 0 {
			in.Nodes = append(all[:500:500], all[501:]...)
		}
		moved += decide(b, in).Changes.Move
	}
	if moved == 0 {
		b.Error("nothing moved")
	}
}
