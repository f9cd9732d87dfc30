package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Chunk is the size of what is verified before it is sent, in bytes.
const Chunk = 1 << 20

// verification is the end of an upload: it is read, verified, put in place and made visible.
type verification struct {
	read atomic.Int64 // bytes
	done chan struct{}
	err  error // once done
}

// patience is how long Complete waits for the end of a verification before it tells how far that is.
const patience = time.Second

// Complete ends an upload. While that takes, the answer says how far it is, and whoever asks again gets the end.
func (s *Store) Complete(ctx context.Context, digest string) (view.Upload, error) {
	e, err := s.look(ctx, digest)
	if err != nil {
		return view.Upload{}, err
	}
	s.mu.Lock()
	outcome, ended := s.outcomes[digest]
	delete(s.outcomes, digest)
	s.mu.Unlock()
	switch {
	case ended:
		return view.Upload{}, outcome
	case !e.open:
		return s.Upload(ctx, digest)
	}
	v, err := s.verifying(ctx, digest)
	if err != nil {
		return view.Upload{}, err
	}
	soon := time.NewTimer(patience)
	defer soon.Stop()
	select {
	case <-v.done:
		s.mu.Lock()
		delete(s.outcomes, digest)
		s.mu.Unlock()
		if v.err != nil {
			return view.Upload{}, v.err
		}
	case <-soon.C:
	case <-ctx.Done():
		return view.Upload{}, context.Cause(ctx)
	}
	return s.Upload(ctx, digest)
}

// verifying returns the verification of a digest that is under way, or begins one when its writer has ended.
func (s *Store) verifying(ctx context.Context, digest string) (*verification, error) {
	for {
		s.mu.Lock()
		h := s.holds[digest]
		switch {
		case s.life.Err() != nil:
			s.mu.Unlock()
			return nil, errStopping
		case h == nil:
			v := &verification{done: make(chan struct{})}
			ctx, leave := s.take(s.life, digest, v)
			s.work.Add(1)
			s.mu.Unlock()
			go func() {
				defer s.work.Done()
				v.err = s.finish(ctx, digest, v)
				s.mu.Lock()
				if v.err != nil && !errors.Is(v.err, errTaken) {
					s.outcomes[digest] = v.err
				}
				s.mu.Unlock()
				leave()
				close(v.done)
			}()
			return v, nil
		case h.verify != nil:
			s.mu.Unlock()
			return h.verify, nil
		}
		s.mu.Unlock()
		select {
		case <-h.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// finish verifies an upload, puts it in place and has it made visible. What is not what it was to be is removed.
func (s *Store) finish(ctx context.Context, digest string, v *verification) error {
	e, err := s.look(ctx, digest)
	if err != nil || !e.open {
		return err
	}
	path := s.partPath(digest)
	if _, err := os.Stat(path); err != nil {
		path = s.blobPath(digest) // a crash came between the rename and the record
	}
	have, err := s.written(digest)
	if err == nil && have == 0 && e.lease.Size == 0 {
		path = s.partPath(digest)
		err = s.empty(path)
	}
	switch {
	case err != nil:
		return s.diskError(err)
	case have < e.lease.Size:
		return wire.New(wire.CodeWrongState, "", fmt.Sprintf("%d of %d bytes have come", have, e.lease.Size))
	}
	sum, chunks, err := hashed(ctx, path, &v.read)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return s.diskError(err)
	case sum != digest:
		why := fmt.Sprintf("what was sent has the digest %s, not %s: it is not that file, or was changed on the way; "+
			"it was thrown away", sum, digest)
		s.discard(ctx, digest, path, why)
		return wire.New(wire.CodeBadValue, "", why)
	}
	if err := s.place(digest, path, chunks); err != nil {
		return s.diskError(err)
	}
	ev := artefact.Complete{Digest: digest, Chunks: wire.Hash(chunks)}
	if err := s.cfg.Ledger.DecideArtefact(context.WithoutCancel(ctx), "", ev); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.damaged, digest)
	s.read[digest], s.needed[digest] = s.cfg.Now(), s.cfg.Now()
	return nil
}

// empty makes the part of an upload of nothing.
func (s *Store) empty(path string) error {
	p, err := durable.OpenPart(path, s.cfg.Around)
	if err != nil {
		return err
	}
	return p.Close()
}

// place puts a verified file where artefacts are, with the list of its chunks.
func (s *Store) place(digest, path string, chunks []byte) error {
	to := s.blobPath(digest)
	if path != to {
		if err := durable.Move(path, to, s.cfg.Around); err != nil {
			return err
		}
	}
	return durable.WriteFile(to+chunksSuffix, chunks, 0o600, s.steps)
}

// steps has the fault seam see the steps of the small file beside an artefact.
func (s *Store) steps(step durable.Step) error {
	return s.cfg.Around.Do("chunks "+step, func() error { return nil })
}

// discard ends an upload for good.
func (s *Store) discard(ctx context.Context, digest, path, why string) {
	err := durable.Unlink(path, s.cfg.Around)
	derr := s.cfg.Ledger.DecideArtefact(context.WithoutCancel(ctx), "", artefact.Discard{Digest: digest, Reason: why})
	if err = errors.Join(err, derr); err != nil {
		s.log.Error("an upload that is not what it was to be", zap.String("digest", digest), zap.Error(err))
	}
}

// hashed returns the digest of a file, and the list of the SHA-256 of its chunks. read follows how far it is.
func hashed(ctx context.Context, path string, read *atomic.Int64) (digest string, chunks []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all, buf := sha256.New(), make([]byte, Chunk)
	for {
		if ctx.Err() != nil {
			return "", nil, context.Cause(ctx)
		}
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			all.Write(buf[:n])
			sum := sha256.Sum256(buf[:n])
			chunks = append(chunks, sum[:]...)
			read.Add(int64(n))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return wire.HashPrefix + hex.EncodeToString(all.Sum(nil)), chunks, nil
		case err != nil:
			return "", nil, err
		}
	}
}
