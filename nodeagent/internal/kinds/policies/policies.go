// Package policies is the kind policies: documents of this kind are the management policies that match the node (seed
// 003), its report is what became of them. What decides is the pure package policy; this package keeps its state in a
// file of its own, fetches releases of the agent, and has them staged and tried.
package policies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/inbox"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/policy"
	"tandem.internal/shared/clock"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/event"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// What the kind keeps in the state directory.
const (
	file        = "policy.json" // the plan
	releasesDir = "releases"    // of the agent, as long as one is needed
	maxFile     = 64 << 10
)

// Store is a store of releases; see fetch.Store.
type Store interface {
	WantKeeping(all, others []workload.Artifact)
	Status(a workload.Artifact) fetch.Status
	Updates() <-chan struct{}
	Run(ctx context.Context) error
}

// Config is what the kind goes by.
type Config struct {
	Dir    string // the state directory, absolute
	Now    func() clock.Now
	Chance func() float64 // at least 0 and less than 1; one call at a time
	Log    *zap.Logger
	Steps  durable.Steps
	// Open opens the store of releases in a directory. It is called when one is to be fetched for the first time; with
	// Serves at the start, if there is anything.
	Open func(dir string) (Store, error)
	// Serves: other nodes fetch releases from this one by BitTorrent. So those that were fetched and are had that way
	// stay while they are on offer to this node, if there is room.
	Serves bool
	// Stage stages the program of a release at path and has it tried by order of somebody. It may take minutes, and
	// returns the number of the update; final: it would end so again.
	Stage func(ctx context.Context, r wire.AgentRelease, path, by string) (number uint64, err *wire.Error, final bool)
}

// Policies is the kind at work.
type Policies struct {
	cfg  Config
	host kind.Host
	news chan struct{} // one slot: there is something in the mailbox

	mu     sync.Mutex
	mail   []policy.Event
	status []wire.PolicyStatus // as of the newest step

	// The rest is Run's goroutine's.
	state    policy.State
	unsaved  bool // the newest plan is not known to be on the disk
	store    Store
	storeRun sync.WaitGroup
	work     sync.WaitGroup
	wanted   *wire.AgentRelease // that is being fetched
	known    fetch.Status       // of it, as the machine knows it
	started  bool               // how the agent's update stands is known
	kept     []workload.Artifact
	stale    bool // the store is to be told of kept
}

// New makes the kind from what is on the disk.
func New(cfg Config, host kind.Host) (*Policies, error) {
	p := &Policies{cfg: cfg, host: host, news: make(chan struct{}, 1)}
	path := filepath.Join(cfg.Dir, file)
	if err := durable.Clean(path); err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	var saved policy.Durable
	switch data, err := durable.ReadFile(path, maxFile); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("policies: %w", err)
	default:
		if err := json.Unmarshal(data, &saved); err != nil { // the policies are planned anew
			cfg.Log.Warn("what became of the policies is not known any more", zap.String("file", path), zap.Error(err))
			saved = policy.Durable{}
		}
	}
	p.state = policy.New(saved)
	return p, nil
}

// Kind returns the kind.
func (p *Policies) Kind() kind.Kind {
	return kind.New(kind.Spec[*wire.Policies]{
		Name: wire.KindPolicies,
		Parse: func(doc inbox.Doc) (*wire.Policies, []*wire.Error) {
			all, err := wire.Decode[wire.Policies](doc.Body)
			if err != nil {
				return nil, []*wire.Error{wire.AsError(err)}
			}
			return all, nil
		},
		InForce: func(doc kind.Document[*wire.Policies]) { p.post(policy.Document{Policies: doc.Content}) },
		Detail: func() []byte {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.status == nil {
				return nil
			}
			return wire.Encode(&wire.PoliciesReport{Policies: p.status})
		},
		Run: p.run,
	})
}

// Updated says how the agent's own update stands. It returns at once.
func (p *Policies) Updated(u policy.Update) { p.post(policy.Updated{Update: u}) }

// post puts an event into the mailbox.
func (p *Policies) post(ev policy.Event) {
	p.mu.Lock()
	p.mail = append(p.mail, ev)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// take returns the first event of the mailbox; false: there is none.
func (p *Policies) take() (policy.Event, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mail) == 0 {
		p.mail = nil
		return nil, false
	}
	ev := p.mail[0]
	p.mail = p.mail[1:]
	return ev, true
}

const (
	idle      = time.Hour        // without anything to do
	saveAgain = 10 * time.Second // after a save that failed
)

// run works until ctx ends.
func (p *Policies) run(ctx context.Context) {
	defer p.work.Wait()
	defer p.storeRun.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for ev, ok := p.take(); ok; ev, ok = p.take() {
			p.step(ctx, ev)
		}
		now := p.cfg.Now()
		next, due := p.state.NextDeadline(now)
		if due && next <= now.Mono {
			p.step(ctx, policy.Tick{})
			continue
		}
		wait := idle // the clock may be set in between
		if due {
			wait = min(wait, next-now.Mono)
		}
		if p.unsaved {
			wait = min(wait, saveAgain)
		}
		timer.Reset(wait)
		var updates <-chan struct{}
		if p.store != nil {
			updates = p.store.Updates()
		}
		select {
		case <-ctx.Done():
			return
		case <-p.news:
		case <-timer.C:
			p.step(ctx, policy.Tick{})
		case <-updates:
			p.fetched()
		}
	}
}

// step takes the machine over one event: step, save, act.
func (p *Policies) step(ctx context.Context, ev policy.Event) {
	switch ev := ev.(type) {
	case policy.Document:
		p.offered(ev.Policies)
	case policy.Updated:
		p.started = true
	}
	now := policy.Now{Now: p.cfg.Now(), Chance: p.cfg.Chance()}
	next, effects := p.state.Step(now, ev)
	if p.unsaved || !next.Durable.Equal(p.state.Durable) {
		if err := p.save(next.Durable); err != nil {
			p.cfg.Log.Error("what becomes of the policies cannot be saved; it is tried again", zap.Error(err))
			p.state, _ = next.Step(now, policy.Dropped{})
			p.unsaved = true
			return
		}
	}
	p.state, p.unsaved = next, false
	p.mu.Lock()
	p.status = next.Status()
	p.mu.Unlock()
	for _, e := range effects {
		p.do(ctx, e)
	}
	if p.stale && p.started { // else what is half there would be given up
		p.stale = false
		p.serve(ctx)
	}
}

func (p *Policies) save(d policy.Durable) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	return durable.WriteFile(filepath.Join(p.cfg.Dir, file), data, 0o600, p.cfg.Steps)
}

func (p *Policies) do(ctx context.Context, e policy.Effect) {
	switch e := e.(type) {
	case policy.Report:
		p.host.Report(wire.KindPolicies)
	case policy.Log:
		p.host.Emit(event.Policy, e.Detail.Error, e.Detail)
	case policy.Fetch:
		p.fetch(ctx, e.Release)
	case policy.Stage:
		path, by := p.store.Status(artifact(&e.Release)).Path, "policy "+p.state.Plan.Policy
		p.work.Go(func() {
			number, err, final := p.cfg.Stage(ctx, e.Release, path, by)
			p.post(policy.Staged{Hash: e.Release.Hash, Number: number, Err: err, Final: final})
		})
	}
}

// offered notes which releases stay for other nodes.
func (p *Policies) offered(doc *wire.Policies) {
	if !p.cfg.Serves {
		return
	}
	p.kept, p.stale = nil, true
	if doc == nil {
		return
	}
	for i := range doc.Agents {
		if slices.ContainsFunc(doc.Agents[i].URLs, workload.IsTorrent) {
			p.kept = append(p.kept, artifact(&doc.Agents[i]))
		}
	}
}

// serve lets the store keep what other nodes may fetch, and nothing else.
func (p *Policies) serve(ctx context.Context) {
	dir := filepath.Join(p.cfg.Dir, releasesDir)
	if _, err := os.Stat(dir); p.store == nil && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := p.open(ctx); err != nil {
		p.cfg.Log.Warn("releases of the agent are not served to other nodes", zap.Error(err))
		return
	}
	p.want()
}

// open opens the store, if it is not open.
func (p *Policies) open(ctx context.Context) error {
	if p.store != nil {
		return nil
	}
	store, err := p.cfg.Open(filepath.Join(p.cfg.Dir, releasesDir))
	if err != nil {
		return err
	}
	p.store = store
	p.storeRun.Go(func() {
		if err := store.Run(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.Error("the store of releases has ended", zap.Error(err))
		}
	})
	return nil
}

// want tells the store what is to be fetched, and what stays.
func (p *Policies) want() {
	var all []workload.Artifact
	if p.wanted != nil {
		all = append(all, artifact(p.wanted))
	}
	p.store.WantKeeping(all, p.kept)
}

// fetch has a release fetched, and forgets what was before.
func (p *Policies) fetch(ctx context.Context, r *wire.AgentRelease) {
	p.wanted, p.known = r, fetch.Status{}
	if r == nil {
		if p.store != nil {
			p.want()
		}
		return
	}
	if err := p.open(ctx); err != nil {
		p.post(policy.Fetched{Hash: r.Hash, Err: wire.New(wire.CodeStorage, "", err.Error())})
		return
	}
	p.want()
	p.fetched()
}

// fetched tells the machine how the download stands, if that is new.
func (p *Policies) fetched() {
	if p.wanted == nil {
		return
	}
	st := p.store.Status(artifact(p.wanted))
	if st.State == p.known.State && st.Err == p.known.Err {
		return
	}
	p.known = st
	ev := policy.Fetched{Hash: p.wanted.Hash, Done: st.State == fetch.Ready}
	switch {
	case st.State == fetch.Waiting, st.Turn: // for room, or for the controller, which sends to other nodes first
		ev.Waits = st.Err
	case st.State == fetch.Failed:
		ev.Err = st.Err
	}
	p.post(ev)
}

// artifact is a release as the store knows it.
func artifact(r *wire.AgentRelease) workload.Artifact {
	return workload.File(r.Hash, r.Size, r.URLs, r.Minisign)
}
