package slot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"path/filepath"

	"tandem.internal/shared/wire"
)

// Copy makes name a new file on d, for good once there is no error, and measures it on the way: its size in
// bytes and its hash, sha256:…; also, if it is not nil, gets the bytes, too. It ends with ctx.
func Copy(ctx context.Context, d Disk, name string, from io.Reader, also hash.Hash) (size int64, sha string,
	err error) {
	f, err := d.Create(name)
	if err != nil {
		return 0, "", err
	}
	size, sha, err = sum(ctx, f, from, also)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = d.SyncDir(filepath.Dir(name))
	}
	return size, sha, err
}

// Measure reads a file on d as Copy wrote it.
func Measure(ctx context.Context, d Disk, name string, also hash.Hash) (size int64, sha string, err error) {
	f, err := d.Open(name)
	if err != nil {
		return 0, "", err
	}
	size, sha, err = sum(ctx, io.Discard, f, also)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return size, sha, err
}

// Hash is that of what is left of a reader, sha256:…. It ends with ctx.
func Hash(ctx context.Context, from io.Reader) (string, error) {
	_, sha, err := sum(ctx, io.Discard, from, nil)
	return sha, err
}

func sum(ctx context.Context, to io.Writer, from io.Reader, also hash.Hash) (size int64, sha string, err error) {
	h := sha256.New()
	if also != nil {
		to = io.MultiWriter(to, also)
	}
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
