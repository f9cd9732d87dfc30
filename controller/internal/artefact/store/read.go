package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"go.uber.org/zap"

	"tandem.internal/controller/internal/artefact"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// ErrDamaged says that the content of an artefact is not what was uploaded.
var ErrDamaged = errors.New("the artefact is damaged")

// File is an artefact that is being read. It stays readable when the artefact is removed. One goroutine uses it.
type File struct {
	Digest string
	Size   int64

	store    *Store
	artefact artefact.Artefact
	file     *os.File
	sums     []byte
}

// Open opens an artefact. One that is not visible is a CodeNotFound, one that is damaged a CodeStorage, one that cannot
// be read now a CodeUnavailable.
func (s *Store) Open(ctx context.Context, digest string) (*File, error) {
	e, err := s.look(ctx, digest)
	switch {
	case err != nil:
		return nil, err
	case !e.there:
		return nil, none(digest)
	case e.damaged != nil:
		return nil, e.damaged
	}
	f := &File{Digest: digest, Size: e.artefact.Size, store: s, artefact: e.artefact}
	if f.file, err = os.Open(s.blobPath(digest)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errGone
		}
		return nil, s.unread(ctx, f, err)
	}
	if info, err := f.file.Stat(); err != nil || info.Size() != f.Size {
		if err == nil {
			err = fmt.Errorf("its file has %d bytes, not %d", info.Size(), f.Size)
		}
		return nil, errors.Join(s.unread(ctx, f, err), f.Close())
	}
	chunks := (e.artefact.Size + Chunk - 1) / Chunk
	f.sums, err = durable.ReadFile(s.blobPath(digest)+chunksSuffix, chunks*sha256.Size)
	if err == nil && wire.Hash(f.sums) != e.artefact.Chunks {
		err = errors.New("the list of its chunks is not what was written")
	}
	if err != nil {
		return nil, errors.Join(s.unread(ctx, f, err), f.Close())
	}
	return f, nil
}

// inspect looks whether the files of an artefact are there, and as long as they should be. Whether each byte is what
// was uploaded is for readers to find out. The errors are those of Open.
func (s *Store) inspect(ctx context.Context, digest string) error {
	f, err := s.Open(ctx, digest)
	if err != nil {
		return err
	}
	return f.Close()
}

// Chunk reads the chunk with the number n, from 0, into buf, of Chunk bytes, and returns it when it is what was
// uploaded. Otherwise the error is an ErrDamaged, and the artefact is not served any more; or a CodeUnavailable.
func (f *File) Chunk(ctx context.Context, n int64, buf []byte) ([]byte, error) {
	size := min(Chunk, f.Size-n*Chunk)
	if n < 0 || size <= 0 {
		return nil, fmt.Errorf("%s has no chunk %d", f.Digest, n)
	}
	_, err := f.file.ReadAt(buf[:size], n*Chunk)
	if err == nil && sha256.Sum256(buf[:size]) != [sha256.Size]byte(f.sums[n*sha256.Size:]) {
		err = fmt.Errorf("the bytes from %d on are not those that were uploaded", n*Chunk)
	}
	switch {
	case passes(err):
		return nil, f.store.unread(ctx, f, err)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("it ends before byte %d of %d", n*Chunk+size, f.Size)
		fallthrough
	case err != nil:
		return nil, errors.Join(ErrDamaged, f.store.report(ctx, f, err))
	}
	return buf[:size], nil
}

// passing are errors of the system that say nothing of what is on the disk: it has no more descriptors or memory, or
// this program may not read.
var passing = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR, syscall.ETIMEDOUT,
	syscall.ESTALE, syscall.EACCES, syscall.EPERM}

func passes(err error) bool {
	return slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) })
}

// unread says why an artefact was not read. One that is damaged is not served any more.
func (s *Store) unread(ctx context.Context, f *File, why error) *wire.Error {
	if !passes(why) {
		return s.report(ctx, f, why)
	}
	s.log.Warn("an artefact cannot be read now", zap.String("digest", f.Digest), zap.Error(why))
	return wire.New(wire.CodeUnavailable, "", fmt.Sprintf("the artefact %s cannot be read now; the controller's log "+
		"says why", f.Digest))
}

// replaced reports whether the file of an artefact is another one than f has opened.
func (s *Store) replaced(f *File) bool {
	if f.file == nil {
		_, err := os.Stat(s.blobPath(f.Digest))
		return err == nil
	}
	before, err := f.file.Stat()
	now, nerr := os.Stat(s.blobPath(f.Digest))
	return err == nil && nerr == nil && !os.SameFile(before, now)
}

func none(digest string) *wire.Error {
	return wire.New(wire.CodeNotFound, "", fmt.Sprintf("the store has no artefact %.80s", digest))
}

// Close closes it.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// report has an artefact not be served any more, and says why. What is left of it is put into quarantine. One that
// somebody has removed or replaced meanwhile is left alone: a CodeNotFound or a CodeUnavailable.
func (s *Store) report(ctx context.Context, f *File, why error) *wire.Error {
	ctx, leave, err := s.enter(context.WithoutCancel(ctx), f.Digest)
	if err != nil {
		return wire.AsError(err)
	}
	defer leave()
	e, err := s.look(ctx, f.Digest)
	if err != nil {
		return wire.AsError(err)
	}
	switch {
	case !e.there:
		return none(f.Digest)
	case e.damaged != nil:
		return e.damaged
	case e.artefact != f.artefact || s.replaced(f):
		return wire.New(wire.CodeUnavailable, "", fmt.Sprintf("the artefact %s was replaced while it was read; ask "+
			"for it again", f.Digest))
	}
	werr := damage(&f.artefact, why.Error())
	s.mu.Lock()
	s.damaged[f.Digest] = werr
	s.mu.Unlock()
	s.log.Error("an artefact is damaged", zap.String("digest", f.Digest), zap.Error(why))
	s.cfg.Ledger.ArtefactDamaged(werr)
	blob := s.blobPath(f.Digest)
	if _, err := os.Stat(blob); err == nil {
		err = durable.Move(blob, s.quarantinePath(f.Digest), s.cfg.Around)
		if err != nil {
			s.log.Error("putting a damaged artefact into quarantine", zap.Error(err))
		}
	}
	return werr
}
