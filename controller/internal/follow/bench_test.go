package follow_test

import (
	"fmt"
	"testing"

	"tandem.internal/controller/internal/follow"
	kinditems "tandem.internal/controller/internal/kinds/items"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/controller/internal/steer/steertest"
	"tandem.internal/controller/internal/unitstatus"
	"tandem.internal/shared/cloud"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
)

// Sizes of the unit of the benchmarks.
const (
	benchNodes    = 1000
	benchItems    = 200
	benchSubjects = 50
)

// benchUnit is a unit of 1,000 nodes and 200 items (20 components, 20 layers, 160 services with a layer each), and a
// desired status of these for 50 subjects, each with 8 services in 2 instances.
func benchUnit(t testing.TB) (*steertest.Unit, *cloud.DesiredStatus) {
	u, d := steertest.New(t), &cloud.DesiredStatus{}
	for i := range benchNodes {
		u.Joins(fmt.Sprintf("node-%04d", i), fmt.Sprintf("type-%d", i%10), "os")
	}
	for i := range benchItems {
		m := items.Meta{Codename: fmt.Sprintf("item-%03d", i), Version: "1.0.0", Type: items.Service,
			Runtimes: []string{wire.RuntimeProcess}, Quotas: items.Amounts{CPU: int64(100 + i)},
			Dependencies: []items.Dependency{{Type: items.Layer, Codename: fmt.Sprintf("item-%03d", 20+i%20),
				Condition: items.Started}}}
		switch {
		case i < 20:
			m.Type, m.Runtimes, m.Quotas, m.Dependencies = items.Component, []string{"os"}, items.Amounts{}, nil
		case i < 40:
			m.Type, m.Runtimes, m.Quotas, m.Dependencies = items.Layer, nil, items.Amounts{}, nil
		}
		u.Has(m)
		d.Items = append(d.Items, cloud.DesiredItem{Version: "1.0.0", Item: cloud.Identity{Type: string(m.Type),
			Codename: m.Codename}})
	}
	attach := func(subject string, item, n int) {
		d.Instances = append(d.Instances, cloud.DesiredInstance{Item: d.Items[item].Item, NumInstances: n,
			Subject: cloud.Identity{Codename: subject}})
	}
	for s := range benchSubjects {
		subject := cloud.DesiredSubject{Type: items.Group,
			Identity: cloud.Identity{Codename: fmt.Sprintf("group-%02d", s)}}
		if s < 10 {
			subject.Identity.Codename, subject.Type = fmt.Sprintf("type-%d", s), items.NodeType
			attach(subject.Identity.Codename, s, 0)
		}
		d.Subjects = append(d.Subjects, subject)
		for k := range 8 {
			attach(subject.Identity.Codename, 40+(s*8+k)%160, 2)
		}
	}
	return u, d
}

// followOnce decides, and returns what follows.
func followOnce(b testing.TB, u *steertest.Unit, d *cloud.DesiredStatus) *steer.Decision {
	v := steer.Look(u, steertest.Now)
	if f := follow.Input(v, d); len(f) > 0 {
		b.Fatal(f[0].Error)
	}
	p, err := v.Decide()
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkFollow is from a desired status that has come to the documents that follow from it, in a unit in which
// nothing runs.
func BenchmarkFollow(b *testing.B) {
	u, d := benchUnit(b)
	text := d.Canonical()
	for b.Loop() {
		read, err := cloud.ParseDesired(text)
		if err != nil {
			b.Fatal(err)
		}
		if p := followOnce(b, u, read); p.Changes.Start < 1000 {
			b.Fatalf("%+v", p.Changes)
		}
	}
}

// BenchmarkFollowChange is the same after one item of it has got another version, in a unit in which all of it runs.
func BenchmarkFollowChange(b *testing.B) {
	u, d := benchUnit(b)
	p := followOnce(b, u, d)
	u.Accept(wire.KindComponents, p.Components)
	u.Accept(wire.KindWorkloads, p.Workloads)
	m := kinditems.Find(u.Contents[kinditems.KindItems], items.Ref{Type: items.Service, Codename: "item-100"},
		"1.0.0").Meta
	m.Version = "1.1.0"
	u.Has(m)
	d.Items[100].Version = "1.1.0"
	for b.Loop() {
		if p := followOnce(b, u, d); p.Changes.Update == 0 || p.Changes.Start+p.Changes.Move+p.Changes.Stop > 0 {
			b.Fatalf("%+v", p.Changes)
		}
	}
}

// BenchmarkUnitStatus assembles the status of that unit, and finds that nothing has changed.
func BenchmarkUnitStatus(b *testing.B) {
	u, d := benchUnit(b)
	p := followOnce(b, u, d)
	u.Accept(wire.KindComponents, p.Components)
	u.Accept(wire.KindWorkloads, p.Workloads)
	before := unitstatus.Look(u).Assemble(&unitstatus.Wanted{})
	for b.Loop() {
		if d := cloud.Delta(before, unitstatus.Look(u).Assemble(&unitstatus.Wanted{})); d != nil {
			b.Fatalf("%s", d.Encode())
		}
	}
}
