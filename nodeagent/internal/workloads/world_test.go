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

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rules = supervise.Rules{Window: 10 * time.Second, Grace: 5 * time.Second, Status: 30 * time.Second, Reopen: time.Hour}

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
	ends    map[string]keep.Status // how a hook ends, by its name or configurationId/name; "" and missing: with 0, at once
	missing map[string]bool        // uuids of resources that are not on the node
	wanted  []workload.Artifact
	asked   int
	groups  map[string]bool
	updates chan struct{}
	down    bool                   // the keeper is out of reach
	refuse  map[string]*wire.Error // what the keeper says to an operation
	hold    map[string]chan struct{}
	reports []wire.Workloads
	events  []string

	point int // seams that were passed
	at    int // at which of them trouble comes; 0: at none
	die   bool
	where string
}

type process struct {
	keep.Status
	run keep.Run
}

func newWorld(t testing.TB) *world {
	return &world{t: t, dir: t.TempDir(), store: map[string][]byte{}, runs: map[string]*process{}, changed: make(chan struct{}), ends: map[string]keep.Status{},
		missing: map[string]bool{}, groups: map[string]bool{}, updates: make(chan struct{}, 1), refuse: map[string]*wire.Error{}, hold: map[string]chan struct{}{}}
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
	a.Manager = New(Config{Node: "n1", Dir: w.dir, Rules: rules, LogBytes: 4096, LogFiles: 2, Keeper: a.keeper, Kept: func() bool { return len(w.started) > 0 },
		Resources: w, Groups: a, Store: a, Now: time.Now, Log: zap.NewNop(), Beat: func() {}, BeatEvery: 10 * time.Second,
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

func (w *world) Updates() <-chan struct{} { return w.updates }

func (w *world) Look(a workload.Artifact) Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missing[a.UUID] || !slices.ContainsFunc(w.wanted, func(b workload.Artifact) bool { return b.UUID == a.UUID }) {
		return Resource{State: "fetching", Done: 1, Size: 2}
	}
	return Resource{Path: "/store/copies/" + a.UUID}
}

func (a *agent) Enter(group, run string, constraints map[string]string) (dirs []string, err error) {
	err = a.mark("enter "+group, func() { a.groups[group] = true })
	return []string{"/cg/" + group + "/" + run}, err
}

func (a *agent) Leave(group string) error {
	busy := false
	err := a.mark("leave "+group, func() {
		for _, p := range a.runs {
			busy = busy || p.State == keep.Running && slices.ContainsFunc(p.run.Cgroups, func(d string) bool { return strings.HasPrefix(d, "/cg/"+group+"/") })
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

func (a *agent) keeper(context.Context) (Keeper, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return nil, keep.ErrAbsent
	}
	return client{a}, nil
}

// client is an agent's way to the keeper.
type client struct{ *agent }

var errUnknown = wire.New(wire.CodeNotFound, "/id", "no such run")

// ask does one operation of the keeper.
func (c client) ask(op, id string, f func() (keep.Status, *wire.Error)) (st keep.Status, err error) {
	c.mu.Lock()
	held := c.hold[op]
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-c.ctx.Done():
			return st, c.ctx.Err()
		}
	}
	var answer *wire.Error
	err = c.mark(op+" "+id, func() {
		if answer = c.refuse[op]; answer == nil && !c.down {
			st, answer = f()
		}
	})
	switch {
	case err == nil && c.down:
		err = keep.ErrAbsent
	case err == nil && answer != nil:
		err = answer
	}
	return st, err
}

func (c client) Get(_ context.Context, id string) (keep.Status, error) {
	return c.ask("get", id, func() (keep.Status, *wire.Error) {
		if p := c.runs[id]; p != nil {
			return p.Status, nil
		}
		return keep.Status{}, errUnknown
	})
}

func (c client) Start(_ context.Context, run keep.Run) (keep.Status, error) {
	if err := run.Check(); err != nil {
		c.t.Error(err)
	}
	return c.ask("start", run.ID, func() (keep.Status, *wire.Error) {
		if p := c.runs[run.ID]; p != nil {
			return p.Status, nil
		}
		if slices.Contains(c.started, run.ID) {
			c.t.Errorf("%s is started twice", run.ID)
		}
		hook := filepath.Base(run.Argv[0])
		for _, p := range c.runs {
			if hook == workload.HookStart && p.State == keep.Running && p.run.Log.Path == run.Log.Path {
				c.t.Errorf("%s is started while %s runs", run.ID, p.ID)
			}
		}
		if _, err := os.Readlink(run.Argv[0]); err != nil {
			c.t.Errorf("%s is started, and is not there: %v", run.ID, err)
		}
		c.started = append(c.started, run.ID)
		p := &process{run: run, Status: keep.Status{ID: run.ID, State: keep.Running, PID: 100 + len(c.started), Started: time.Now()}}
		c.runs[run.ID] = p
		env := variables(run.Env)
		if about := hook == workload.HookStop || hook == workload.HookNotify || hook == workload.HookStatus; about == (env["TANDEM_PID"] == "") && !slices.ContainsFunc(slices.Collect(maps.Values(c.runs)), func(p *process) bool {
			return filepath.Base(p.run.Argv[0]) == workload.HookStart && p.State != keep.Running
		}) {
			c.t.Errorf("%s has PID %q", run.ID, env["TANDEM_PID"])
		}
		end, ok := c.ends[env["TANDEM_CONFIGURATION_ID"]+"/"+hook]
		if !ok {
			end, ok = c.ends[hook]
		}
		if hook != workload.HookStart || ok {
			c.finish(p, end)
		}
		c.wake()
		return p.Status, nil
	})
}

func (c client) Stop(_ context.Context, id string, _ time.Duration) (keep.Status, error) {
	return c.ask("stop", id, func() (keep.Status, *wire.Error) {
		p := c.runs[id]
		if p == nil {
			return keep.Status{}, errUnknown
		}
		if p.State == keep.Running {
			c.finish(p, keep.Status{Signal: 15, Cause: keep.CauseStop})
			c.wake()
			st := p.Status
			st.State = keep.Running // as the real one, it does not wait
			return st, nil
		}
		return p.Status, nil
	})
}

func (c client) Forget(_ context.Context, id string) error {
	_, err := c.ask("forget", id, func() (keep.Status, *wire.Error) {
		if p := c.runs[id]; p != nil && p.State == keep.Running {
			return keep.Status{}, wire.New(wire.CodeWrongState, "", "it runs")
		}
		delete(c.runs, id)
		return keep.Status{}, nil
	})
	return err
}

func (c client) Follow(ctx context.Context, each func(keep.Status)) error {
	told := map[string]keep.State{}
	for {
		c.mu.Lock()
		var news []keep.Status
		for _, id := range slices.Sorted(maps.Keys(c.runs)) {
			if p := c.runs[id]; told[id] != p.State {
				told[id] = p.State
				news = append(news, p.Status)
			}
		}
		down, changed := c.down, c.world.changed
		c.mu.Unlock()
		if down {
			return keep.ErrAbsent
		}
		for _, st := range news {
			each(st)
		}
		if len(news) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake wakes the followers. The lock is held.
func (w *world) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) finish(p *process, end keep.Status) {
	end.ID, end.State, end.PID, end.Started, end.Ended = p.ID, keep.Exited, p.PID, p.Started, time.Now()
	p.Status = end
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
		w.t.Errorf("%d slots, and there are %v runs, slots %v, groups %v", len(want), slices.Sorted(maps.Keys(w.runs)), slices.Sorted(maps.Keys(w.store)), slices.Sorted(maps.Keys(w.groups)))
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
	c := workload.Config{Class: workload.Instance, ConfigurationID: id + dynamic, Slot: workload.Slot{Service: service, Node: "n1"}, Properties: map[string]string{"version": id},
		Resources: map[string]workload.Artifact{"data": {Class: workload.DynamicResource, UUID: service + "-data" + dynamic}}}
	for _, h := range append(hooks, workload.HookStart) {
		c.Resources[h] = workload.Artifact{Class: workload.Resource, UUID: fmt.Sprintf("%s-%s-%s", service, id, h)}
	}
	return c
}
