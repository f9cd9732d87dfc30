package workloads

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Two hundred slots: what a beat costs while nothing happens, and what one end costs.
func BenchmarkSlots(b *testing.B) {
	w := newWorld(b)
	for i := range 200 {
		c := config(fmt.Sprint("s", i), "v", "", workload.HookStatus)
		for j := range 10 {
			c.Properties[fmt.Sprint("p", j)], c.Resources[fmt.Sprint("r", j)] = strings.Repeat("x", 50),
				workload.Artifact{Class: workload.Resource, UUID: fmt.Sprint(i, j)}
		}
		d := slotState{Slot: c.Slot, Born: "b", Wanted: &c,
			Main: &place{Config: c, Dir: "c1", Phase: "ready", Run: fmt.Sprintf("s%d.b.start.1", i)}, Runs: 1, Dirs: 1}
		data, err := json.Marshal(&d)
		if err != nil {
			b.Fatal(err)
		}
		w.store[c.Slot.Service] = data
		w.runs[d.Main.Run] = &process{Status: keep.Status{ID: d.Main.Run, State: keep.Running, PID: 1,
			Started: time.Now()}}
	}
	a := &agent{world: w, done: make(chan error, 1)}
	m := New(Config{Dir: w.dir, Rules: rules, Resources: w, Store: a, Now: time.Now, Emit: nil,
		Report: func(wire.Workloads) {}})
	ctx, stop := context.WithCancel(context.Background())
	stop() // nothing is done
	m.began, m.work = time.Now(), ctx
	saved, err := a.Workloads()
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range saved {
		m.add(d)
	}
	m.turn()
	b.Run("idle turn", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.turn()
			m.wait()
		}
	})
	b.Run("report", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.changed = true
			m.turn()
		}
	})
	b.Run("heard", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.heard(keep.Status{ID: "s150.b.start.1", State: keep.Running}, wire.WorkloadExit{})
		}
	})
}
