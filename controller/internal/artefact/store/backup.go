package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"tandem.internal/shared/durable"
)

// Blobs calls each for every artefact that lies in the directory of a store, with its digest and its path in dir.
// Whether the content is what was uploaded is not looked at, nor whether the unit still knows of it. A store that is
// not there has none.
func Blobs(dir fs.FS, each func(digest, path string) error) error {
	err := fs.WalkDir(dir, blobsDir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if digest, ok := digestOf(d.Name()); ok && d.Type().IsRegular() && path.Base(path.Dir(p)) == d.Name()[:2] {
			return each(digest, p)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ErrOther says that the content to be put in place is not that of its digest.
var ErrOther = errors.New("the content is not that of the digest")

// Put writes an artefact into the directory of a store that nobody has opened: its content, which content ends with,
// and the digests of its chunks. Both are flushed, their directories are not: SettleDir of durable does that. If the
// content is another one it is an ErrOther, and nothing is left.
func Put(dir, digest string, content io.Reader) error {
	s := Store{cfg: Config{Dir: dir}}
	path := s.blobPath(digest)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	whole, sums := sha256.New(), &chunked{sum: sha256.New()}
	_, err = io.Copy(io.MultiWriter(f, whole, sums), content)
	if err == nil && fmt.Sprintf("%x", whole.Sum(nil)) != name(digest) {
		err = ErrOther
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return durable.WriteFile(path+chunksSuffix, sums.end(), 0o600, nil)
}

// chunked makes the list of the digests of chunks.
type chunked struct {
	sum hash.Hash
	n   int // bytes of the chunk that is being written
	all []byte
}

func (c *chunked) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), Chunk-c.n)]
		c.sum.Write(part) // never fails
		rest = rest[len(part):]
		if c.n += len(part); c.n == Chunk {
			c.next()
		}
	}
	return len(b), nil
}

func (c *chunked) next() {
	c.all = c.sum.Sum(c.all)
	c.sum.Reset()
	c.n = 0
}

func (c *chunked) end() []byte {
	if c.n > 0 {
		c.next()
	}
	return c.all
}
