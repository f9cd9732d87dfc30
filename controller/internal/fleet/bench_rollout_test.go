package fleet

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

// A rollout in a unit of 10,000 nodes, half way: how long its beginning takes, what it costs to hear a node, and to
// show it with who holds it up.
func BenchmarkRolloutOf10000(b *testing.B) {
	u := newRolloutUnit(b, 0)
	for i := range 10_000 {
		u.join(fmt.Sprintf("n%05d", i), "mainType")
	}
	u.pump()
	install := func() {
		for _, n := range u.nodes {
			if d := n.doc(wire.KindConfig); !d.at.IsZero() {
				u.finish(n, wire.KindConfig, d)
			}
		}
		u.pump()
	}
	u.apply("1.0.0", "")
	install()
	begin := time.Now()
	id := u.apply("2.0.0", `{"waves": [{"percent": 50}, {"percent": 100}], "maxUnavailable": {"percent": 100}}`)
	began := time.Since(begin)
	install()
	if v, _ := u.w.live.Rollouts().Show(u.now, id); v.Nodes.Soaking != 5000 {
		b.Fatalf("%+v", v)
	}
	n := u.nodes["n00001"]
	for _, what := range []struct {
		name string
		do   func()
	}{
		{"show", func() {
			if v, ok := u.w.live.Rollouts().Show(u.now, id); !ok || v.Nodes.All != 10_000 || v.Held == nil {
				b.Fatalf("%+v", v)
			}
		}},
		{"status", func() { u.w.live.Status("config") }},
		{"heard", func() { u.leave(n); u.pump(); u.connect(n); u.pump() }},
		{"checkpoint", func() { u.w.live.Checkpoint() }},
	} {
		b.Run(what.name, func(b *testing.B) {
			for range b.N {
				what.do()
			}
		})
	}
	b.Logf("begun in %v", began)
	u.decide(rollout.Pause{ID: id})
}
