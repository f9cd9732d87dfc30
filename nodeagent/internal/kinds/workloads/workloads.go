// Package workloads is the kind workloads: documents of this kind are the instances that the node is to run (seed 004),
// its report is how they are, and its requests are about one of them. It makes what runs them: the manager, the store
// of their resources, their control groups, and the client of the keeper of their processes.
package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/layers"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/pulse"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Directories in the state directory.
const (
	resourcesDir = "resources"
	keeperDir    = "keeper"
	slotsDir     = "workloads"
	layersDir    = "layers"
)

// Config is what the kind goes by.
type Config struct {
	Dir      string // the state directory, absolute
	Node     string // its ID
	On       bool   // false: a set that is not empty is refused
	Rules    supervise.Rules
	LogBytes int64         // of one file of the output of an instance
	LogFiles int           // that are kept
	Group    string        // control group in which workloads get theirs; "": the agent's own
	Service  bool          // the agent is a service of systemd
	Confine  keep.Confine  // of all workloads: at least; files beside the system's and their own
	Users    keep.Users    // that slots have; none: they have the agent's
	Loopback keep.Loopback // with Users, if this process starts the keeper
	Unproved bool          // resources that are workload.Artifact.Unproved are taken
	Containers
	Fetch fetch.Config    // of the store of resources, but for Dir, Now, Log, Steps and Watch
	Store workloads.Store // of the states of the instances

	Now   func() time.Time
	Log   *zap.Logger
	Steps durable.Steps
	Watch pulse.Watch // is told of the loops

	// What tests replace; nil: the keeper's process, the store of resources, the kernel's control groups, and what the
	// kernel can confine.
	Keeper    func(context.Context) (workloads.Keeper, error)
	Resources workloads.Resources
	Groups    Groups
	Possible  func() (confine.Level, error)
}

// runner runs the workloads of the node. report belongs to the owner's goroutine.
type runner struct {
	cfg     Config
	host    kind.Host
	manager *workloads.Manager
	store   *fetch.Store // nil: a test has replaced the resources
	layers  *layers.Store
	home    home // of containers
	report  *wire.Workloads
}

// New makes the kind.
func New(cfg Config, host kind.Host) (kind.Kind, error) {
	r := &runner{cfg: cfg, host: host}
	if cfg.Resources == nil {
		f := cfg.Fetch
		f.Dir, f.Now, f.Log = filepath.Join(cfg.Dir, resourcesDir), cfg.Now, cfg.Log.Named("resources")
		f.Steps, f.Watch = cfg.Steps, cfg.Watch
		store, err := fetch.Open(f)
		if err != nil {
			return kind.Kind{}, err
		}
		r.layers, err = layers.Open(layers.Config{Dir: filepath.Join(cfg.Dir, layersDir), Blobs: fetched{store},
			Now: cfg.Now, Log: cfg.Log.Named("layers")})
		if err != nil {
			return kind.Kind{}, err
		}
		r.store, r.cfg.Resources = store, r.layers
	}
	if err := r.home.set(&cfg.Containers); err != nil {
		return kind.Kind{}, err
	}
	if cfg.Groups == nil {
		r.cfg.Groups = newControlGroups(cfg)
	}
	if cfg.Keeper == nil {
		r.cfg.Keeper = newKeeper(cfg).get
	}
	r.manager = r.newManager()
	return kind.New(kind.Spec[[]workload.Config]{
		Name: wire.KindWorkloads,
		Parse: func(doc inbox.Doc) ([]workload.Config, []*wire.Error) {
			return workload.ParseDocument(doc.Body, cfg.Node)
		},
		Check: func(doc kind.Document[[]workload.Config]) []*wire.Error { return r.cfg.check(doc.Content) },
		Put: func(_ context.Context, doc kind.Document[[]workload.Config]) *wire.Error {
			r.manager.Want(doc.Content)
			return nil
		},
		Detail: func() []byte {
			if r.report == nil {
				return nil
			}
			return wire.Encode(r.report)
		},
		Troubles: r.troubles,
		Methods: map[wire.Method]kind.Method{
			wire.MethodRestart: {Order: true, Read: kind.Params(r.restart)},
			wire.MethodLogs:    {Read: kind.Params(r.logs)},
		},
		Run:        r.run,
		Attributes: func() map[string]string { return r.cfg.attributes() },
	}), nil
}

func (r *runner) newManager() *workloads.Manager {
	c := workloads.Config{
		Dir: filepath.Join(r.cfg.Dir, slotsDir), LogBytes: r.cfg.LogBytes, LogFiles: r.cfg.LogFiles, Rules: r.cfg.Rules,
		Confine: keep.Confine{Least: r.cfg.Confine.Least, Room: confine.System().With(r.cfg.Confine.Room)},
		Keeper:  r.cfg.Keeper, Resources: r.cfg.Resources, Groups: r.cfg.Groups, Store: r.cfg.Store,
		Now: r.cfg.Now, Log: r.cfg.Log.Named("workloads"), Signed: len(r.cfg.Fetch.Publishers) > 0,
		Kept: func() bool {
			_, err := os.Stat(filepath.Join(r.cfg.Dir, keeperDir))
			return !errors.Is(err, fs.ErrNotExist)
		},
		Emit: func(event string, err *wire.Error, detail supervise.Detail) {
			r.host.Do(func() { r.host.Emit(event, err, detail) })
		},
		Report:     func(w wire.Workloads) { r.host.Do(func() { r.reported(&w) }) },
		Containers: &r.home,
		Watch:      r.cfg.Watch,
	}
	return workloads.New(c)
}

// reported takes over a report of the manager. A node that never had workloads says nothing of them.
func (r *runner) reported(w *wire.Workloads) {
	if len(w.Slots) == 0 && r.report == nil {
		return
	}
	r.report = w
	r.host.Report(wire.KindWorkloads)
}

// troubles are the slots that do not stay up.
func (r *runner) troubles() (slots []string) {
	if r.report != nil {
		for i := range r.report.Slots {
			if s := &r.report.Slots[i]; s.State == wire.WorkloadFailed || s.State == wire.WorkloadRestarting {
				slots = append(slots, s.Slot)
			}
		}
	}
	return slots
}

// run runs the workloads until ctx ends; their processes go on.
func (r *runner) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	if r.store != nil {
		all.Go(func() {
			if err := r.store.Run(ctx); err != nil {
				r.cfg.Log.Error("resources are not kept any more", zap.Error(err))
			}
		})
		all.Go(func() { r.layers.Run(ctx) })
	}
	all.Go(func() { r.seek(ctx) })
	if err := r.manager.Run(ctx); err != nil {
		r.cfg.Log.Error("workloads are not run", zap.Error(err))
	}
}

func (r *runner) restart(p *wire.RestartParams, _ string, answer kind.Answer) {
	r.host.Later(func(context.Context) func() {
		err := r.manager.Restart(p.Service)
		return func() { answer([]byte("null"), err) }
	})
}

func (r *runner) logs(p *wire.LogsParams, _ string, answer kind.Answer) {
	r.host.Later(func(ctx context.Context) func() {
		result, err := r.manager.Logs(p)
		if err == nil && p.Cursor == "" { // else the output is followed
			result.Process = r.manager.Process(ctx, p.Service)
		}
		return func() {
			if err != nil {
				answer(nil, err)
				return
			}
			answer(wire.Encode(result), nil)
		}
	})
}

// check says what of a set this node cannot run. Whoever submitted the set has never seen this document, so an error
// names the slot and what is wrong in it, with the JSON pointer into its configuration.
func (c Config) check(configs []workload.Config) (errs []*wire.Error) {
	if !c.On && len(configs) > 0 {
		return []*wire.Error{workload.NoWorkloads()}
	}
	if err := c.confines(); err != nil && len(configs) > 0 {
		return []*wire.Error{err}
	}
	for _, w := range configs {
		if err := c.contains(&w); err != nil {
			errs = append(errs, wire.New(err.Code, err.Path, workload.About(w.Slot, err.Message)))
		}
		if w.Container != nil && len(w.Container.Constraints) > 0 {
			for _, e := range c.Groups.Check(w.Container.Constraints, "/container/constraints") {
				errs = append(errs, wire.New(e.Code, e.Path, workload.About(w.Slot, e.Message)))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(w.Resources)) {
			if c.Fetch.Torrents == nil && !w.Resources[name].HasHTTP() {
				errs = append(errs, workload.NoBitTorrent(w.Slot, name))
			}
			if !c.Unproved && w.Resources[name].Unproved() {
				errs = append(errs, workload.NoProof(w.Slot, name))
			}
			if keys := c.Fetch.Publishers; len(keys) > 0 {
				err := w.Resources[name].Published(keys, nil)
				if err = cmp.Or(err, w.Misplaced(w.Resources[name])); err != nil {
					errs = append(errs, workload.Unpublished(w.Slot, name, err))
				}
			}
		}
	}
	return errs
}

// confines says why workloads cannot be confined as far as they have to be here.
func (c Config) confines() *wire.Error {
	if !c.Confine.Least.Demands() {
		return nil
	}
	possible := c.Possible
	if possible == nil {
		possible = confine.Possible
	}
	level, why := possible()
	if !c.Users.None() {
		if level = level.With(confine.User); c.Loopback != keep.AllPorts {
			level = level.With(confine.Net) // or the keeper refuses
		}
	}
	if level.AtLeast(c.Confine.Least) {
		return nil
	}
	return wire.New(wire.CodeNotSupported, "", fmt.Sprintf("this node confines what it runs at least to %q "+
		"(--confine), and can do %q: %v", c.Confine.Least, level, why))
}

// attributes tell the controller what the node cannot do, for when it is offline and not asked.
func (c Config) attributes() map[string]string {
	all := map[string]string{}
	if !c.On {
		all[wire.AttributeWorkloads] = wire.AttributeNone
	} else if text := c.Groups.Limits(); text != "" {
		all[wire.AttributeLimits] = text
	}
	if text := c.Containers.attribute(); text != "" {
		all[wire.AttributeContainers] = text
	}
	if c.Fetch.Torrents == nil {
		all[wire.AttributeBitTorrent] = wire.AttributeNone
	}
	if !c.Unproved {
		all[wire.AttributeUnproved] = wire.AttributeNone
	}
	if keys := c.Fetch.Publishers; len(keys) > 0 {
		all[wire.AttributePublishers] = publisher.JoinIDs(keys.IDs(), " ")
	}
	return all
}

// fetched is a fetch.Store as layers and the manager want it.
type fetched struct{ *fetch.Store }

func (s fetched) Look(a workload.Artifact) workloads.Resource {
	st := s.Status(a)
	r := workloads.Resource{State: string(st.State), Path: st.Path, Done: st.Done, Size: st.Size, Err: st.Err,
		Next: st.Next, Unsigned: st.Unsigned}
	if st.State == fetch.Ready {
		r.State = ""
	}
	return r
}
