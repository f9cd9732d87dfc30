package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

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

// Open opens an artefact. One that is not visible is a CodeNotFound, one that is damaged a CodeStorage.
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
		return nil, s.report(ctx, f, err)
	}
	chunks := (e.artefact.Size + Chunk - 1) / Chunk
	f.sums, err = durable.ReadFile(s.blobPath(digest)+chunksSuffix, chunks*sha256.Size)
	if err == nil && wire.Hash(f.sums) != e.artefact.Chunks {
		err = errors.New("the list of its chunks is not what was written")
	}
	if err != nil {
		return nil, errors.Join(s.report(ctx, f, err), f.Close())
	}
	return f, nil
}

// Chunk reads the chunk with the number n, from 0, into buf, of Chunk bytes, and returns it when it is what was
// uploaded. Otherwise the error is an ErrDamaged, and the artefact is not served any more.
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
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("it ends before byte %d of %d", n*Chunk+size, f.Size)
		fallthrough
	case err != nil:
		return nil, errors.Join(ErrDamaged, f.store.report(ctx, f, err))
	}
	return buf[:size], nil
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

// report has an artefact not be served any more, and says why. What is left of it is put into quarantine, unless
// somebody has replaced the file meanwhile.
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
	if !e.there || e.artefact != f.artefact || e.damaged != nil || s.replaced(f) {
		return damage(&f.artefact, "it was removed or replaced meanwhile")
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
