package store

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/shared/flow"
)

const (
	lookEvery = time.Minute // for uploads that were idle for too long
	tidyEvery = time.Hour   // files that belong to nothing, and artefacts that nothing refers to
	firstRead = time.Hour   // after the start artefacts are read again
)

// Run cares for the store until ctx ends, and then ends what is under way. It is called once.
func (s *Store) Run(ctx context.Context) {
	if s == nil {
		return
	}
	s.resume(ctx)
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			s.endLife()
			s.mu.Lock() // nothing begins any more
			s.mu.Unlock()
			s.work.Wait()
			return
		case <-t.C:
			if err := s.Care(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("caring for the store of artefacts", zap.Error(err))
			}
		}
	}
}

// resume ends uploads that a crash has stopped between their place and their record.
func (s *Store) resume(ctx context.Context) {
	var moved []string
	err := s.onDisk(func(dir, digest, path string) error {
		if dir == blobsDir && digest != "" && path == s.blobPath(digest) {
			moved = append(moved, digest)
		}
		return nil
	})
	for _, digest := range moved {
		e, lerr := s.look(ctx, digest)
		if err = errors.Join(err, lerr); lerr == nil && e.open && !e.there {
			_, verr := s.verifying(ctx, digest)
			err = errors.Join(err, verr)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("ending the uploads that a crash has stopped", zap.Error(err))
	}
}

// Care does what is due: it ends uploads that were idle for too long, removes what nothing refers to, and reads what
// was not read for long.
func (s *Store) Care(ctx context.Context) error {
	now := s.cfg.Now()
	var late []string
	if err := s.cfg.Ledger.SeeArtefacts(ctx, func(state *artefact.State) {
		for digest, l := range state.Leases {
			if !now.Before(l.Expires) {
				late = append(late, digest)
			}
		}
	}); err != nil {
		return err
	}
	var err error
	for _, digest := range late {
		err = errors.Join(err, s.end(ctx, "", digest, artefact.Expire{Digest: digest}))
	}
	if now.Sub(s.tidied) >= tidyEvery || now.Before(s.tidied) {
		s.tidied = now
		err = errors.Join(err, s.tidy(ctx), s.collect(ctx, now))
	}
	return errors.Join(err, s.scrub(ctx, now))
}

// tidy removes files that neither an artefact nor a lease names. What is on the disk is listed before the state is
// looked at, since a lease is older than its files.
func (s *Store) tidy(ctx context.Context) error {
	found := map[string]string{}
	if err := s.onDisk(func(dir, digest, path string) error {
		if digest != "" { // else it may be a temporary file of somebody who is at work; a start removes those
			found[path] = digest
		}
		return nil
	}); err != nil {
		return err
	}
	suspect := map[string]bool{}
	if err := s.cfg.Ledger.SeeArtefacts(ctx, func(state *artefact.State) {
		for path, digest := range found {
			dir := partsDir
			switch path {
			case s.partPath(digest):
			case s.quarantinePath(digest):
				dir = quarantineDir
			default:
				dir = blobsDir
			}
			if orphan(state, dir, digest) {
				suspect[digest] = true
			}
		}
	}); err != nil {
		return err
	}
	var err error
	for digest := range suspect {
		err = errors.Join(err, s.sweep(ctx, digest))
	}
	return err
}

func (s *Store) sweep(ctx context.Context, digest string) error {
	ctx, leave, err := s.enter(ctx, digest)
	if err != nil {
		return err
	}
	defer leave()
	return s.clear(ctx, digest)
}

// collect removes artefacts that nothing referred to for as long as is set. What was referred to before the start of
// the controller is not known, so the time begins with it.
func (s *Store) collect(ctx context.Context, now time.Time) error {
	if s.cfg.Keep == 0 {
		return nil
	}
	used, err := s.cfg.Ledger.ArtefactsUsed(ctx)
	if err != nil {
		return err
	}
	var idle []string
	err = s.cfg.Ledger.SeeArtefacts(ctx, func(state *artefact.State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for digest, a := range state.Artefacts {
			since, known := s.needed[digest]
			switch {
			case len(used[digest]) > 0:
				s.needed[digest] = now
				continue
			case !known:
				since = s.opened
			}
			if since = later(since, a.Added); now.Sub(since) >= s.cfg.Keep {
				idle = append(idle, digest)
			}
		}
	})
	for _, digest := range idle {
		err = errors.Join(err, s.end(ctx, "", digest, artefact.Remove{Digest: digest,
			Reason: "nothing referred to it for " + s.cfg.Keep.String()}))
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// scrub reads the artefact that was not read for longest, if that is long enough ago.
func (s *Store) scrub(ctx context.Context, now time.Time) error {
	oldest, at := "", now.Add(-s.cfg.Scrub)
	if err := s.cfg.Ledger.SeeArtefacts(ctx, func(state *artefact.State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for digest, a := range state.Artefacts {
			read, known := s.read[digest]
			if !known {
				read = later(s.opened.Add(firstRead-s.cfg.Scrub), a.Added)
			}
			if s.damaged[digest] == nil && !read.After(at) {
				oldest, at = digest, read
			}
		}
	}); err != nil || oldest == "" {
		return err
	}
	s.mu.Lock()
	s.read[oldest] = now
	s.mu.Unlock()
	return s.Scrub(ctx, oldest)
}

// Scrub reads an artefact from the disk at the set rate. What is damaged is found out, and not served any more.
func (s *Store) Scrub(ctx context.Context, digest string) error {
	err := s.readWhole(ctx, digest, s.cfg.ScrubRate)
	if errors.Is(err, ErrDamaged) {
		return nil // that is written down
	}
	return err
}

// readWhole reads an artefact from the disk at a rate in bytes a second. The errors are those of Open and Chunk.
func (s *Store) readWhole(ctx context.Context, digest string, perSecond float64) error {
	f, err := s.Open(ctx, digest)
	if err != nil {
		return err
	}
	err = forgetPages(f.file)
	rate, buf := flow.PerSecond(perSecond, Chunk), make([]byte, Chunk)
	var bucket flow.Bucket
	for n := int64(0); err == nil && n*Chunk < f.Size; n++ {
		if _, err = f.Chunk(ctx, n, buf); err != nil {
			break
		}
		bucket.Charge(time.Now(), rate, Chunk)
		err = Pause(ctx, time.Until(bucket.Next(rate, 0)))
	}
	return errors.Join(err, f.Close())
}

// Pause waits, unless ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
