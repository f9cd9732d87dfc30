package workloads

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// withImage has a world make containers of the image of imaged.
func withImage(t *testing.T, w *world) *made {
	c := &made{world: w, specs: map[string]container.Spec{}}
	image := workload.Image{Layers: []string{"diff-base", "diff-own"}, Args: []string{"/bin/sensor"}, UID: 1}
	file := filepath.Join(w.dir, "image")
	if err := os.WriteFile(file, image.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	w.contain, w.fetches, w.lenient = c, images{w, file}, true
	return c
}

// What is in force, or on trial, when a machine is started whose container runtime is found late is neither started nor
// given up until then, with the reason.
func TestInForceWaitsForARuntime(t *testing.T) {
	for _, after := range []time.Duration{3 * time.Second, time.Minute} { // in its window, and later
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := withImage(t, w)
			a := w.agent()
			a.Manager.Want([]workload.Config{config("web", "one", "")})
			settled(time.Minute)
			want := []workload.Config{imaged("two")}
			a.Manager.Want(want)
			settled(after)
			a.end()
			w.runs, c.specs = map[string]*process{}, map[string]container.Spec{}
			c.lacks = "this node has no container runtime: too slow"
			starts := len(w.started)
			a = w.agent()
			a.Manager.Want(want)
			settled(10 * time.Minute)
			s := w.slot("web")
			if s.ID != "two" || s.Error == nil || s.Error.Code != wire.CodeNotSupported ||
				!strings.Contains(s.Error.Message, "too slow") || !s.Next.IsZero() || s.Exit == nil || !s.Exit.Lost ||
				len(w.started) != starts || w.reported("workload-back web@n1 two") {
				t.Errorf("after %v: %+v, started %q", after, s, w.started[starts:])
			}
			w.lock(func() { c.lacks = "" })
			a.Manager.Look()
			settled(time.Second)
			if s := w.slot("web"); s.ID != "two" || s.State != wire.WorkloadRunning || s.Error != nil ||
				s.Restarts != 1 {
				t.Errorf("after %v: %+v", after, s)
			}
			a.end()
		})
	}
}

// A container with the node's network that was taken before a level forbids that is not started anew, with the reason.
func TestNetworkAtEachStart(t *testing.T) {
	for least, runs := range map[confine.Level]int{"files": 1, "landlock": 0, "basic+net": 0} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			withImage(t, w)
			a := w.agent()
			want := []workload.Config{imaged("one")}
			a.Manager.Want(want)
			settled(time.Minute)
			a.end()
			w.least = least
			a = w.agent()
			a.Manager.Want(want)
			settled(time.Minute)
			if n := len(w.running()[""]); n != 1 {
				t.Errorf("%s: %d run, and the one of before goes on", least, n)
			}
			w.exit("web", keep.Status{State: keep.Exited, ExitCode: 1})
			settled(time.Minute)
			e := w.slot("web").Exit
			if n := len(w.running()[""]); n != runs ||
				runs == 0 && (e == nil || !strings.Contains(e.Text, "--confine "+string(least))) {
				t.Errorf("%s: %d run, %+v", least, n, e)
			}
			a.end()
		})
	}
}

// A set for one container runtime waits where there is another one, with the reason.
func TestWaitsForItsRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		withImage(t, w)
		a := w.agent()
		c := imaged("one")
		c.Container.Runtime = "runc"
		a.Manager.Want([]workload.Config{c})
		settled(time.Minute)
		if s := w.slot("web"); len(w.started) > 0 || s.Error == nil || s.Error.Message != "there is crun alone" {
			t.Errorf("%q %+v", w.started, s)
		}
		a.end()
	})
}
