package workloads

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func TestLostState(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			configs := []workload.Config{config("web", "one", ""), config("db", "one", "")}
			a := w.agent()
			a.Manager.Want(configs)
			settled(time.Minute)
			a.end()
			w.store = map[string][]byte{}
			a = w.agent()
			want := map[string]string{}
			if again {
				a.Manager.Want(configs[:1])
				want["web"] = "one"
			}
			settled(time.Minute)
			w.only(want)
			a.end()
		})
	}
}

// A run that nothing refers to ends while it is being stopped.
func TestLooseRunEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.started = []string{"old.1.start.1"}
		w.runs["old.1.start.1"] = &process{Status: keep.Status{ID: "old.1.start.1", State: keep.Running,
			Started: time.Now()}}
		release := make(chan struct{})
		w.hold["stop"] = release
		a := w.agent()
		settled(time.Second)
		w.exit("old", keep.Status{})
		settled(time.Second)
		close(release)
		settled(time.Minute)
		w.only(map[string]string{})
		a.end()
	})
}

func TestResourceVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		miss := func(uuid string, missing bool) {
			w.lock(func() { w.missing[uuid] = missing })
			w.update()
		}
		a := w.agent()
		miss("web-data", true)
		a.Manager.Want([]workload.Config{config("web", "one", "", workload.HookNotify)})
		settled(3 * time.Second)
		r := a.world.report()
		if len(r.Slots[0].Resources) != 1 || r.Slots[0].Resources[0].State != "fetching" ||
			r.Slots[0].Doing != "fetch" || len(w.started) > 0 {
			t.Errorf("%+v", r)
		}
		n := len(w.reports)
		for range 1000 { // nothing new in it
			w.update()
			time.Sleep(10 * time.Millisecond)
		}
		if len(w.reports) != n {
			t.Errorf("%d reports that tell nothing new", len(w.reports)-n)
		}
		miss("web-data", false)
		settled(time.Minute)
		w.only(map[string]string{"web": "one"})
		a.Manager.Want([]workload.Config{config("web", "one", "+", workload.HookNotify)})
		settled(time.Minute)
		if got := w.hooks("web"); got != "start notify" {
			t.Error(got)
		}
		a.end()
	})
}

// What an operator has stopped is down over a restart of the agent, and an order to restart does not undo that.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		c := config("web", "v1", "")
		want := func(stopped bool) {
			c.Stopped = stopped
			a.Manager.Want([]workload.Config{c})
			settled(time.Minute)
		}
		want(false)
		w.only(map[string]string{"web": "v1"})
		down := func(when string) {
			if up := w.running(); len(up) > 0 {
				t.Errorf("%s: %v", when, up)
			}
		}
		want(true)
		down("stopped")
		a.end()
		a = w.agent()
		settled(time.Minute)
		if err := a.Manager.Restart("web"); err == nil || err.Code != wire.CodeWrongState {
			t.Errorf("an order to restart what is stopped: %v", err)
		}
		settled(time.Minute)
		down("after a restart of the agent and an order")
		if s := w.report().Slots[0]; s.State != wire.WorkloadStopped {
			t.Errorf("%+v", s)
		}
		want(false)
		w.only(map[string]string{"web": "v1"})
		a.end()
	})
}

// A keeper that is replaced within seconds is no news. One that stays away is told of each slot with a run, until it is
// back: it is somebody else who has to start it.
func TestKeeperStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		told := func(when string, want bool) {
			t.Helper()
			var last wire.Workloads
			w.lock(func() { last = w.reports[len(w.reports)-1] })
			s := last.Slots[0]
			if s.State != wire.WorkloadRunning || (s.Error != nil) != want ||
				want && !strings.HasSuffix(s.Error.Message, keep.ErrAbsent.Error()) {
				t.Errorf("%s: %s, %v", when, s.State, s.Error)
			}
		}
		told("at first", false)
		w.setDown(true)
		settled(5 * time.Second)
		told("away for a moment", false)
		settled(10 * time.Second)
		told("away", true)
		w.setDown(false)
		settled(5 * time.Second)
		told("back", false)
		a.end()
	})
}
