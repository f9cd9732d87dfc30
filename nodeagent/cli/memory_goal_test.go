package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestMemoryGoal(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ live, others, want uint64 }{{0, 0, 7 * mib}, {2 * mib, 3 * mib, 7 * mib},
		{9 * mib, 4 * mib, 16 * mib}} {
		if got := memoryGoal(c.live, c.others); got != int64(c.want) {
			t.Errorf("%d alive, %d beside: %d, want %d", c.live, c.others, got, c.want)
		}
	}
}

// The goal follows what is kept, up and down again.
func TestMemoryGoalFollows(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() { // the marks go on; nothing else here asks for the limit
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	limitMemory()
	await := func(what string, is func(goal int64) bool) {
		t.Helper()
		end := time.Now().Add(time.Minute)
		for !is(debug.SetMemoryLimit(-1)) {
			if time.Now().After(end) {
				t.Fatalf("the goal is %d, never %s", debug.SetMemoryLimit(-1), what)
			}
			runtime.GC()
		}
	}
	small := debug.SetMemoryLimit(-1)
	kept := make([]byte, 64<<20)
	await("larger", func(goal int64) bool { return goal > 64<<20 })
	runtime.KeepAlive(kept)
	kept = nil
	await("small again", func(goal int64) bool { return goal < small+32<<20 })
	_ = kept
}
