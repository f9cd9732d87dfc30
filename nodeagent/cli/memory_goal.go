package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastMemory is the collector's goal for an agent that has little to keep (ADR 019), in bytes: all that
// the Go runtime takes.
const leastMemory = 7 << 20

// limitMemory trades a little processor time, of which the agent needs next to none, for a small
// heap. The goal grows with what the agent has to keep: a goal that cannot be met would have it
// collect without end. GOGC and GOMEMLIMIT, if set, win.
func limitMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(leastMemory)
		afterCollection(func() { debug.SetMemoryLimit(memoryGoal(measured())) })
	}
}

// memoryGoal leaves room for a third of what is alive to become garbage: a little more than the collector lets it.
func memoryGoal(live, others uint64) int64 {
	return int64(max(leastMemory, live+live/3+others))
}

// measured is what was alive after the newest collection, and what the runtime takes beside its heap.
func measured() (live, others uint64) {
	all := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all)
	others = all[1].Value.Uint64()
	for _, heap := range all[2:] {
		others -= min(others, heap.Value.Uint64())
	}
	return all[0].Value.Uint64(), others
}

// mark is something that the next collection finds dead.
type mark struct{ self *mark }

// afterCollection calls f after every collection, in the runtime's own goroutine.
func afterCollection(f func()) {
	m := &mark{}
	m.self = m // no tiny object, which would live as long as its neighbours
	runtime.AddCleanup(m, func(f func()) {
		f()
		afterCollection(f)
	}, f)
}
