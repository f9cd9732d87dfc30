// Package layers owns the trees of those resources of workloads that are unpacked: layers, which services share. A tree
// is made of an archive that the store of resources has fetched and verified, once for its diff ID, and is found in
// every slot that has the resource.
//
// It guarantees: a tree that Look shows is whole, and nobody but the agent can write it; it is shown for an artifact
// only whose archive has proved to have it in it; room for what an archive takes is reserved before that is fetched; a
// tree goes when no configuration on the node has it any more, and not before it is known what is wanted; one that is
// not as it was made is noticed before a hook starts, and made anew, beside the one that runs of before have: that
// stays for them. It must not know how archives come.
package layers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/tree"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Blobs are the resources as they are fetched; see fetch.Store. All but Want are for any goroutine.
type Blobs interface {
	Want(all []workload.Artifact)
	Retry(all []workload.Artifact)
	Look(a workload.Artifact) workloads.Resource
	Updates() <-chan struct{}
	// Reserve reserves room for bytes of what it takes unpacked, in place of what was reserved for that.
	Reserve(a workload.Artifact, bytes int64) *wire.Error
	Release(a workload.Artifact)
	Doubt(a workload.Artifact) // has the file verified before it is used again
}

// Config is what a Store needs.
type Config struct {
	Dir    string // absolute; made if it is missing
	Blobs  Blobs
	Now    func() time.Time
	Log    *zap.Logger
	Around durable.Around // a seam for tests; nil: none
}

// What failed is tried again after a pause, which doubles until one time works, or something else is wanted.
const (
	again    = 10 * time.Second // the first pause
	longest  = 10 * time.Minute
	doublets = 6 // after which it is longest
)

// Store is the resources of a node, unpacked where that is wanted. Make it with Open; it unpacks while Run does.
type Store struct {
	cfg     Config
	trees   *tree.Store
	poke    chan struct{} // one slot: there may be something to be unpacked
	updates chan struct{} // one slot
	turn    chan struct{} // one slot: whoever has put a value into it makes or removes trees

	mu     sync.Mutex
	layers map[string]*layer // that are wanted, by diff ID
	order  []string          // of them: as they are wanted; nil: nobody has said yet
	sweep  bool              // there may be trees that are not wanted
	busy   string            // diff ID of the tree that is being made or read; "": none
	needs  map[string]int64  // bytes that archives take at least, by checksum: so many was not enough; 0: not known
}

// layer is a tree that is wanted.
type layer struct {
	from    []workload.Artifact    // of which it can be made: archives that should have the same in them
	sound   bool                   // it is there, as it was made
	looked  bool                   // whether it is was found out
	proved  []string               // checksums of archives that have it in them, while it is sound
	refused map[string]*wire.Error // by claim: why it cannot be made of that
	err     *wire.Error            // of the newest attempt, unless it was refused
	failed  int                    // attempts in a row
	next    time.Time              // the next attempt; zero: as soon as can be
}

// claim is what an artifact says of the archive that it is made of, for one tree.
func claim(a workload.Artifact) string {
	return a.Verification.Checksum + " " + strconv.FormatInt(a.Unpack.Size, 10)
}

// has reports whether the tree is there, and is in the archive of an artifact.
func (l *layer) has(a workload.Artifact) bool {
	return l.sound && slices.Contains(l.proved, a.Verification.Checksum)
}

// Open opens the directory of trees.
func Open(cfg Config) (*Store, error) {
	trees, err := tree.Open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	trees.Around = cfg.Around
	return &Store{cfg: cfg, trees: trees, poke: make(chan struct{}, 1), updates: make(chan struct{}, 1),
		turn: make(chan struct{}, 1), layers: map[string]*layer{}, needs: map[string]int64{}}, nil
}

// Want says which artifacts the node needs from now on: all of them, at every call.
func (s *Store) Want(all []workload.Artifact) {
	s.cfg.Blobs.Want(all)
	s.mu.Lock()
	before := s.layers
	needs := s.needs
	s.layers, s.order, s.sweep, s.needs = map[string]*layer{}, []string{}, true, map[string]int64{}
	for _, a := range all {
		if a.Unpack == nil {
			continue
		}
		s.needs[a.Verification.Checksum] = needs[a.Verification.Checksum]
		id := a.Unpack.DiffID
		l := s.layers[id]
		if l == nil {
			l = &layer{}
			if old := before[id]; old != nil {
				l.sound, l.looked = old.sound, old.looked
			}
			s.layers[id] = l
			s.order = append(s.order, id)
		}
		if !slices.ContainsFunc(l.from, func(o workload.Artifact) bool { return same(o, a) }) {
			l.from = append(l.from, a)
			if old := before[id]; old != nil && slices.Contains(old.proved, a.Verification.Checksum) {
				l.proved = append(l.proved, a.Verification.Checksum)
			}
		}
	}
	var gone []workload.Artifact
	for id, old := range before {
		l := s.layers[id]
		if l != nil && slices.EqualFunc(l.from, old.from, same) { // nothing that failed is another by now
			l.refused, l.err = old.refused, old.err
		}
		if l == nil && id != s.busy { // that keeps its room until it is done
			gone = append(gone, old.from...)
		}
	}
	s.mu.Unlock()
	for _, a := range gone {
		s.cfg.Blobs.Release(a)
	}
	notify(s.poke)
}

// same reports whether two artifacts make the same tree of the same archive.
func same(a, b workload.Artifact) bool {
	return a.Verification.Checksum == b.Verification.Checksum && a.Unpack.DiffID == b.Unpack.DiffID &&
		a.Unpack.Size == b.Unpack.Size && a.Encrypted.Equal(b.Encrypted)
}

// Retry has those of these artifacts that failed fetched and unpacked again at once.
func (s *Store) Retry(all []workload.Artifact) {
	s.cfg.Blobs.Retry(all)
	s.mu.Lock()
	for _, a := range all {
		if a.Unpack != nil && s.layers[a.Unpack.DiffID] != nil {
			l := s.layers[a.Unpack.DiffID]
			l.refused, l.err, l.failed, l.next = nil, nil, 0, time.Time{}
		}
	}
	s.mu.Unlock()
	notify(s.poke)
}

// Updates tells that something may look otherwise since it was received from last.
func (s *Store) Updates() <-chan struct{} { return s.updates }

// Look says how it is with an artifact. One that is unpacked is there when its tree is, and known to be in its archive.
func (s *Store) Look(a workload.Artifact) workloads.Resource {
	r := s.cfg.Blobs.Look(a)
	if a.Unpack == nil || r.Unsigned != nil {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layers[a.Unpack.DiffID]
	switch {
	case l != nil && l.has(a):
		if path, ok := s.trees.Path(a.Unpack.DiffID); ok {
			return meant(path, a.Unpack.Path)
		}
	case r.State != "":
		return r
	}
	r = workloads.Resource{State: "unpacking"}
	if l == nil {
		return r
	}
	if err := l.refused[claim(a)]; err != nil {
		r.State, r.Err = "failed", err
	} else if l.err != nil {
		r.State, r.Err, r.Next = "failed", l.err, l.next
		if l.err.Code == wire.CodeStorage {
			r.State = "waiting"
		}
	}
	return r
}

// meant is what is meant of a tree: all of it, or a file at its top. What leads elsewhere is no file of it.
func meant(tree, name string) workloads.Resource {
	if name == "" {
		return workloads.Resource{Path: tree}
	}
	path := filepath.Join(tree, name)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return workloads.Resource{State: "failed", Err: wire.New(wire.CodeNotFound, "/unpack/path",
			fmt.Sprintf("the archive has no file %.64q at its top", name))}
	}
	return workloads.Resource{Path: path}
}

// Run unpacks what is to be until ctx ends. It is called once. When it returns, everything that it started has ended.
func (s *Store) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { s.work(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.cfg.Blobs.Updates():
			notify(s.poke)
			notify(s.updates)
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// work unpacks one layer after the other.
func (s *Store) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.poke:
		case <-timer.C:
		}
		if !s.take(ctx) {
			return
		}
		s.clear()
		s.mu.Lock()
		order := slices.Clone(s.order)
		s.mu.Unlock()
		for _, id := range order {
			if ctx.Err() == nil {
				s.advance(ctx, "", id)
			}
		}
		<-s.turn
		if s.waits() {
			timer.Reset(again)
		}
	}
}

// waits reports whether something is to be tried again.
func (s *Store) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.layers {
		if !l.next.IsZero() {
			return true
		}
	}
	return s.sweep
}

// take waits for the turn; false: everything ends.
func (s *Store) take(ctx context.Context) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// clear removes trees that are not wanted. The caller has the turn, as of all below.
func (s *Store) clear() {
	s.mu.Lock()
	keep, sweep := slices.Clone(s.order), s.sweep
	s.sweep = false
	s.mu.Unlock()
	if !sweep {
		return
	}
	if err := s.trees.Keep(keep); err != nil {
		s.cfg.Log.Warn("trees that nothing needs any more cannot be removed; it is tried again", zap.Error(err))
		s.mu.Lock()
		s.sweep = true
		s.mu.Unlock()
	}
}
