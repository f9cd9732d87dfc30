package workloads

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// needing is a configuration that needs others: service=condition.
func needing(c workload.Config, needs ...string) workload.Config {
	for _, n := range needs {
		service, condition, _ := strings.Cut(n, "=")
		c.Needs = append(c.Needs, workload.Need{Slot: workload.Slot{Service: service, Node: "n1"},
			Condition: workload.Condition(condition)})
	}
	return c
}

func jobOf(c workload.Config) workload.Config {
	c.Class = workload.Job
	return c
}

func stopped(c workload.Config) workload.Config {
	c.Stopped = true
	return c
}

// starts are the services whose processes were started, in order.
func (w *world) starts() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, id := range w.started {
		if parts := strings.Split(id, "."); parts[2] == "start" {
			all = append(all, parts[0])
		}
	}
	return strings.Join(all, " ")
}

func (w *world) slot(service string) wire.WorkloadSlot {
	for _, s := range w.report().Slots {
		if s.Slot == service+"@n1" {
			return s
		}
	}
	return wire.WorkloadSlot{}
}

// Slots start in the order that their needs make, each as soon as what it needs is so, in whatever order the set has
// them; what is there already does not matter to one that does not need it.
func TestOrderOfStart(t *testing.T) {
	one := func(service string, needs ...string) workload.Config {
		return needing(config(service, "one", ""), needs...)
	}
	status := func(c workload.Config) workload.Config {
		c.Resources[workload.HookStatus] = workload.Artifact{Class: workload.Resource, UUID: "status-" + c.Slot.Service,
			URLs: []string{"http://x/"}}
		return c
	}
	for _, row := range []struct {
		name    string
		configs []workload.Config
		then    func(w *world)
		want    string        // services in the order of their starts
		at      time.Duration // by which they all have started, and not a second before; 0: at once
	}{
		{"started", []workload.Config{one("a", "b=started"), one("b", "c=started"), one("c")}, nil, "c b a", 0},
		{"after, before", []workload.Config{one("a", "b=after"), one("b"), one("c", "b=before")}, nil, "c b a", 0},
		{"before and after the same", []workload.Config{one("a", "b=after"), one("b", "a=before")}, nil, "b a", 0},
		{"healthy without a status hook: the window", []workload.Config{one("a", "b=healthy"), one("b")}, nil, "b a",
			rules.Window},
		{"healthy by the status hook", []workload.Config{one("a", "b=healthy"), status(one("b"))}, nil, "b a",
			time.Second},
		{"completed", []workload.Config{one("a", "b=completed"), jobOf(one("b"))},
			func(w *world) {
				settled(20 * time.Second)
				w.exit("b", keep.Status{})
			}, "b a", 20 * time.Second},
		{"a job that has succeeded was started and healthy", []workload.Config{one("a", "b=started", "c=healthy"),
			jobOf(one("b")), jobOf(one("c"))}, func(w *world) {
			settled(5 * time.Second)
			w.exit("c", keep.Status{})
		}, "b c a", 5 * time.Second},
		{"weak: not there", []workload.Config{one("a", "b=after", "c=before")}, nil, "a", 0},
		{"weak: stopped by an operator", []workload.Config{one("a", "b=after"), stopped(one("b"))}, nil, "a", 0},
		{"stopped by an operator", []workload.Config{one("a", "b=started"), stopped(one("b"))}, nil, "", 0},
		{"weak: refused", []workload.Config{one("a", "b=after"),
			config("b", "bad", "", workload.HookValidate)}, nil, "a", 0},
		{"a slot of another node is never so", []workload.Config{func() workload.Config {
			c := one("a", "b=started")
			c.Needs[0].Slot.Node = "n2"
			return c
		}(), one("b")}, nil, "b", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.ends["bad/"+workload.HookValidate] = keep.Status{ExitCode: 1}
				a := w.agent()
				a.Manager.Want(row.configs)
				if row.at > 0 {
					settled(row.at - 100*time.Millisecond)
					if w.starts() == row.want {
						t.Errorf("started before %v: %s", row.at, w.starts())
					}
					if s := w.slot("a"); s.State != wire.WorkloadPreparing || s.Doing != "needs" || len(s.Waits) != 1 {
						t.Errorf("while it waits: %+v", s)
					}
				}
				if row.then != nil {
					row.then(w)
				}
				settled(time.Second)
				got := w.starts()
				if strings.HasPrefix(row.want, "b c") { // neither waits for the other
					got = strings.Replace(got, "c b", "b c", 1)
				}
				if got != row.want {
					t.Errorf("started: %s, want %s", got, row.want)
				}
				a.end()
			})
		})
	}
}

// What is before another slot is waited for by that, for as long as it is being prepared; not when it goes.
func TestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.missing["c-one-"+workload.HookStart] = true
		a := w.agent()
		b, c := config("b", "one", ""), needing(config("c", "one", ""), "b=before")
		a.Manager.Want([]workload.Config{b, c})
		settled(time.Minute)
		if s := w.slot("b"); w.starts() != "" || len(s.Waits) != 1 ||
			s.Waits[0] != (wire.WorkloadNeed{Slot: "c@n1", Condition: "after"}) {
			t.Errorf("started %q: %+v", w.starts(), s)
		}
		a.Manager.Want([]workload.Config{b})
		settled(time.Minute)
		w.only(map[string]string{"b": "one"})
		a.end()
	})
}

// Running conditions bound neither updates nor stops: what is needed is updated, restarted and taken away while what
// needs it runs on, and so is that.
func TestNeedsBoundStartsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		web, db := needing(config("web", "one", ""), "db=started"), config("db", "one", "")
		a.Manager.Want([]workload.Config{web, db})
		settled(time.Minute)
		db2 := config("db", "two", "")
		a.Manager.Want([]workload.Config{web, db2})
		settled(time.Minute)
		if err := a.Manager.Restart("db"); err != nil {
			t.Error(err)
		}
		settled(time.Minute)
		w.only(map[string]string{"web": "one", "db": "two"})
		if got := w.starts(); got != "db web db db" {
			t.Errorf("started: %s", got)
		}
		bad := config("db", "bad", "")
		w.ends["bad/"+workload.HookStart] = keep.Status{ExitCode: 1}
		jobs := jobOf(bad) // in its place, and never up
		a.Manager.Want([]workload.Config{web, jobs})
		settled(time.Minute)
		web2 := needing(config("web", "two", ""), "db=healthy")
		a.Manager.Want([]workload.Config{web2, jobs})
		settled(time.Minute)
		if got := w.running()["web"]; !slices.Equal(got, []string{"two"}) {
			t.Errorf("an update waited: %v", got)
		}
		a.Manager.Want([]workload.Config{jobs})
		settled(time.Minute)
		if got := w.running()["web"]; got != nil {
			t.Errorf("a stop waited: %v", got)
		}
		a.end()
	})
}

// After the machine went down everything starts in order again, also what has run before; after a restart of the agent
// alone, nothing is started.
func TestNeedsAfterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		configs := []workload.Config{needing(config("web", "one", ""), "db=healthy"),
			needing(config("db", "one", ""), "job=completed"), jobOf(config("job", "one", ""))}
		a := w.agent()
		a.Manager.Want(configs)
		settled(time.Second)
		w.exit("job", keep.Status{})
		settled(time.Minute)
		const first = "job db web"
		if got := w.starts(); got != first {
			t.Fatalf("started: %s", got)
		}
		a.end()
		a = w.agent()
		a.Manager.Want(configs)
		settled(time.Minute)
		if got := w.starts(); got != first {
			t.Errorf("after a restart of the agent: %s", got)
		}
		a.end()
		w.lock(func() { // the machine went down
			for _, p := range w.runs {
				p.State = keep.Lost
			}
		})
		a = w.agent()
		a.Manager.Want(configs)
		settled(rules.Window)
		if got := w.starts(); got != first+" db" {
			t.Errorf("after the machine went down: %s", got)
		}
		if s := w.slot("web"); s.State != wire.WorkloadRestarting || len(s.Waits) != 1 ||
			s.Waits[0] != (wire.WorkloadNeed{Slot: "db@n1", Condition: "healthy"}) || !s.Next.IsZero() {
			t.Errorf("while it waits: %+v", s)
		}
		settled(time.Minute)
		if got := w.starts(); got != first+" db web" { // the job has succeeded, and is not run again
			t.Errorf("after the machine went down: %s", got)
		}
		a.end()
	})
}

// What was taken away and is wanted again during a slow stop is not lost, and starts in order.
func TestNeedsOverSlowStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		configs := []workload.Config{needing(config("web", "one", ""), "db=started"), config("db", "one", "")}
		a := w.agent()
		a.Manager.Want(configs)
		settled(time.Minute)
		held := make(chan struct{})
		w.lock(func() { w.hold["stop"] = held })
		a.Manager.Want(nil)
		settled(time.Second)
		a.Manager.Want(configs)
		settled(time.Second)
		close(held)
		settled(time.Minute)
		w.only(map[string]string{"web": "one", "db": "one"})
		if got := w.starts(); got != "db web db web" {
			t.Errorf("started: %s", got)
		}
		a.end()
	})
}

// A job that is to run again with a new configuration is not completed until that has succeeded: what is new waits for
// it.
func TestNeedsOfAJobAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		w.ends["one/"+workload.HookStart] = keep.Status{}
		a.Manager.Want([]workload.Config{jobOf(config("job", "one", ""))})
		settled(time.Second)
		w.lock(func() { w.missing["job-two-"+workload.HookStart] = true })
		a.Manager.Want([]workload.Config{jobOf(config("job", "two", "")),
			needing(config("web", "new", ""), "job=completed")})
		settled(time.Minute)
		if got := w.starts(); got != "job" {
			t.Errorf("before the new job is there: %s", got)
		}
		w.lock(func() { w.missing = map[string]bool{} })
		w.update()
		settled(time.Minute)
		if got := w.starts(); got != "job job" {
			t.Errorf("while the new job runs: %s", got)
		}
		w.exit("job", keep.Status{})
		settled(time.Second)
		if got := w.starts(); got != "job job web" {
			t.Errorf("after it: %s", got)
		}
		a.end()
	})
}

// After a restart of the agent nothing counts as started before the keeper has told of it.
func TestNeedsWithoutKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		web, db := needing(config("web", "one", ""), "db=started"), config("db", "one", "")
		w.lock(func() { w.missing["web-one-"+workload.HookStart] = true })
		a := w.agent()
		a.Manager.Want([]workload.Config{web, db})
		settled(time.Minute)
		a.end()
		w.setDown(true)
		w.lock(func() {
			w.missing = map[string]bool{}
			for _, p := range w.runs { // and nobody has seen that
				p.State = keep.Lost
			}
		})
		a = w.agent()
		a.Manager.Want([]workload.Config{web, db})
		settled(time.Minute)
		if s := w.slot("web"); len(s.Waits) != 1 || s.State != wire.WorkloadPreparing {
			t.Errorf("while nobody knows whether db runs: %+v", s)
		}
		w.setDown(false)
		settled(time.Minute)
		if got := w.starts(); got != "db db web" {
			t.Errorf("started: %s", got)
		}
		a.end()
	})
}

// The agent is killed, or the seam fails once, at each thing that leaves a mark: the order holds all the same, and
// everything runs in the end.
func TestNeedsWithTroubleAtEveryStep(t *testing.T) {
	configs := []workload.Config{needing(config("web", "one", ""), "db=started", "job=completed"),
		config("db", "one", ""), jobOf(config("job", "job", ""))}
	for _, die := range []bool{true, false} {
		t.Run(fmt.Sprint("dies ", die), func(t *testing.T) {
			t.Parallel()
			for at, came := 1, true; came && !t.Failed(); at++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.at, w.die = at, die
					w.ends["job/"+workload.HookStart] = keep.Status{}
					a := w.agent()
					a.Manager.Want(configs)
					settled(time.Minute)
					if a.dead {
						a.end()
						a = w.agent()
						a.Manager.Want(configs)
						settled(time.Minute)
					}
					a.end()
					order := strings.Split(w.starts(), " ")
					web := slices.Index(order, "web")
					if db, job := slices.Index(order, "db"), slices.Index(order, "job"); db < 0 || job < 0 ||
						web < db || web < job || len(w.running()["web"]) != 1 || len(w.running()["db"]) != 1 {
						t.Errorf("%s, point %d: started %v, run %v", w.where, at, order, w.running())
					}
					came = w.where != ""
					if !came && at < 20 {
						t.Errorf("%d points only", at)
					}
				})
			}
		})
	}
}
