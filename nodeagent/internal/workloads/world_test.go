package workloads

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rules = supervise.Rules{Window: 10 * time.Second, Grace: 5 * time.Second, Status: 30 * time.Second,
	Reopen: time.Hour}

// world is a node that outlives its agents: a disk, a state file, a keeper, resources and groups.
type world struct {
	t   testing.TB
	dir string

	mu      sync.Mutex
	store   map[string][]byte
	saves   int
	runs    map[string]*process
	started []string // every run that was ever started
	changed chan struct{}
	// how a hook ends, by its name or configurationId/name; "" and missing: with 0, at once
	ends    map[string]keep.Status
	output  map[string]string // what a hook writes, by its name
	missing map[string]bool   // uuids of resources that are not on the node
	forged  map[string]bool   // uuids of resources that no publisher has signed
	spoiled map[string]bool   // uuids of resources whose trees cannot be made whole
	// by run: the directory of a damaged tree that it has
	outdated map[string]string
	lenient  bool // nobody demands signatures
	least    confine.Level
	wanted   []workload.Artifact
	asked    int
	groups   map[string]bool
	limits   map[string]map[string]string // constraints, by group and run
	updates  chan struct{}
	contain  Containers             // nil: none are made
	fetches  Resources              // nil: the world has them all but what is missing
	full     bool                   // the disk of the state file
	noGroup  bool                   // no control group can be made
	down     bool                   // the keeper is out of reach
	refuse   map[string]*wire.Error // what the keeper says to an operation
	hold     map[string]chan struct{}
	reports  []wire.Workloads
	events   []string

	point int // seams that were passed
	at    int // at which of them trouble comes; 0: at none
	die   bool
	where string
}

type (
	slotState = supervise.Durable
	place     = supervise.Place
)

type process struct {
	keep.Status
	run keep.Run
}

func newWorld(t testing.TB) *world {
	return &world{t: t, dir: tempDir(t), store: map[string][]byte{}, runs: map[string]*process{},
		changed: make(chan struct{}), ends: map[string]keep.Status{},
		output:  map[string]string{},
		missing: map[string]bool{}, forged: map[string]bool{}, spoiled: map[string]bool{},
		groups: map[string]bool{}, limits: map[string]map[string]string{},
		updates: make(chan struct{}, 1), refuse: map[string]*wire.Error{}, hold: map[string]chan struct{}{}}
}

// tempDir is a directory in memory where there is one: it is synced often.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "tandem-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// agent is one life of the agent on a world.
type agent struct {
	*world
	*Manager
	ctx  context.Context
	kill context.CancelFunc
	done chan error
	dead bool
}

func (w *world) agent() *agent {
	a := &agent{world: w, done: make(chan error, 1)}
	a.ctx, a.kill = context.WithCancel(context.Background())
	resources := Resources(w)
	if w.fetches != nil {
		resources = w.fetches
	}
	a.Manager = New(Config{Dir: w.dir, Rules: rules, LogBytes: 4096, LogFiles: 2, Keeper: a.keeper,
		Kept:       func() bool { return len(w.started) > 0 },
		Containers: w.contain, Confine: keep.Confine{Least: w.least},
		Resources: resources, Groups: a, Store: a, Signed: !w.lenient, Now: time.Now, Log: zap.NewNop(),
		Emit: func(kind string, _ *wire.Error, d supervise.Detail) {
			w.lock(func() { w.events = append(w.events, kind+" "+d.Slot+" "+d.ID) })
		},
		Report: func(r wire.Workloads) { w.lock(func() { w.reports = append(w.reports, r) }) }})
	go func() { a.done <- a.Manager.Run(a.ctx) }()
	return a
}

// end ends the agent as a shutdown does, and waits for it.
func (a *agent) end() {
	a.t.Helper()
	a.kill()
	if err := <-a.done; err != nil {
		a.t.Fatal(err)
	}
}

func (w *world) lock(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

var errTrouble = errors.New("trouble")

// seam is called before and after everything that leaves a mark. After the death of an agent it does nothing any more.
func (a *agent) seam(name string) error {
	if a.dead {
		return errTrouble
	}
	if a.point++; a.point != a.at {
		return nil
	}
	a.where = name
	if a.die {
		a.dead = true
		a.kill()
	}
	return errTrouble
}

// mark does something between two seams.
func (a *agent) mark(name string, f func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.seam("before " + name); err != nil {
		return err
	}
	f()
	return a.seam("after " + name)
}

func (a *agent) Workloads() (map[string]supervise.Durable, error) {
	all := map[string]supervise.Durable{}
	for service, data := range a.store {
		var d supervise.Durable
		if err := json.Unmarshal(data, &d); err != nil {
			return nil, err
		}
		all[service] = d
	}
	return all, nil
}

func (a *agent) SaveWorkloads(slots map[string]*supervise.Durable) error {
	full := false
	if a.lock(func() { full = a.full }); full {
		return errTrouble
	}
	return a.mark("save", func() {
		a.saves++
		for service, d := range slots {
			if d == nil {
				delete(a.store, service)
				continue
			}
			data, err := json.Marshal(d)
			if err != nil {
				a.t.Error(err)
			}
			a.store[service] = data
		}
	})
}

func (w *world) Want(all []workload.Artifact) {
	w.lock(func() { w.wanted, w.asked = all, w.asked+1 })
	w.update()
}

func (w *world) update() {
	select {
	case w.updates <- struct{}{}:
	default:
	}
}

func (w *world) Retry([]workload.Artifact) {}

func (w *world) Free(string) {}

func (w *world) Used(string, map[string]workload.Artifact) {}

func (w *world) Outdated(run string) (dir string) {
	w.lock(func() { dir = w.outdated[run] })
	return dir
}

func (w *world) Use(_ context.Context, _ string, all map[string]workload.Artifact) (map[string]string, error) {
	for name, a := range all {
		bad := false
		if w.lock(func() { bad = w.spoiled[a.UUID] }); bad {
			return nil, fmt.Errorf("the resource %q: %w", name, errTrouble)
		}
	}
	return pathsOf(w, all), nil
}

func (w *world) Updates() <-chan struct{} { return w.updates }

func (w *world) Look(a workload.Artifact) Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missing[a.UUID] || !slices.ContainsFunc(w.wanted, func(b workload.Artifact) bool { return b.UUID == a.UUID }) {
		return Resource{State: "fetching", Done: 1, Size: 2}
	}
	if w.forged[a.UUID] {
		err := wire.New(wire.CodeUnsigned, "", "it is not signed")
		return Resource{State: "failed", Err: err, Unsigned: err}
	}
	return Resource{Path: "/store/copies/" + a.UUID}
}

func (a *agent) Enter(group, run string, constraints map[string]string) (dirs []string, err error) {
	refused := false
	if a.lock(func() { refused = a.noGroup }); refused {
		return nil, errTrouble
	}
	err = a.mark("enter "+group, func() { a.groups[group], a.limits[group+"/"+run] = true, constraints })
	return []string{"/cg/" + group + "/" + run}, err
}

func (a *agent) Usage(group string, pid int) wire.WorkloadProcess {
	used := wire.WorkloadProcess{PID: pid}
	a.lock(func() {
		if a.groups[group] {
			used.Memory = 1 << 20
		}
	})
	return used
}

func (a *agent) Leave(group string) error {
	busy := false
	a.mu.Lock()
	held := a.hold["leave"]
	a.mu.Unlock()
	if held != nil {
		<-held
	}
	err := a.mark("leave "+group, func() {
		for _, p := range a.runs {
			busy = busy || p.State == keep.Running &&
				slices.ContainsFunc(p.run.Cgroups,
					func(d string) bool { return strings.HasPrefix(d, "/cg/"+group+"/") })
		}
		if !busy {
			delete(a.groups, group)
		}
	})
	if err == nil && busy {
		err = errors.New("the group has processes")
	}
	return err
}

// exit has the processes of a service end by themselves.
func (w *world) exit(service string, end keep.Status) {
	w.lock(func() {
		for id, p := range w.runs {
			if strings.HasPrefix(id, service+".") && p.State == keep.Running {
				w.finish(p, end)
			}
		}
		w.wake()
	})
}

func (w *world) setDown(down bool) { w.lock(func() { w.down = down; w.wake() }) }

// running are the configurationIds of what runs, by service.
func (w *world) running() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string][]string{}
	for _, p := range w.runs {
		if p.State == keep.Running {
			env := variables(p.run.Env)
			all[env["TANDEM_SERVICE"]] = append(all[env["TANDEM_SERVICE"]], env["TANDEM_CONFIGURATION_ID"])
		}
	}
	return all
}

func variables(env []string) map[string]string {
	all := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		all[name] = value
	}
	return all
}

// settled waits until nothing but beats happens any more.
func settled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// only demands that these configurations run, once each, and that nothing else is left of any.
func (w *world) only(want map[string]string) {
	w.t.Helper()
	got := w.running()
	w.mu.Lock()
	defer w.mu.Unlock()
	for service, id := range want {
		if ids := got[service]; len(ids) != 1 || ids[0] != id {
			w.t.Errorf("of %s runs %v, not %s", service, ids, id)
		}
	}
	if len(got) != len(want) || len(w.runs) != len(want) || len(w.store) != len(want) || len(w.groups) != len(want) {
		w.t.Errorf("%d slots, and there are %v runs, slots %v, groups %v", len(want), slices.Sorted(maps.Keys(w.runs)),
			slices.Sorted(maps.Keys(w.store)), slices.Sorted(maps.Keys(w.groups)))
	}
	for _, root := range []string{"slots", "logs"} {
		services, err := os.ReadDir(filepath.Join(w.dir, root))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Error(err)
		}
		for _, s := range services {
			dirs, err := os.ReadDir(filepath.Join(w.dir, root, s.Name()))
			if err != nil {
				w.t.Error(err)
			}
			if _, ok := want[s.Name()]; !ok || len(dirs) > 1 {
				w.t.Errorf("left: %s/%s with %v", root, s.Name(), dirs)
			}
		}
	}
}

// config is a configuration of a slot: id/dynamic part, with these hooks beside the first.
func config(service, id, dynamic string, hooks ...string) workload.Config {
	c := workload.Config{Class: workload.Instance, ConfigurationID: id + dynamic,
		Slot: workload.Slot{Service: service, Node: "n1"}, Properties: map[string]string{"version": id},
		Resources: map[string]workload.Artifact{"data": {Class: workload.DynamicResource,
			UUID: service + "-data" + dynamic, URLs: []string{"http://x/"}}}}
	for _, h := range append(hooks, workload.HookStart) {
		c.Resources[h] = workload.Artifact{Class: workload.Resource, UUID: fmt.Sprintf("%s-%s-%s", service, id, h),
			URLs: []string{"http://x/"}}
	}
	return c
}
