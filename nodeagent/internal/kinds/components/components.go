// Package components is the kind components: documents of this kind say which versions the node's components should
// have (seed 001), its report is how far they are. What decides is the pure package component; this package fetches the
// files, and has them staged and tried.
package components

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/component"
	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// filesDir is where the files are kept in the state directory, as long as one is needed.
const filesDir = "component-files"

// Store is a store of files; see fetch.Store.
type Store interface {
	Want(all []workload.Artifact)
	Status(a workload.Artifact) fetch.Status
	Updates() <-chan struct{}
	Run(ctx context.Context) error
}

// Config is what the kind goes by.
type Config struct {
	Dir string // the state directory, absolute
	Now func() clock.Now
	Log *zap.Logger
	// Open opens the store of files in a directory. It is called when one is to be fetched for the first time.
	Open func(dir string) (Store, error)
	// Stage stages the file at path for a component, and returns the number of the update. It may take minutes.
	Stage func(ctx context.Context, c wire.NodeComponent, path string) (number uint64, err *wire.Error)
	// Try orders the trial of what is staged. It is called on the owner's goroutine.
	Try func(c wire.NodeComponent) *wire.Error
}

// Components is the kind at work.
type Components struct {
	cfg   Config
	host  kind.Host
	state component.State // the owner's goroutine's
	news  chan struct{}   // one slot: something below is new

	mu       sync.Mutex
	wanted   []wire.NodeComponent // files that are to be fetched
	deadline time.Duration        // when the machine wants a Tick, on the monotonic clock; 0: never
	store    Store                // nil: it was not needed yet
}

// New makes the kind.
func New(cfg Config, host kind.Host) *Components {
	return &Components{cfg: cfg, host: host, news: make(chan struct{}, 1)}
}

// Kind returns the kind.
func (c *Components) Kind() kind.Kind {
	return kind.New(kind.Spec[*wire.Components]{
		Name: wire.KindComponents,
		Parse: func(doc inbox.Doc) (*wire.Components, []*wire.Error) {
			all, err := wire.Decode[wire.Components](doc.Body)
			if err != nil {
				return nil, []*wire.Error{wire.AsError(err)}
			}
			return all, nil
		},
		InForce: func(doc kind.Document[*wire.Components]) { c.step(component.Document{Components: doc.Content}) },
		Detail: func() []byte {
			all := c.state.Status()
			if len(all) == 0 {
				return nil
			}
			return wire.Encode(&wire.ComponentsReport{Components: all})
		},
		Troubles: c.troubles,
		Run:      c.run,
	})
}

// troubles names the components that have failed.
func (c *Components) troubles() (all []string) {
	for _, s := range c.state.Status() {
		if s.State == wire.ComponentFailed {
			all = append(all, "component:"+s.Name)
		}
	}
	return all
}

// Parts says how the components of the node stand. It is called on the owner's goroutine.
func (c *Components) Parts(all map[string]component.Part) { c.step(component.Parts{Parts: all}) }

// step takes the machine over one event, and acts, on the owner's goroutine.
func (c *Components) step(ev component.Event) {
	var effects []component.Effect
	c.state, effects = c.state.Step(c.cfg.Now(), ev)
	at, due := c.state.NextDeadline()
	c.mu.Lock()
	if c.deadline = 0; due {
		c.deadline = at
	}
	c.mu.Unlock()
	for _, e := range effects {
		c.do(e)
	}
	c.wake()
}

func (c *Components) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

func (c *Components) do(e component.Effect) {
	switch e := e.(type) {
	case component.Report:
		c.host.Report(wire.KindComponents)
	case component.Fetch:
		c.mu.Lock()
		c.wanted = e.Files
		c.mu.Unlock()
	case component.Stage:
		c.host.Later(func(ctx context.Context) func() {
			ev := component.Staged{Name: e.Component.Name, Hash: e.Component.Hash}
			if path := c.path(&e.Component); path == "" { // its copy was damaged meanwhile
				ev.Err = wire.New(wire.CodeWrongState, "", "the file is being fetched again")
			} else {
				ev.Number, ev.Err = c.cfg.Stage(ctx, e.Component, path)
			}
			return func() { c.step(ev) }
		})
	case component.Try:
		err := c.cfg.Try(e.Component)
		c.host.Do(func() { c.step(component.Tried{Name: e.Component.Name, Hash: e.Component.Hash, Err: err}) })
	}
}

// path is where the file of a component is; "": it is not there.
func (c *Components) path(of *wire.NodeComponent) string {
	c.mu.Lock()
	store := c.store
	c.mu.Unlock()
	if store == nil {
		return ""
	}
	return store.Status(artifact(of)).Path
}

const (
	idle      = time.Hour   // without anything to do
	openAgain = time.Minute // after the store could not be opened
)

// run fetches what is wanted, and tells the machine of that and of the time, until ctx ends.
func (c *Components) run(ctx context.Context) {
	var storeRun sync.WaitGroup
	defer storeRun.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(idle)
	defer timer.Stop()
	f := &fetching{Components: c, known: map[string]fetch.Status{}}
	for {
		c.mu.Lock()
		wanted, deadline := c.wanted, c.deadline
		c.mu.Unlock()
		wait := f.want(ctx, wanted, &storeRun)
		if now := c.cfg.Now(); deadline > 0 {
			wait = min(wait, max(0, deadline-now.Mono))
		}
		timer.Reset(wait)
		var updates <-chan struct{}
		if f.store != nil {
			updates = f.store.Updates()
		}
		select {
		case <-ctx.Done():
			return
		case <-c.news:
		case <-timer.C:
			c.host.Do(func() { c.step(component.Tick{}) })
		case <-updates:
		}
	}
}

// fetching is what run's goroutine knows.
type fetching struct {
	*Components
	store  Store
	wanted []wire.NodeComponent    // as the store knows it
	known  map[string]fetch.Status // as the machine knows it, by hash
	again  time.Duration           // the store is not opened before, on the monotonic clock
}

// want has these files fetched, forgets others, and tells the machine how that stands. It returns after which time it
// wants to be called again at the latest.
func (f *fetching) want(ctx context.Context, all []wire.NodeComponent, running *sync.WaitGroup) time.Duration {
	if f.store == nil && len(all) == 0 {
		return idle
	}
	if f.store == nil {
		if left := f.again - f.cfg.Now().Mono; left > 0 {
			return left
		}
		store, err := f.cfg.Open(filepath.Join(f.cfg.Dir, filesDir))
		if err != nil {
			f.cfg.Log.Error("files of components cannot be fetched; it is tried again", zap.Error(err))
			e := wire.New(wire.CodeStorage, "", err.Error())
			for _, c := range all {
				f.tell(c.Hash, fetch.Status{State: fetch.Failed, Err: e})
			}
			f.again = f.cfg.Now().Mono + openAgain
			return openAgain
		}
		f.store = store
		f.mu.Lock()
		f.Components.store = store
		f.mu.Unlock()
		running.Go(func() {
			if err := store.Run(ctx); err != nil && ctx.Err() == nil {
				f.cfg.Log.Error("the store of files of components has ended", zap.Error(err))
			}
		})
	}
	if !slices.EqualFunc(f.wanted, all, component.SameFile) {
		f.wanted = all
		list := make([]workload.Artifact, 0, len(all))
		still := map[string]fetch.Status{}
		for i := range all {
			list = append(list, artifact(&all[i]))
			if st, ok := f.known[all[i].Hash]; ok {
				still[all[i].Hash] = st
			}
		}
		f.known = still
		f.store.Want(list)
	}
	for i := range all {
		f.tell(all[i].Hash, f.store.Status(artifact(&all[i])))
	}
	return idle
}

// tell tells the machine how a download stands, if that is new.
func (f *fetching) tell(hash string, st fetch.Status) {
	if was, ok := f.known[hash]; ok && was.State == st.State && was.Err == st.Err {
		return
	}
	f.known[hash] = st
	ev := component.Fetched{Hash: hash, Done: st.State == fetch.Ready}
	if !ev.Done {
		ev.Err = st.Err
	}
	f.host.Do(func() { f.step(ev) })
}

// artifact is a file as the store knows it.
func artifact(c *wire.NodeComponent) workload.Artifact {
	a := workload.File(c.Hash, c.Size, c.URLs, c.Minisign)
	a.Encrypted = c.Encrypted
	return a
}
