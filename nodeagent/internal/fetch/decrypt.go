package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"tandem.internal/nodeagent/internal/fetch/plan"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
)

// ErrNotForUs is the error of Config.Decrypt when none of the node's keys opens a file.
var ErrNotForUs = errors.New("none of this node's keys opens it: it was encrypted for others")

// Decrypt writes to dst what is encrypted in src. ErrNotForUs says that it is encrypted for others. Several goroutines
// call it.
type Decrypt func(dst io.Writer, src io.Reader) error

// NewDecrypt makes a Decrypt of the keys in a file. A program's main chooses whether there is one.
type NewDecrypt func(keys []byte) (Decrypt, error)

// decrypted is the key under which room is reserved for the content of what comes encrypted.
func decrypted(k plan.Key) plan.Key { return k + " decrypted" }

// there says whether f, of so many bytes, is the whole file of e: an earlier attempt could not use it.
func (s *Store) there(ctx context.Context, e plan.Fetch, f *part, size int64) (bool, error) {
	if e.Encrypted == nil || size < e.Encrypted.Size {
		return false, nil
	}
	sum, _, _, err := s.checksum(ctx, f.file, e.Sum, nil)
	return sum == e.Sum, err
}

// decrypt puts the content of f, a whole file of e with so many bytes, in its place. The content has to have the
// checksum sum.
//
// The part loses its origin before the content replaces it: what a crash leaves is fetched anew.
func (s *Store) decrypt(ctx context.Context, e plan.Fetch, f *part, came int64, sum string) (got, digest string,
	size int64, err error) {
	if came > e.Encrypted.Size {
		return "", "", 0, never(wire.CodeTooLarge, fmt.Sprintf("the encrypted file has %d bytes, and by its size %d: "+
			"correct that", came, e.Encrypted.Size))
	}
	path := s.disk.partPath(e.Key) + asPlain
	if err := s.disk.unlink(path); err != nil {
		return "", "", 0, err
	}
	if err := s.disk.before(durable.Create); err != nil {
		return "", "", 0, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", "", 0, err
	}
	plain := &part{file: file, store: s, key: decrypted(e.Key), most: s.most(e.Plain), progress: f.progress}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, s.disk.unlink(path))
		}
	}()
	in, out := &reading{ctx: ctx, from: io.NewSectionReader(f.file, 0, e.Encrypted.Size)}, &writing{to: plain}
	if err := s.Decrypt(out, in); err != nil {
		return "", "", 0, undecrypted(errors.Join(in.err, out.err), err)
	}
	if err := plain.sync(); err != nil {
		return "", "", 0, err
	}
	if got, digest, size, err = s.checksum(ctx, file, sum, nil); err != nil {
		return "", "", 0, err
	}
	if got != sum {
		return "", "", 0, never(wire.CodeHashMismatch, "the file is the one that was encrypted, but what is in it has "+
			"the checksum "+got+", not "+sum)
	}
	if err := s.disk.unlink(s.disk.partPath(e.Key) + asJSON); err != nil {
		return "", "", 0, err
	}
	if err := s.disk.before(durable.Rename); err != nil {
		return "", "", 0, err
	}
	return got, digest, size, os.Rename(path, s.disk.partPath(e.Key))
}

// undecrypted says why a file cannot be decrypted: ours is what failed here, if anything did, why what Decrypt says.
func undecrypted(ours, why error) error {
	switch {
	case errors.Is(ours, errMost):
		return never(wire.CodeTooLarge, "what is in it: "+errMost.Error()+"; correct its size")
	case ours != nil:
		return ours
	case errors.Is(why, ErrNotForUs):
		return never(wire.CodeNotAllowed, why.Error())
	}
	return never(wire.CodeHashMismatch, fmt.Sprint("it cannot be decrypted: ", why))
}

// reading reads until its context ends.
type reading struct {
	ctx  context.Context
	from io.Reader
	err  error
}

func (r *reading) Read(b []byte) (n int, err error) {
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err = r.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// writing writes one after another.
type writing struct {
	to  *part
	at  int64
	err error
}

func (w *writing) Write(b []byte) (n int, err error) {
	n, err = w.to.WriteAt(b, w.at)
	w.at += int64(n)
	w.err = errors.Join(w.err, err)
	return n, err
}
