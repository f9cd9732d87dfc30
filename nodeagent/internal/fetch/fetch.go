// Package fetch owns the resources of workloads on the node's disk (seed 004, resources): it fetches
// them, verifies them, keeps them, checks them again and removes them. shared/docs/resources.md
// has the rules, package plan decides, this package does.
//
// It guarantees: a Path that Status gives leads to a whole, verified, read-only file that came through
// a rename and survives a power cut; no two downloads write one file; names on the disk are hashes,
// so nothing that a configuration says leads out of the store; the file system keeps Config.Keep
// free; every attempt is bounded in time and in bytes; after a crash at any moment Open goes on
// from what is there. It must not know what runs a resource, or link one into an instance's directory.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/publisher"
	"tandem.internal/shared/pulse"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Config is what a Store needs. Only Dir must be set.
type Config struct {
	Dir    string           // made with mode 0700; nobody else writes in it
	Now    func() time.Time // nil: time.Now
	Chance func() float64   // in [0, 1), called by several goroutines; nil: math/rand/v2
	Log    *zap.Logger      // nil: none
	Client *http.Client     // nil: NewClient()
	// for the artefacts of the node's controller, see NewControllerClient; nil: the node has not joined
	Controller *http.Client
	Rate       int64                                     // bytes a second of all downloads together; 0: no limit
	Limit      *rate.Limiter                             // of Rate, that other stores share; nil: one of its own
	Parallel   int                                       // downloads at a time; 0: 2
	Keep       int64                                     // bytes to leave free on the file system
	Space      func(dir string) (free uint64, err error) // bytes that may still be written; nil: asks the file system
	Most       int64                                     // bytes of one resource whose size is not given; 0: 8 GiB
	Slow       int64                                     // bytes a second below which an address is given up; 0: 1024
	Patience   time.Duration                             // for which it may be as slow; 0: one minute
	// bytes a second for checks of what was verified before; 0: 8 MiB
	Recheck int64
	// of the publishers of whom each artifact has to be; none: nobody has to sign
	Publishers publisher.Keys
	Decrypt    Decrypt       // opens what is encrypted; nil: this node has no key
	Torrents   Torrents      // BitTorrent; nil: none
	Steps      durable.Steps // faults for tests; called by several goroutines; nil: none
	Watch      pulse.Watch   // is told that Run goes round; nil: nobody
}

// Status is how it is with an artifact.
type Status struct {
	State    plan.Phase
	Done     int64       // bytes that are there
	Size     int64       // bytes of the whole; 0: not known
	Path     string      // absolute, of a file of mode 0555 that must not be changed; only when Ready
	Err      *wire.Error // the newest; when Ready only that its uuid is wanted with two checksums
	Turn     bool        // Failed, but only since the controller sends to other nodes first
	Next     time.Time   // of the next attempt, when Failed or Waiting for room; zero: no time is set
	URL      string      // that it is being fetched from
	Unsigned *wire.Error // why it is not known to be what a publisher has signed; nil: it is, or nobody demands that
	Repaired int         // times since the start that the copy was damaged and fetched again
}

// The states of a Status.
const (
	Waiting   = plan.Waiting
	Fetching  = plan.Fetching
	Verifying = plan.Verifying
	Ready     = plan.Ready
	Failed    = plan.Failing
)

// Store is the resources of a node. Make it with Open; it works while Run does.
type Store struct {
	Config
	log     *zap.Logger
	disk    *disk
	ledger  *ledger
	swarm   Swarm         // nil: none
	poke    chan struct{} // one slot: there are effects to be run
	updates chan struct{} // one slot

	mu      sync.Mutex
	state   plan.State
	queue   []plan.Effect
	running map[plan.Key]*transfer    // downloads
	judged  map[judgement]*wire.Error // of contents that are or were there
}

// transfer is a download on its way.
type transfer struct {
	stop     context.CancelCauseFunc
	progress progress
}

// Open opens the store in c.Dir and makes it if it is not there. What a crash left unfinished and
// cannot be finished is removed. Nothing is fetched, checked or removed else before the first Want.
func Open(c Config) (*Store, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Chance == nil {
		c.Chance = rand.Float64
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Client == nil {
		c.Client = NewClient()
	}
	if c.Space == nil {
		c.Space = free
	}
	if c.Limit == nil {
		c.Limit = NewLimiter(c.Rate)
	}
	c.Parallel = or(c.Parallel, 2)
	c.Most = or(c.Most, 8<<30)
	c.Slow = or(c.Slow, 1024)
	c.Patience = or(c.Patience, time.Minute)
	c.Recheck = or(c.Recheck, 8<<20)
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the resources: %w", err)
	}
	c.Dir = dir
	d := &disk{dir: dir, steps: c.Steps, log: c.Log, digests: len(c.Publishers) > 0,
		modified: map[plan.Key]time.Time{}}
	there, err := d.scan()
	if err != nil {
		return nil, fmt.Errorf("open the resources in %s: %w", dir, err)
	}
	s := &Store{Config: c, log: c.Log, disk: d, poke: make(chan struct{}, 1),
		updates: make(chan struct{}, 1), running: map[plan.Key]*transfer{}, judged: map[judgement]*wire.Error{}}
	s.ledger = &ledger{keep: c.Keep, space: func() (uint64, error) { return c.Space(dir) }, left: map[plan.Key]int64{}}
	if c.Torrents != nil {
		s.swarm = c.Torrents.Join(&Host{&s.Config, s})
	}
	s.state = plan.New(c.Parallel, there.held, there.doubted, there.found, there.parts)
	return s, nil
}

func or[T int | int64 | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// burst is the most that is read at a time.
const burst = 64 << 10

// NewLimiter makes a limiter of so many bytes a second; 0: one that does not limit.
func NewLimiter(bytes int64) *rate.Limiter {
	if bytes <= 0 {
		return rate.NewLimiter(rate.Inf, burst)
	}
	return rate.NewLimiter(rate.Limit(bytes), burst)
}

// Want says which artifacts the node needs from now on: all of them, at every call. Copies that
// none of them stands for are removed, unless they are to be cached.
func (s *Store) Want(all []workload.Artifact) { s.WantKeeping(all, nil) }

// WantKeeping is Want, and keeps copies of others, which are served to other nodes, while there is room. What is not
// there is not fetched for that.
func (s *Store) WantKeeping(all, others []workload.Artifact) {
	if s.swarm == nil {
		all = withoutTorrents(all)
	}
	s.wantJudged(all)
	s.event(plan.Want{Specs: plan.Join(all), Keep: plan.Join(others)})
}

// withoutTorrents leaves out the addresses of BitTorrent of artifacts that have others.
func withoutTorrents(all []workload.Artifact) []workload.Artifact {
	all = slices.Clone(all)
	for i := range all {
		if all[i].HasHTTP() {
			all[i].URLs = slices.DeleteFunc(slices.Clone(all[i].URLs), workload.IsTorrent)
		}
	}
	return all
}

// Retry has those of these artifacts that failed fetched again at once.
func (s *Store) Retry(all []workload.Artifact) { s.event(plan.Retry{Artifacts: all}) }

// Updates tells that the Status of something may have changed since it was received from last.
func (s *Store) Updates() <-chan struct{} { return s.updates }

// Status says how it is with an artifact. One that is not among those of the last Want is Waiting.
func (s *Store) Status(a workload.Artifact) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.state.Look(a)
	st := Status{State: v.Phase, Done: v.Have, Size: v.Size, Err: v.Err, Turn: v.Turn, Next: v.Next, URL: v.URL,
		Repaired: v.Repaired, Unsigned: s.unsigned(a, v)}
	switch t := s.running[v.Key]; {
	case v.Phase == plan.Ready && st.Unsigned != nil:
		st.State, st.Err = Failed, st.Unsigned
	case v.Phase == plan.Ready:
		st.Path = s.disk.copyPath(v.Key)
	case v.Phase == plan.Fetching && t != nil:
		st.Done = t.progress.done.Load()
		if n := t.progress.total.Load(); n > 0 {
			st.Size = n
		}
		if t.progress.verifying.Load() {
			st.State = Verifying
		}
	}
	return st
}

// room is what plan.Now calls Room. If that cannot be known, there is none.
func (s *Store) room() int64 {
	n, err := s.ledger.room()
	if err != nil {
		s.log.Warn("it cannot be known how much room there is for resources", zap.Error(err))
		return 0
	}
	return n
}

// event lets the state take a step. What is to be done is queued for Run.
func (s *Store) event(ev plan.Event) {
	now := plan.Now{At: s.Now(), Chance: s.Chance(), Room: s.room()}
	s.mu.Lock()
	var effects []plan.Effect
	s.state, effects = s.state.Step(now, ev)
	s.queue = append(s.queue, effects...)
	s.mu.Unlock()
	notify(s.poke)
	notify(s.updates)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ErrStopped is why a download ends that is not wanted any more, or when Run ends.
var ErrStopped = errors.New("stopped")

// diskLimit is how long one turn of Run's may wait for the disk.
const diskLimit = time.Minute

// Run does what is to be done until ctx ends. It is called once. When it returns, everything that it
// started has ended.
func (s *Store) Run(ctx context.Context) error {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer s.Client.CloseIdleConnections()
	defer func() {
		all.Wait()
		if s.swarm != nil {
			s.swarm.Close()
		}
	}()
	defer cancel(ErrStopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	p := s.Watch.Start("resources", diskLimit)
	defer p.End()
	for ctx.Err() == nil {
		p.Beat()
		s.mu.Lock()
		queue := s.queue
		s.queue = nil
		at, due := s.state.NextDeadline()
		kept := s.state.Kept()
		s.mu.Unlock()
		for _, e := range queue {
			if ctx.Err() == nil {
				s.perform(ctx, &all, e)
			}
		}
		if len(queue) > 0 {
			continue
		}
		if s.swarm != nil {
			s.swarm.Offer(kept)
		}
		wait := time.Hour
		if due {
			wait = max(at.Sub(s.Now()), 0)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-s.poke:
		case <-p.C:
		case <-timer.C:
			s.event(plan.Tick{})
		}
	}
	return nil
}

// perform runs one effect. What takes long gets a goroutine of its own.
func (s *Store) perform(ctx context.Context, all *sync.WaitGroup, e plan.Effect) {
	switch e := e.(type) {
	case plan.Fetch:
		ctx, stop := context.WithCancelCause(ctx)
		t := &transfer{stop: stop}
		s.mu.Lock()
		s.running[e.Key] = t
		s.mu.Unlock()
		all.Go(func() {
			defer stop(ErrStopped)
			ev := s.fetch(ctx, e, &t.progress)
			s.mu.Lock()
			delete(s.running, e.Key)
			s.mu.Unlock()
			s.report(e, ev)
			s.event(ev)
		})
	case plan.Cancel:
		s.mu.Lock()
		t := s.running[e.Key]
		s.mu.Unlock()
		if t != nil {
			t.stop(ErrStopped)
		}
	case plan.Check:
		all.Go(func() {
			ev := s.check(ctx, e)
			if ev.Outcome != plan.Sound && ctx.Err() == nil {
				s.log.Warn("a resource did not pass its check", zap.String("resource", string(e.Copy.Key)),
					zap.String("outcome", string(ev.Outcome)), zap.Error(ev.Err))
			}
			s.event(ev)
		})
	case plan.Remove:
		err := s.disk.remove(e.Key.Name())
		if err != nil {
			s.log.Warn("a resource cannot be removed; it is tried again", zap.String("resource", string(e.Key)),
				zap.Error(err))
			s.event(plan.Removed{Key: e.Key, Err: wire.New(wire.CodeStorage, "", "the copy cannot be removed: "+
				err.Error())})
			return
		}
		s.log.Info("a resource was removed", zap.String("resource", string(e.Key)))
		s.event(plan.Removed{Key: e.Key})
	case plan.Discard:
		if err := s.disk.remove(e.Name); err != nil {
			s.log.Warn("a file that nothing is known about cannot be removed; it is tried again at the next start",
				zap.String("file", e.Name), zap.Error(err))
		}
	case plan.Save:
		if err := s.disk.save(e.Copy); err != nil {
			s.log.Warn("when a resource was used and checked cannot be written down",
				zap.String("resource", string(e.Copy.Key)), zap.Error(err))
		}
	}
}

// report logs how a download ended.
func (s *Store) report(e plan.Fetch, ev plan.Event) {
	at := []zap.Field{zap.String("resource", string(e.Key)), zap.String("url", shown(e.URL))}
	switch ev := ev.(type) {
	case plan.Fetched:
		s.log.Info("a resource was fetched and verified", append(at, zap.Int64("bytes", ev.Copy.Size))...)
	case plan.Failed:
		if ev.Kind != plan.Stopped {
			s.log.Warn("a resource was not fetched; it is tried again", append(at, zap.Int64("bytes", ev.Have),
				zap.Error(ev.Err))...)
		}
	}
}
