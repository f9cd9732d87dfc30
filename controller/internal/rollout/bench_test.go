package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"tandem.internal/controller/internal/rollout"
	"tandem.internal/shared/wire"
)

// A rollout of 10,000 nodes.
const (
	benchNodes   = 10_000
	benchWindows = `windows: [{"cron": "0 8 * * *", "zone": "Europe/Berlin", "duration": "P1D"}]`
)

// bigUnit plays a whole rollout of 10,000 nodes, fact by fact, and returns how many steps that were. See is called for
// each step with the number of what has happened before.
func bigUnit(b testing.TB, see func(set *rollout.Set, now time.Time)) (steps int, spent time.Duration) {
	now, set, seq := monday, rollout.NewSet(time.LoadLocation), uint64(0)
	var out rollout.Out
	var queue []rollout.Effect
	step := func(ev rollout.Event) {
		out.Reset()
		begin := time.Now()
		err := set.Step(now, seq, ev, &out)
		spent += time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		steps++
		seq += uint64(len(out.Records))
		queue = append(queue, out.Effects...)
	}
	fact := func(name string, rev uint64, quiet time.Duration) rollout.Facts {
		h := rollout.Health{
			Boot: "b", Alerts: quiet, Checks: quiet, Restarts: quiet, Workloads: quiet,
			Revs: map[wire.Kind]uint64{config: rev},
		}
		return rollout.Facts{{Node: name, Type: "edge", Online: true, Since: monday, Boot: "b", Health: h}}
	}
	targets := map[string]string{}
	for i := range benchNodes {
		name := fmt.Sprintf("node-%05d", i)
		targets[name] = "B"
		step(fact(name, 0, time.Hour))
	}
	step(rollout.Begin{
		ID: "r1", Salt: "s", Kind: config, Targets: targets,
		Plan: thePlan(b, `maxUnavailable: {"percent": 5}`, benchWindows,
			`groups: [{"type": "edge", "maxUnavailable": {"percent": 4}}]`),
	})
	for len(queue) > 0 {
		batch := queue
		queue = nil
		now = now.Add(time.Minute)
		for _, e := range batch {
			for _, n := range e.Nodes {
				step(rollout.Doc{Node: n.Node, Kind: config, Installed: rollout.Ref{Rev: e.Rev, Hash: "B"}})
				step(fact(n.Node, e.Rev, 0))
			}
		}
		if see != nil {
			see(set, now)
		}
		now = now.Add(10 * time.Minute)
		for _, e := range batch {
			for _, n := range e.Nodes {
				step(fact(n.Node, e.Rev, 10*time.Minute))
			}
		}
	}
	if v, _ := set.Show(now, "r1"); v.Phase != rollout.Done || v.Nodes.Passed != benchNodes {
		b.Fatalf("%+v", v)
	}
	return steps, spent
}

func BenchmarkFact(b *testing.B) {
	for range b.N {
		steps, spent := bigUnit(b, nil)
		b.ReportMetric(float64(spent.Nanoseconds())/float64(steps), "ns/fact")
		b.ReportMetric(0, "ns/op")
	}
}

func BenchmarkShow(b *testing.B) {
	var all time.Duration
	n := 0
	for range b.N {
		bigUnit(b, func(set *rollout.Set, now time.Time) {
			if n++; n%4 == 1 {
				begin := time.Now()
				set.Show(now, "r1")
				all += time.Since(begin)
			}
		})
	}
	b.ReportMetric(float64(all.Nanoseconds())/float64((n+3)/4), "ns/show")
	b.ReportMetric(0, "ns/op")
}
