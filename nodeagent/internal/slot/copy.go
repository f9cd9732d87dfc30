package slot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"

	"tandem.internal/shared/wire"
)

// Copy makes name a new file on d, for good once there is no error, and measures it on the way: its size in
// bytes and its hash, sha256:…. It ends with ctx.
func Copy(ctx context.Context, d Disk, name string, from io.Reader) (size int64, hash string, err error) {
	f, err := d.Create(name)
	if err != nil {
		return 0, "", err
	}
	size, hash, err = sum(ctx, f, from)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = d.SyncDir(filepath.Dir(name))
	}
	return size, hash, err
}

// Measure reads a file on d as Copy wrote it.
func Measure(ctx context.Context, d Disk, name string) (size int64, hash string, err error) {
	f, err := d.Open(name)
	if err != nil {
		return 0, "", err
	}
	size, hash, err = sum(ctx, io.Discard, f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return size, hash, err
}

// Hash is that of what is left of a reader, sha256:…. It ends with ctx.
func Hash(ctx context.Context, from io.Reader) (string, error) {
	_, hash, err := sum(ctx, io.Discard, from)
	return hash, err
}

func sum(ctx context.Context, to io.Writer, from io.Reader) (size int64, hash string, err error) {
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(to, h), &stopper{ctx, from})
	return size, wire.HashPrefix + hex.EncodeToString(h.Sum(nil)), err
}

// stopper reads from r until ctx ends.
type stopper struct {
	ctx context.Context
	r   io.Reader
}

func (s *stopper) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}
