// Package store owns the controller's artefacts on the disk: files by the SHA-256 of their content, that operators
// upload and nodes fetch.
//
//	parts/HEX              an upload that has not ended
//	sha256/HE/HEX          an artefact
//	sha256/HE/HEX.chunks   the SHA-256 of each MiB of it, 32 bytes each
//	quarantine/HEX         what is left of an artefact whose content is not what it was
//
// It guarantees that
//   - an artefact is visible only by a journal record, which is written when the file is verified, flushed and in
//     place; a file that neither an artefact nor a lease of package artefact names is removed, at the start at the
//     latest;
//   - an offset that was answered survives a power cut;
//   - a reader gets bytes only after the chunk with them was found to be what was uploaded; damage is told, and never
//     sent;
//   - what is promised to uploads and in use never exceeds the quota, and an upload ends before the disk has less left
//     than is to be kept free.
//
// One writer at a time has a digest; a newer one takes over. What is decided is in package artefact.
package store

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

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Ledger makes decisions durable. Many goroutines call it.
type Ledger interface {
	// DecideArtefact returns when what package artefact decides on an event is durable: nil, or why it is refused.
	DecideArtefact(ctx context.Context, who string, ev artefact.Event) error
	// SeeArtefacts calls fn with what is durable. fn must neither keep nor change it.
	SeeArtefacts(ctx context.Context, fn func(*artefact.State)) error
	// ArtefactsUsed says who refers to artefacts, in words, by digest.
	ArtefactsUsed(ctx context.Context) (map[string][]string, error)
	// ArtefactDamaged writes down that an artefact is damaged.
	ArtefactDamaged(err *wire.Error)
}

// Config is what a Store needs. Zero durations and sizes mean their default.
type Config struct {
	Dir      string // its directory above exists
	Ledger   Ledger
	Now      func() time.Time
	Log      *zap.Logger
	Quota    int64                           // bytes of all artefacts and uploads
	KeepFree int64                           // bytes that the disk has left at least
	Free     func(dir string) (int64, error) // what the disk has left for us; nil: asks the file system
	Keep     time.Duration                   // an artefact that nothing referred to for so long goes; 0: never
	Around   durable.Around                  // fault seam
	URL      func() string                   // where nodes fetch, without the digest; "" or nil: nowhere

	Flush     int64         // bytes of an upload that a crash may lose; 8 MiB
	Scrub     time.Duration // how often each artefact is read again; 7 days
	ScrubRate float64       // bytes a second of that; 16 MiB
}

// Store is the artefacts of one controller.
type Store struct {
	cfg Config
	log *zap.Logger

	beginning chan struct{} // semaphore of size 1: what the disk has left is for one upload at a time

	mu       sync.Mutex
	holds    map[string]*hold
	damaged  map[string]*wire.Error // artefacts that are not served, by digest
	outcomes map[string]error       // why verifications failed, until somebody asks
	needed   map[string]time.Time   // when an artefact was last referred to
	read     map[string]time.Time   // when an artefact was last read whole
	opened   time.Time
	tidied   time.Time // when hourly work was last done

	work    sync.WaitGroup
	life    context.Context
	endLife context.CancelFunc
}

// hold is the right to change the files of one digest.
type hold struct {
	stop   context.CancelCauseFunc
	done   chan struct{}
	verify *verification // nil: it is something else
}

const (
	partsDir      = "parts"
	blobsDir      = "sha256"
	quarantineDir = "quarantine"
	chunksSuffix  = ".chunks"
)

// New opens the store, and removes what neither an artefact nor a lease in state names. The Ledger is not asked before
// Run.
func New(cfg Config, state *artefact.State) (*Store, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Free == nil {
		cfg.Free = Free
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	setDefault(&cfg.Flush, 8<<20)
	setDefault(&cfg.Scrub, 7*24*time.Hour)
	setDefault(&cfg.ScrubRate, 16<<20)
	s := &Store{
		cfg: cfg, log: cfg.Log, beginning: make(chan struct{}, 1), holds: map[string]*hold{},
		damaged: map[string]*wire.Error{}, outcomes: map[string]error{}, needed: map[string]time.Time{},
		read: map[string]time.Time{}, opened: cfg.Now(),
	}
	s.tidied = s.opened
	s.life, s.endLife = context.WithCancel(context.Background())
	for _, dir := range []string{"", partsDir, blobsDir, quarantineDir} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("store of artefacts: %w", err)
		}
	}
	if err := errors.Join(durable.SettleDir(filepath.Dir(cfg.Dir)), durable.SettleDir(cfg.Dir)); err != nil {
		return nil, fmt.Errorf("store of artefacts: %w", err)
	}
	if err := s.recover(state); err != nil {
		return nil, fmt.Errorf("store of artefacts: %w", err)
	}
	return s, nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// name is the name of the files of a digest.
func name(digest string) string { return strings.TrimPrefix(digest, wire.HashPrefix) }

func (s *Store) partPath(digest string) string {
	return filepath.Join(s.cfg.Dir, partsDir, name(digest))
}

func (s *Store) blobPath(digest string) string {
	n := name(digest)
	return filepath.Join(s.cfg.Dir, blobsDir, n[:2], n)
}

func (s *Store) quarantinePath(digest string) string {
	return filepath.Join(s.cfg.Dir, quarantineDir, name(digest))
}

// digestOf returns the digest that a file in one of the directories is named after.
func digestOf(file string) (string, bool) {
	digest := wire.HashPrefix + file
	return digest, wire.ValidHash(digest)
}

// onDisk calls each for every file of the store, with the digest that it is named after; "": with none.
func (s *Store) onDisk(each func(dir, digest, path string) error) error {
	for _, dir := range []string{partsDir, blobsDir, quarantineDir} {
		err := filepath.WalkDir(filepath.Join(s.cfg.Dir, dir), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			if err != nil || d.IsDir() {
				return err
			}
			digest, ok := digestOf(strings.TrimSuffix(d.Name(), chunksSuffix))
			if !ok {
				digest = ""
			}
			return each(dir, digest, path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// orphan reports whether neither an artefact nor a lease names a file in a directory.
func orphan(state *artefact.State, dir, digest string) bool {
	_, open := state.Leases[digest]
	_, there := state.Artefacts[digest]
	switch dir {
	case partsDir:
		return !open
	case quarantineDir:
		return !there
	}
	return !open && !there
}

// recover removes orphans, and finds artefacts whose files are gone.
func (s *Store) recover(state *artefact.State) error {
	whole := map[string]bool{}
	err := s.onDisk(func(dir, digest, path string) error {
		if orphan(state, dir, digest) {
			s.log.Info("removing what belongs to no artefact", zap.String("file", path))
			return durable.Unlink(path, s.cfg.Around)
		}
		whole[digest] = whole[digest] || path == s.blobPath(digest)
		return nil
	})
	if err != nil {
		return err
	}
	for digest, a := range state.Artefacts {
		if !whole[digest] {
			s.damaged[digest] = damage(&a, errGone.Error())
		}
	}
	return nil
}

var errGone = errors.New("its file is gone")

// damage says what is wrong with an artefact, and what to do.
func damage(a *artefact.Artefact, why string) *wire.Error {
	return wire.New(wire.CodeStorage, "", fmt.Sprintf("the artefact %s%s is damaged, and not sent to anybody: %s; "+
		"tandem artefact add the same file again", a.Digest, bracketed(a.Name), why))
}

func bracketed(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// enter waits for the right to change the files of a digest. Whoever has it is stopped. The context ends when somebody
// else wants it.
func (s *Store) enter(ctx context.Context, digest string) (context.Context, func(), error) {
	for {
		s.mu.Lock()
		before := s.holds[digest]
		if before == nil {
			ctx, leave := s.take(ctx, digest, nil)
			s.mu.Unlock()
			return ctx, leave, nil
		}
		s.mu.Unlock()
		before.stop(errTaken)
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-s.life.Done():
			return nil, nil, errStopping
		}
	}
}

// take makes the hold of a digest that has none. The caller has the lock.
func (s *Store) take(ctx context.Context, digest string, v *verification) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	h := &hold{stop: stop, done: make(chan struct{}), verify: v}
	s.holds[digest] = h
	return ctx, func() {
		stop(nil)
		s.mu.Lock()
		delete(s.holds, digest)
		s.mu.Unlock()
		close(h.done)
	}
}

var (
	errTaken    = wire.New(wire.CodeInterrupted, "", "somebody else goes on with this artefact")
	errStopping = wire.New(wire.CodeUnavailable, "", "the controller is stopping")
	errNone     = wire.New(wire.CodeNotSupported, "", "this controller has no store of artefacts")
)

// entry is what is known of a digest.
type entry struct {
	lease    artefact.Lease
	artefact artefact.Artefact
	open     bool // there is a lease
	there    bool // there is an artefact
	damaged  *wire.Error
}

// look returns what is known of a digest.
func (s *Store) look(ctx context.Context, digest string) (e entry, err error) {
	if s == nil {
		return e, errNone
	}
	if err := s.cfg.Ledger.SeeArtefacts(ctx, func(state *artefact.State) {
		e.lease, e.open = state.Leases[digest]
		e.artefact, e.there = state.Artefacts[digest]
	}); err != nil {
		return e, err
	}
	s.mu.Lock()
	e.damaged = s.damaged[digest]
	s.mu.Unlock()
	return e, nil
}

// Trouble is what operators should look at, in words.
func (s *Store) Trouble() (all []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.damaged {
		all = append(all, err.Message)
	}
	return all
}
