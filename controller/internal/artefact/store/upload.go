package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// Body is what an upload sends.
type Body interface {
	io.Reader
	// Interrupt has a Read that waits return an error. It may be called at any time.
	Interrupt()
}

// WrongOffset says that bytes are not those that come next.
type WrongOffset struct {
	Offset int64 // of those that do
	err    *wire.Error
}

// Error implements error.
func (w *WrongOffset) Error() string { return w.err.Error() }

// Unwrap returns the error for whoever uploads.
func (w *WrongOffset) Unwrap() error { return w.err }

// Headers are what the answer to the request has besides.
func (w *WrongOffset) Headers() map[string]string {
	return view.Upload{Offset: w.Offset, State: view.UploadOpen}.Headers()
}

// Begin makes room for an upload, or finds the one that there is. Of an artefact that is there already the upload has
// ended; it is read before, so that one which is damaged is repaired by the upload.
func (s *Store) Begin(ctx context.Context, in op.NewArtefact) (v view.Upload, err error) {
	if s == nil {
		return v, errNone
	}
	if err := s.recheck(ctx, in.Digest); err != nil {
		return v, err
	}
	select {
	case s.beginning <- struct{}{}:
		defer func() { <-s.beginning }()
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
	e, err := s.look(ctx, in.Digest)
	if err != nil {
		return v, err
	}
	who := caller.From(ctx).Who()
	ev := artefact.Begin{Digest: in.Digest, Size: in.Size, Name: in.Name, Who: who, Quota: s.cfg.Quota,
		Damaged: e.damaged != nil}
	if err := s.tidy(ctx); err != nil {
		return v, err
	}
	if ev.Free, err = s.unpromised(ctx); err != nil {
		return v, err
	}
	if ev.Used, err = s.cfg.Ledger.ArtefactsUsed(ctx); err != nil {
		s.log.Warn("who refers to artefacts is not known", zap.Error(err)) // it is for the words of a refusal
	}
	if err := s.cfg.Ledger.DecideArtefact(ctx, who, ev); err != nil {
		return v, err
	}
	s.mu.Lock()
	delete(s.outcomes, in.Digest)
	s.mu.Unlock()
	if ev.Damaged { // what is left of it makes room for what is to replace it
		_, leave, err := s.enter(ctx, in.Digest)
		if err != nil {
			return v, err
		}
		err = durable.Unlink(s.quarantinePath(in.Digest), s.cfg.Around)
		leave()
		if err != nil {
			return v, s.diskError(err)
		}
	}
	return s.Upload(ctx, in.Digest)
}

// readAtOnce is the size of the largest artefact that is read while whoever adds it again waits.
const readAtOnce = 256 << 20

// recheck finds out whether an artefact that is added again is whole. Of one larger than readAtOnce only the files are
// looked at. The error is that it cannot be read now.
func (s *Store) recheck(ctx context.Context, digest string) error {
	e, err := s.look(ctx, digest)
	switch {
	case err != nil || !e.there || e.damaged != nil:
		return err
	case e.artefact.Size > readAtOnce:
		err = s.inspect(ctx, digest)
	default:
		err = s.readWhole(ctx, digest, math.Inf(1))
	}
	if err == nil {
		return nil
	}
	now, lerr := s.look(ctx, digest)
	if lerr == nil && now.there && now.damaged == nil {
		return err
	}
	return lerr
}

// unpromised is what the disk can give to an upload that has no room yet.
func (s *Store) unpromised(ctx context.Context) (int64, error) {
	left, err := s.cfg.Free(s.cfg.Dir)
	if err != nil {
		return 0, s.diskError(err)
	}
	left -= s.cfg.KeepFree
	var leases []artefact.Lease
	if err := s.cfg.Ledger.SeeArtefacts(ctx, func(state *artefact.State) {
		for _, l := range state.Leases {
			leases = append(leases, l)
		}
	}); err != nil {
		return 0, err
	}
	for _, l := range leases {
		have, err := s.written(l.Digest)
		if err != nil {
			return 0, s.diskError(err)
		}
		left -= max(l.Size-have, 0)
	}
	return left, nil
}

// written is how many bytes of an upload are on the disk: in its part or, after a crash at its end, in its place.
func (s *Store) written(digest string) (int64, error) {
	for _, path := range []string{s.partPath(digest), s.blobPath(digest)} {
		info, err := os.Stat(path)
		if err == nil {
			return info.Size(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return 0, nil
}

// ShowUpload shows where an upload goes on.
func (s *Store) ShowUpload(ctx context.Context, in op.ArtefactIn) (view.Upload, error) {
	return s.Upload(ctx, in.Digest)
}

// Upload is ShowUpload.
func (s *Store) Upload(ctx context.Context, digest string) (v view.Upload, err error) {
	e, err := s.look(ctx, digest)
	if err != nil {
		return v, err
	}
	switch {
	case !e.open && e.there:
		return uploaded(&e.artefact), nil
	case !e.open:
		return v, wire.New(wire.CodeNotFound, "", fmt.Sprintf("there is no upload of %.80s: begin it", digest))
	}
	s.mu.Lock()
	h := s.holds[digest]
	s.mu.Unlock()
	v = view.Upload{Digest: digest, Size: e.lease.Size, Name: e.lease.Name, State: view.UploadOpen, Who: e.lease.Who,
		Begun: e.lease.Begun, Expires: e.lease.Expires}
	if h != nil && h.verify != nil {
		v.State, v.Offset, v.Verified = view.UploadVerifying, v.Size, h.verify.read.Load()
		return v, nil
	}
	if h != nil { // it is being written: what its writer has flushed is known when it has ended
		v.Offset, err = s.written(digest)
		return v, err
	}
	_, leave, err := s.enter(ctx, digest)
	if err != nil {
		return v, err
	}
	defer leave()
	v.Offset, err = s.settled(digest)
	return v, s.diskError(err)
}

func uploaded(a *artefact.Artefact) view.Upload {
	return view.Upload{Digest: a.Digest, Size: a.Size, Name: a.Name, Offset: a.Size, Who: a.Who,
		State: view.UploadAdded}
}

// settled is how many bytes of an upload survive a power cut. The caller has the hold.
func (s *Store) settled(digest string) (int64, error) {
	if _, err := os.Stat(s.partPath(digest)); errors.Is(err, fs.ErrNotExist) {
		return s.written(digest) // in its place already, where it is verified again
	}
	p, err := durable.OpenPart(s.partPath(digest), s.cfg.Around)
	if err != nil {
		return 0, err
	}
	return p.Durable(), p.Close()
}

// Write takes what body sends of an upload, from offset. An error leaves what is durable; the next one goes on there.
func (s *Store) Write(ctx context.Context, digest string, offset int64, body Body) (v view.Upload, err error) {
	if s == nil {
		return v, errNone
	}
	ctx, leave, err := s.enter(ctx, digest)
	if err != nil {
		return v, err
	}
	defer leave()
	defer context.AfterFunc(ctx, body.Interrupt)()
	e, err := s.look(ctx, digest)
	switch {
	case err != nil:
		return v, err
	case !e.open && e.there:
		return uploaded(&e.artefact), nil
	}
	if err := s.cfg.Ledger.DecideArtefact(ctx, "", artefact.Touch{Digest: digest}); err != nil {
		return v, err
	}
	at, err := s.settled(digest)
	if err != nil {
		return v, s.diskError(err)
	}
	if at != offset {
		return v, &WrongOffset{Offset: at, err: wire.New(wire.CodeWrongState, "",
			fmt.Sprintf("the upload goes on at byte %d, not %d", at, offset))}
	}
	v = view.Upload{Digest: digest, Size: e.lease.Size, Name: e.lease.Name, State: view.UploadOpen, Who: e.lease.Who,
		Begun: e.lease.Begun, Expires: e.lease.Expires, Offset: at}
	if at == v.Size && v.Size > 0 {
		return v, nil
	}
	p, err := durable.OpenPart(s.partPath(digest), s.cfg.Around)
	if err != nil {
		return v, s.diskError(err)
	}
	err = s.receive(ctx, p, &e.lease, body)
	v.Offset = p.Durable()
	return v, errors.Join(err, p.Close())
}

// piece is how much of a body is held in memory, in bytes.
const piece = 256 << 10

// receive appends a body to a part, and flushes it now and then and at its end.
func (s *Store) receive(ctx context.Context, p *durable.Part, l *artefact.Lease, body Body) error {
	buf := make([]byte, piece)
	for {
		n, rerr := body.Read(buf)
		if p.Size()+int64(n) > l.Size {
			why := fmt.Sprintf("more than the %d bytes that the upload is of", l.Size)
			return errors.Join(wire.New(wire.CodeTooLarge, "", why), s.flush(ctx, p, l))
		}
		if n > 0 {
			if err := p.Append(buf[:n]); err != nil {
				return s.diskError(err)
			}
		}
		ended := rerr != nil || ctx.Err() != nil
		if ended || p.Size()-p.Durable() >= s.cfg.Flush {
			if err := s.flush(ctx, p, l); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case ended && ctx.Err() != nil:
			return context.Cause(ctx)
		case ended:
			s.log.Debug("an upload was cut off", zap.String("digest", l.Digest), zap.Error(rerr))
			return wire.New(wire.CodeInterrupted, "", fmt.Sprintf("the upload was cut off after %d of %d bytes",
				p.Durable(), l.Size))
		}
	}
}

// flush makes what was received durable, and looks whether more may come.
func (s *Store) flush(ctx context.Context, p *durable.Part, l *artefact.Lease) error {
	if err := p.Sync(); err != nil {
		return s.diskError(err)
	}
	left, err := s.cfg.Free(s.cfg.Dir)
	if err != nil {
		return s.diskError(err)
	}
	if left < s.cfg.KeepFree && p.Durable() < l.Size {
		return wire.New(wire.CodeStorage, "", fmt.Sprintf("the disk has only %d bytes left (--artefact-keep-free %d): "+
			"make room, and go on", left, s.cfg.KeepFree))
	}
	// Somebody who has gone renews nothing, and what has come is kept all the same.
	return s.cfg.Ledger.DecideArtefact(context.WithoutCancel(ctx), "", artefact.Touch{Digest: l.Digest})
}

// diskError makes an error of the disk one for whoever asks.
func (s *Store) diskError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*wire.Error](err); ok {
		return err
	}
	s.log.Error("the store of artefacts", zap.Error(err))
	why := "the controller's disk failed"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		why = "the controller's disk is full"
	case errors.Is(err, durable.ErrDiscarded):
		why = "the controller's disk did not keep what was sent, which begins anew"
	}
	return wire.New(wire.CodeStorage, "", why+"; the controller's log says more")
}
