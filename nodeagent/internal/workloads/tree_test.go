package workloads

import (
	"context"
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

// No hook is started with a tree that is damaged and cannot be made anew; it is tried again.
func TestNoStartWithADamagedTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.spoiled["web-data"] = true
		a := w.agent()
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Minute)
		e := w.slot("web").Exit
		if w.starts() != "" || e == nil || !strings.Contains(e.Text, `the resource "data": trouble`) {
			t.Errorf("started %q, the end: %+v", w.starts(), e)
		}
		w.lock(func() { w.spoiled = map[string]bool{} })
		settled(2 * time.Minute)
		w.only(map[string]string{"web": "one"})
		a.end()
	})
}

// Who runs with a tree may list it, and reads no other one; of other resources what lies beside them, by its name.
func TestRoomOfATree(t *testing.T) {
	w := newWorld(t)
	m := w.agent()
	defer m.end()
	c := config("web", "one", "")
	c.Resources["layer"] = workload.Artifact{UUID: "layers/ab/tree", Unpack: &workload.Unpack{DiffID: "x", Size: 1}}
	c.Resources[workload.HookStop] = workload.Artifact{UUID: "layers/cd/tree/stop",
		Unpack: &workload.Unpack{DiffID: "y", Size: 1, Path: "stop"}}
	for _, a := range c.Resources {
		w.lock(func() { w.wanted = append(w.wanted, a) })
	}
	paths, err := w.Use(t.Context(), "run", c.Resources)
	if err != nil {
		t.Fatal(err)
	}
	room := m.Manager.confine("/slot", c, paths).Room
	slices.Sort(room.Known)
	if !slices.Contains(room.Read, "/store/copies/layers/ab/tree") ||
		slices.Contains(room.Read, "/store/copies/web-data") ||
		!slices.Equal(room.Known, []string{"/store/copies", "/store/copies/layers/ab", "/store/copies/layers/cd"}) {
		t.Errorf("%+v", room)
	}
}

// uses is a store of resources that knows which runs have a tree.
type uses struct {
	*world
	wanted bool     // something was, in the life of this agent
	used   []string // runs with the tree
	seen   int      // runs that were to be started with it
}

func (u *uses) Free(run string) {
	u.lock(func() { u.used = slices.DeleteFunc(u.used, func(o string) bool { return o == run }) })
}

func (u *uses) Used(run string, all map[string]workload.Artifact) {
	u.lock(func() {
		if all["layer"].Unpack != nil {
			u.used = append(u.used, run)
		}
		if u.wanted {
			u.t.Errorf("something was wanted, and then %s has had a tree", run)
		}
	})
}

func (u *uses) Want(all []workload.Artifact) {
	u.lock(func() { u.wanted = true })
	u.world.Want(all)
}

func (u *uses) Use(ctx context.Context, run string, all map[string]workload.Artifact) (map[string]string, error) {
	u.lock(func() {
		if all["layer"].Unpack != nil {
			u.seen, u.used = u.seen+1, append(u.used, run)
		}
	})
	return u.world.Use(ctx, run, all)
}

// slow is a store of resources whose trees are being made.
type slow struct {
	*world
	made chan struct{}
}

func (s *slow) Use(ctx context.Context, run string, all map[string]workload.Artifact) (map[string]string, error) {
	if all["layer"].Unpack != nil {
		select {
		case <-s.made:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.world.Use(ctx, run, all)
}

// However many wait for their trees: another one is started, and stopped, meanwhile.
func TestTreesHoldUpNobodyElse(t *testing.T) {
	for _, end := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := &slow{w, make(chan struct{})}
			w.fetches = s
			a := w.agent()
			want := map[string]string{}
			var all []workload.Config
			for i := range 2 * atOnce {
				c := config(fmt.Sprint("web", i), "one", "")
				c.Resources["layer"] = workload.Artifact{UUID: "layer", Unpack: &workload.Unpack{DiffID: "x", Size: 1}}
				all, want[fmt.Sprint("web", i)] = append(all, c), "one"
			}
			a.Manager.Want(append(all, config("db", "one", "")))
			settled(time.Minute)
			if st := w.slot("db").State; st != wire.WorkloadRunning || len(w.running()) != 1 {
				t.Errorf("it is %s, and there run %v", st, w.running())
			}
			a.Manager.Want(all)
			settled(time.Minute)
			if left := w.running(); len(left) != 0 {
				t.Errorf("it has gone, and there run %v", left)
			}
			if !end {
				close(s.made)
				settled(time.Minute)
				w.only(want)
			}
			a.end()
		})
	}
}

// A run has its tree from before it is started until it has ended, also after a restart of the agent: that says so
// before anything is wanted. What has a damaged tree goes on, and says so until it is started anew.
func TestRunsHaveTrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		u := &uses{world: w}
		w.fetches = u
		a := w.agent()
		c := config("web", "one", "", workload.HookStatus)
		c.Resources["layer"] = workload.Artifact{UUID: "layer", Unpack: &workload.Unpack{DiffID: "x", Size: 1}}
		a.Manager.Want([]workload.Config{c, config("db", "one", "")})
		settled(2 * time.Minute) // with some runs of the status hook
		have := func() (runs []string) {
			w.lock(func() {
				runs = slices.Clone(u.used)
			})
			return runs
		}
		one := have()
		if len(one) != 1 || !strings.HasPrefix(one[0], "web.") || u.seen < 3 {
			t.Fatalf("%v have trees, of %d that were started", one, u.seen)
		}
		a.end()
		w.lock(func() { u.wanted, u.used = false, nil })
		a = w.agent()
		settled(time.Second)
		if again := have(); !slices.Equal(again, one) {
			t.Errorf("after a restart %v have trees", again)
		}
		w.lock(func() { w.outdated = map[string]string{one[0]: "ab12"} })
		w.update()
		settled(time.Minute)
		r := w.slot("web")
		if r.State != wire.WorkloadRunning || r.Error == nil || r.Error.Path != "/resources" ||
			!strings.Contains(r.Error.Message, "the tree layers/ab12 was damaged") {
			t.Errorf("with a damaged tree: %+v, %v", r, r.Error)
		}
		w.exit("web", keep.Status{State: keep.Exited})
		settled(time.Minute)
		if r, next := w.slot("web"), have(); r.Error != nil || len(next) != 1 || slices.Equal(next, one) {
			t.Errorf("started anew: %v, %v have trees", r.Error, next)
		}
		a.Manager.Want(nil)
		settled(time.Minute)
		if left := have(); len(left) > 0 {
			t.Errorf("%v have trees", left)
		}
		a.end()
	})
}

// pathsOf says where resources are.
func pathsOf(from interface {
	Look(workload.Artifact) Resource
}, all map[string]workload.Artifact) map[string]string {
	paths := map[string]string{}
	for name, a := range all {
		if r := from.Look(a); r.State == "" {
			paths[name] = r.Path
		}
	}
	return paths
}
