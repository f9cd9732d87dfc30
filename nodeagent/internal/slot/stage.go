package slot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"tandem.internal/nodeagent/internal/slot/record"
	"tandem.internal/shared/wire"
)

// ErrRefused says that what was to be staged is not what it should be, or does not run here: it
// will not be better the next time.
var ErrRefused = errors.New("refused")

// maxBinary bounds a binary, in bytes.
const maxBinary = 512 << 20

// Source is what is to be staged.
type Source struct {
	File    string // path of the binary
	Version string // that it has to say it is; empty: any
	Hash    string // that it has to have, sha256:…; empty: any
	// Signature is a publisher's, as publisher.Parse reads it; empty: it has none.
	Signature string
}

// Staged is what a slot holds now.
type Staged struct {
	Slot    ID     `json:"slot"`
	Version string `json:"version"`
	Hash    string `json:"hash"`
	Size    int64  `json:"size"` // bytes
}

// OpenSource opens a file that is to be staged. The error is ErrRefused if it is none: nobody waits for the writer of a
// FIFO.
func OpenSource(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if info, err := f.Stat(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrRefused, err), f.Close())
	} else if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%w: %s is not a file", ErrRefused, file), f.Close())
	}
	return f, nil
}

// Stage writes a binary to the slot that is free, verifies it and lets it say its version. The slot
// counts as empty from before the first byte until all of that is done. The error is ErrRefused if the
// source is to blame, ErrLocked if another staging is under way, and record.ErrTrial during a trial.
func (s *Store) Stage(ctx context.Context, src Source) (out Staged, err error) {
	f, err := OpenSource(src.File)
	if err != nil {
		return Staged{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return s.StageFrom(ctx, f, src)
}

// StageFrom is Stage with the binary from a reader.
func (s *Store) StageFrom(ctx context.Context, from io.Reader, src Source) (out Staged, err error) {
	if err := s.disk.Mkdir("."); err != nil {
		return Staged{}, fmt.Errorf("slots: %w", err)
	}
	unlock, err := s.disk.Lock(stageLock, 0)
	if err != nil {
		return Staged{}, fmt.Errorf("stage: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	id, seq, err := s.begin()
	if err != nil {
		return Staged{}, err
	}
	if out, err = s.fill(ctx, id, from, src); err != nil {
		// The slot stays empty. The room is given back, and who looks is told that nobody writes any more.
		return Staged{}, errors.Join(err, s.disk.Remove(s.binary(id)),
			s.update(func(r record.Record) (record.Record, error) { return r.Abandon(seq), nil }))
	}
	err = s.update(func(r record.Record) (record.Record, error) {
		return r.Staged(seq, record.Slot{Version: out.Version, Hash: out.Hash, Size: out.Size})
	})
	if err != nil {
		return Staged{}, err
	}
	return out, nil
}

// begin marks a slot as empty, in the record.
func (s *Store) begin() (id ID, seq uint64, err error) {
	err = s.update(func(r record.Record) (record.Record, error) {
		if id, err = r.Target(); err != nil {
			return r, err
		}
		r = r.Begin(id)
		seq = r.WriteSeq
		return r, nil
	})
	return id, seq, err
}

// fill writes, verifies and tests what an empty slot is to hold, and says so in the manifest.
func (s *Store) fill(ctx context.Context, id ID, from io.Reader, src Source) (Staged, error) {
	out := Staged{Slot: id}
	err := s.disk.Mkdir(string(id))
	if err == nil {
		err = errors.Join(s.disk.Clean(s.manifest(id)), s.disk.Remove(s.manifest(id)),
			s.disk.Clean(s.signature(id)), s.disk.Remove(s.signature(id)))
	}
	if err != nil {
		return Staged{}, fmt.Errorf("stage: %w", err)
	}
	if out.Size, out.Hash, err = Copy(ctx, s.disk, s.binary(id), io.LimitReader(from, maxBinary+1), nil); err != nil {
		return Staged{}, fmt.Errorf("stage: %w", err)
	}
	if out.Size > maxBinary {
		return Staged{}, fmt.Errorf("%w: it is larger than %d bytes", ErrRefused, maxBinary)
	}
	if src.Hash != "" && src.Hash != out.Hash {
		return Staged{}, fmt.Errorf("%w: its hash is %s, and it should be %s", ErrRefused, out.Hash, src.Hash)
	}
	digest := s.digesting()
	size, hash, err := Measure(ctx, s.disk, s.binary(id), digest)
	if err != nil {
		return Staged{}, fmt.Errorf("stage: %w", err)
	}
	if size != out.Size || hash != out.Hash {
		return Staged{}, fmt.Errorf("stage: the disk does not give back what was written to slot %s", id)
	}
	// what nobody has signed is not even asked for its version
	if digest != nil {
		if err := s.cfg.Publishers.Judge(src.Signature, digest.Sum(nil)); err != nil {
			return Staged{}, fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	test := s.cfg.SelfTest
	if test == nil {
		test = func(ctx context.Context, path string) (string, error) { return Version(ctx, path, hash) }
	}
	if out.Version, err = test(ctx, filepath.Join(s.cfg.Dir, s.binary(id))); err != nil {
		if ctx.Err() != nil {
			return Staged{}, fmt.Errorf("stage: %w", ctx.Err())
		}
		return Staged{}, fmt.Errorf("%w: it fails its self-test: %w", ErrRefused, err)
	}
	if src.Version != "" && src.Version != out.Version {
		return Staged{}, fmt.Errorf("%w: it says that it is version %s, and it should be %s", ErrRefused, out.Version,
			src.Version)
	}
	if err := s.above(out.Version); err != nil {
		if _, low := errors.AsType[*wire.Error](err); low {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return Staged{}, err
	}
	if err := s.keepSignature(id, src.Signature, out.Version); err != nil {
		return Staged{}, err
	}
	m := record.Manifest{Version: out.Version, Hash: out.Hash, Size: out.Size}
	if err := s.disk.Replace(s.manifest(id), m.Encode()); err != nil {
		return Staged{}, fmt.Errorf("stage: %w", err)
	}
	return out, nil
}

// sound says whether a slot holds what the record says, what a publisher has signed where that is demanded, and, if it
// is to be tried, nothing below the floor: record.ErrBroken or a *wire.Error if it does not.
func (s *Store) sound(r record.Record, id ID) error {
	if id == record.Factory {
		return nil
	}
	x := r.Slot(id)
	if !x.Exists() {
		return fmt.Errorf("%w: it holds nothing", record.ErrBroken)
	}
	if s.cfg.Unread != nil && id == r.Trying {
		return fmt.Errorf("%w: %w", ErrUnread, s.cfg.Unread)
	}
	if id == r.Trying { // what is in force stays so, however low
		if err := s.above(x.Version); err != nil {
			return err
		}
	}
	digest := s.digesting()
	size, hash, err := Measure(context.Background(), s.disk, s.binary(id), digest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: its file is missing", record.ErrBroken)
	case err != nil:
		return err
	case size != x.Size:
		return fmt.Errorf("%w: its file has %d bytes and should have %d", record.ErrBroken, size, x.Size)
	case hash != x.Hash:
		return fmt.Errorf("%w: its file has been altered", record.ErrBroken)
	}
	return s.signed(id, x.Version, digest)
}

// abandoned ends, in the record, a staging that nobody is at any more.
func (s *Store) abandoned(r record.Record) record.Record {
	if r.Writing == record.None {
		return r
	}
	unlock, err := s.disk.Lock(stageLock, 0)
	if err != nil {
		return r
	}
	if err := unlock(); err != nil {
		return r
	}
	return r.Abandon(r.WriteSeq)
}
