package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/cgroup/limits"
	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Directories of workloads in the state directory.
const (
	resourcesDir = "resources"
	keeperDir    = "keeper"
	workloadsDir = "workloads"
)

// duties are the workloads of the node, and what they are run with. Report belongs to Run's goroutine.
type duties struct {
	manager *workloads.Manager
	store   *fetch.Store // nil: a test has the resources in its hands
	report  *wire.Workloads
	news    chan struct{} // one slot: there is something in the two below

	mu     sync.Mutex
	newest *wire.Workloads
	events []news
}

// news is an event about a slot.
type news struct {
	kind   string
	err    *wire.Error
	detail supervise.Detail
}

// openWorkloads makes what runs workloads, and the applier of their documents.
func (a *Agent) openWorkloads(dir string, saved inbox.Durable) error {
	d := &a.duties
	d.news = make(chan struct{}, 1)
	watched := func(loop string, period time.Duration) (beat, end func()) { return a.care.watch.Loop(loop, period) } // which is made later
	resources := a.deps.Resources
	if resources == nil {
		var err error
		d.store, err = fetch.Open(fetch.Config{Dir: filepath.Join(dir, resourcesDir), Now: a.deps.Now, Log: a.log.Named("resources"), Rate: int64(a.cfg.FetchRate),
			Parallel: a.cfg.FetchParallel, Keep: int64(a.cfg.FetchKeep), Steps: a.deps.Steps,
			Watch: watched,
			Peers: fetch.Peers{Listen: a.cfg.PeerListen, Addresses: a.cfg.Peers, Allow: a.cfg.PeerAllow, Upload: int64(a.cfg.PeerRate)}})
		if err != nil {
			return err
		}
		resources = fetched{d.store}
	}
	groups := a.deps.Groups
	if groups == nil {
		_, service := a.deps.LookupEnv("INVOCATION_ID")
		groups = &controlGroups{cfg: cgroup.Config{Name: cgroup.NameOf(dir), Group: a.cfg.WorkloadGroup, Stays: service}}
	}
	keeper := a.deps.Keeper
	if keeper == nil {
		keeper = (&keeperOf{cfg: keep.Config{Dir: filepath.Join(dir, keeperDir), Env: []string{slot.EnvWorkloads + "=" + a.cfg.WorkloadGroup},
			Version: settings.Version, Log: a.log.Named("keeper")}}).get
	}
	d.manager = workloads.New(workloads.Config{
		Dir: filepath.Join(dir, workloadsDir), LogBytes: int64(a.cfg.WorkloadLogBytes), LogFiles: a.cfg.WorkloadLogFiles,
		Rules:  supervise.Rules{Window: a.cfg.WorkloadWindow, Grace: a.cfg.WorkloadGrace, Status: a.cfg.WorkloadStatus, Reopen: a.cfg.WorkloadReopen},
		Keeper: keeper, Resources: resources, Groups: groups, Store: a.store, Now: a.deps.Now, Log: a.log.Named("workloads"),
		Kept: func() bool {
			_, err := os.Stat(filepath.Join(dir, keeperDir))
			return !errors.Is(err, fs.ErrNotExist)
		},
		Emit:   func(kind string, err *wire.Error, detail supervise.Detail) { d.tell(nil, news{kind, err, detail}) },
		Report: func(w wire.Workloads) { d.tell(&w) },
		Watch:  watched,
	})
	a.add(wire.KindWorkloads, saved, workloadsApplier{on: a.cfg.Workloads, node: a.id.Node, groups: groups, manager: d.manager})
	return nil
}

// tell leaves news for Run's goroutine. It does not wait.
func (d *duties) tell(report *wire.Workloads, events ...news) {
	d.mu.Lock()
	if report != nil {
		d.newest = report
	}
	d.events = append(d.events, events...)
	d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// told takes the news of workloads.
func (a *Agent) told() {
	d := &a.duties
	d.mu.Lock()
	report, events := d.newest, d.events
	d.newest, d.events = nil, nil
	d.mu.Unlock()
	for _, ev := range events {
		a.emit(ev.kind, ev.err, ev.detail)
	}
	if report != nil && (len(report.Slots) > 0 || d.report != nil) {
		d.report = report
		k := a.kinds[wire.KindWorkloads]
		running, last := k.inbox.State.Report()
		a.sayKind(k, running, last)
	}
}

// runDuties runs workloads until ctx ends; their processes go on.
func (a *Agent) runDuties(ctx context.Context, all *sync.WaitGroup) {
	if s := a.duties.store; s != nil {
		all.Go(func() {
			if err := s.Run(ctx); err != nil {
				a.log.Error("resources are not kept any more", zap.Error(err))
			}
		})
	}
	all.Go(func() {
		if err := a.duties.manager.Run(ctx); err != nil {
			a.log.Error("workloads are not run", zap.Error(err))
		}
	})
}

// onDuty answers a request about a workload, beside the owner.
func (a *Agent) onDuty(r *wire.Request) {
	m := a.duties.manager
	switch r.Method {
	case wire.MethodRestart:
		p, err := wire.Decode[wire.RestartParams](r.Params)
		if err != nil {
			a.reply(r.ID, nil, within("/params", err))
			return
		}
		if err := a.obeys(r); err != nil {
			a.reply(r.ID, nil, err)
			return
		}
		a.aside(func() func() {
			err := m.Restart(p.Service)
			return func() { a.reply(r.ID, []byte("null"), err) }
		})
	case wire.MethodLogs:
		p, err := wire.Decode[wire.LogsParams](r.Params)
		if err != nil {
			a.reply(r.ID, nil, within("/params", err))
			return
		}
		a.aside(func() func() {
			result, err := m.Logs(p)
			return func() {
				if err != nil {
					a.reply(r.ID, nil, err)
					return
				}
				a.reply(r.ID, wire.Encode(result), nil)
			}
		})
	}
}

// workloadsApplier takes documents of kind workloads: they are taken when the manager has them.
type workloadsApplier struct {
	on      bool
	node    string
	groups  Groups
	manager *workloads.Manager
}

// Check says whether this node can run all of it.
func (w workloadsApplier) Check(doc inbox.Doc) []*wire.Error {
	configs, errs := workload.ParseDocument(doc.Body, w.node)
	if len(errs) > 0 {
		return errs
	}
	if !w.on && len(configs) > 0 {
		return []*wire.Error{wire.New(wire.CodeNotAllowed, "", "this node runs no workloads: its agent was started with --workloads=false")}
	}
	for i, c := range configs {
		var bad []*wire.Error
		at := fmt.Sprintf("/workloads/%d", i)
		if c.Container != nil && len(c.Container.Constraints) > 0 {
			bad = w.groups.Check(c.Container.Constraints, at+"/container/constraints")
		}
		for name, r := range c.Resources {
			if !fetch.BitTorrent && !hasHTTP(r) {
				bad = append(bad, wire.New(wire.CodeNotSupported, at+"/resources/"+name+"/urls", "this agent is built without BitTorrent: give an http or https address, too, or install the full agent"))
			}
		}
		for _, e := range bad { // whoever submitted the set has never seen this document
			errs = append(errs, wire.New(e.Code, e.Path, "slot "+c.Slot.String()+": "+e.Message))
		}
	}
	return errs
}

func hasHTTP(r workload.Artifact) bool {
	for _, u := range r.URLs {
		if scheme, _, _ := strings.Cut(u, ":"); scheme == workload.SchemeHTTP || scheme == workload.SchemeHTTPS {
			return true
		}
	}
	return false
}

func (w workloadsApplier) want(doc inbox.Doc) *wire.Error {
	var configs []workload.Config
	if doc.Exists() {
		var errs []*wire.Error
		if configs, errs = workload.ParseDocument(doc.Body, w.node); len(errs) > 0 { // checked before it was taken
			return errs[0]
		}
	}
	w.manager.Want(configs)
	return nil
}

// Apply has the manager go over to a document.
func (w workloadsApplier) Apply(_ context.Context, job inbox.Apply) inbox.Applied {
	return inbox.Applied{Stamp: job.Doc.Stamp, Err: w.want(job.Doc)}
}

// Restore has it go back.
func (w workloadsApplier) Restore(_ context.Context, job inbox.Restore) inbox.Restored {
	return inbox.Restored{Stamp: job.From.Stamp, Err: w.want(job.Good)}
}

// Verify tells it after a start what is wanted.
func (w workloadsApplier) Verify(_ context.Context, job inbox.Verify) inbox.Verified {
	return inbox.Verified{Err: w.want(job.Want)}
}

// fetched is a fetch.Store as workloads wants it.
type fetched struct{ *fetch.Store }

func (s fetched) Look(a workload.Artifact) workloads.Resource {
	st := s.Status(a)
	r := workloads.Resource{State: string(st.State), Path: st.Path, Done: st.Done, Size: st.Size, Err: st.Err}
	if st.State == fetch.Ready {
		r.State = ""
	}
	return r
}

// Groups has the control groups of workloads, and knows what they can do.
type Groups interface {
	workloads.Groups
	// Check says what is wrong with constraints here; at is their place in the document.
	Check(constraints map[string]string, at string) []*wire.Error
}

// controlGroups are the kernel's. They are looked for when they are first needed.
type controlGroups struct {
	cfg  cgroup.Config
	once sync.Once
	tree *cgroup.Tree
}

func (g *controlGroups) open() *cgroup.Tree {
	g.once.Do(func() { g.tree = cgroup.Open(g.cfg) })
	return g.tree
}

func (g *controlGroups) Check(constraints map[string]string, at string) []*wire.Error {
	return limits.Check(constraints, g.open().Capabilities(), at)
}

func (g *controlGroups) Enter(group, run string, constraints map[string]string) ([]string, error) {
	tree := g.open()
	set, errs := limits.Map(constraints, tree.Capabilities(), "")
	if len(errs) > 0 {
		return nil, errs[0]
	}
	enter := func() ([]string, error) {
		made, err := tree.Create(group, set)
		if err != nil {
			return nil, err
		}
		return made.Leaf(run)
	}
	dirs, err := enter()
	if errors.Is(err, fs.ErrNotExist) { // a keeper that ends has just taken all groups away
		return enter()
	}
	return dirs, err
}

func (g *controlGroups) Leave(group string) error {
	made, err := g.open().Group(group)
	if err != nil {
		return err
	}
	return made.Remove()
}

// keeperOf makes a client of the keeper when it is first needed.
type keeperOf struct {
	cfg keep.Config

	mu     sync.Mutex
	client *keep.Client
}

func (k *keeperOf) get(ctx context.Context) (workloads.Keeper, error) {
	k.mu.Lock()
	client := k.client
	k.mu.Unlock()
	if client != nil {
		return client, nil
	}
	client, err := keep.Ensure(ctx, k.cfg) // of several at a time one keeper comes out
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.client = client
	k.mu.Unlock()
	return client, nil
}
