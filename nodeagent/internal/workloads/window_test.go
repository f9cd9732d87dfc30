package workloads

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func (w *world) reported(event string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.events, event)
}

// An agent that is restarted more often than the window is long closes it all the same, when the new
// process has been up for so long, and not before.
func TestWindowOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		two := []workload.Config{config("web", "two", "")}
		a.Manager.Want(two)
		synctest.Wait()
		for range 3 {
			settled(3 * time.Second)
			a.end()
			a = w.agent()
			a.Manager.Want(two)
			synctest.Wait()
		}
		if w.reported("workload-installed web@n1 two") {
			t.Error("after 9 of 10 seconds the window is over")
		}
		settled(1100 * time.Millisecond)
		if !w.reported("workload-installed web@n1 two") {
			t.Errorf("after 10 seconds the window is not over: %v", w.events)
		}
		w.only(map[string]string{"web": "two"})
		a.end()
	})
}

// While the keeper is out of reach the new process is not there: its window does not pass, and the
// way back stays.
func TestWindowWithoutKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		held := make(chan struct{})
		w.lock(func() { w.hold["start"] = held })
		a.Manager.Want([]workload.Config{config("web", "two", "")})
		settled(time.Minute)
		if w.reported("workload-installed web@n1 two") {
			t.Error("what was never started has stayed up")
		}
		w.lock(func() { delete(w.hold, "start") })
		close(held)
		settled(5 * time.Second)
		if w.reported("workload-installed web@n1 two") {
			t.Error("the window was over early")
		}
		settled(6 * time.Second)
		if !w.reported("workload-installed web@n1 two") {
			t.Errorf("the window is not over: %v", w.events)
		}
		w.only(map[string]string{"web": "two"})
		a.end()
	})
}

// A keeper that is about to end starts nothing: that is no verdict on what it was asked to start.
func TestKeeperAboutToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		w.lock(func() { w.refuse["start"] = wire.New(wire.CodeUnavailable, "", "the keeper is about to end") })
		a.Manager.Want([]workload.Config{config("web", "two", "")})
		settled(5 * time.Second)
		w.lock(func() { delete(w.refuse, "start") })
		settled(time.Minute)
		w.only(map[string]string{"web": "two"})
		if w.reported("workload-back web@n1 two") {
			t.Error("the new version is given up")
		}
		a.end()
	})
}
