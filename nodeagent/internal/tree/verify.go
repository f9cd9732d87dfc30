package tree

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"syscall"
)

// verified unpacks a blob, and compares it with what was asked for.
func (u *unpacker) verified(blob io.Reader, want Ref) error {
	in := &counted{ctx: u.ctx, r: blob, left: want.Size + 1, sum: sha256.New()}
	buffered := bufio.NewReader(in)
	diffID, err := u.unzip(buffered)
	// Whatever is wrong with it: is it the blob that was asked for? An error of the reader's comes again here.
	if _, cerr := io.Copy(io.Discard, in); cerr != nil {
		return cerr
	}
	switch size := want.Size + 1 - in.left; {
	case size > want.Size:
		return fmt.Errorf("%w: it has more than %d bytes", ErrDamaged, want.Size)
	case size < want.Size:
		return fmt.Errorf("%w: it has %d bytes, and should have %d", ErrDamaged, size, want.Size)
	case in.digest() != want.Digest:
		return fmt.Errorf("%w: its digest is %s", ErrDamaged, in.digest())
	case err != nil && ofTheDisk(err):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case diffID != want.DiffID:
		return fmt.Errorf("%w: the digest of what is in it is %s", ErrRefused, diffID)
	}
	return nil
}

// ofTheDisk says whether an error is the disk's: whatever the system says but of names and links that it cannot have.
func ofTheDisk(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENAMETOOLONG && errno != syscall.EMLINK
}

// unzip unpacks one gzip stream, or reads it only if there is no root, and returns the digest of the archive.
func (u *unpacker) unzip(r *bufio.Reader) (diffID string, err error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return "", err
	}
	z.Multistream(false)
	out := &counted{ctx: u.ctx, r: z, left: u.limits.Bytes + 1, sum: sha256.New(), full: errors.New("it is too large")}
	if u.root == nil {
		_, err = io.Copy(io.Discard, out)
	} else {
		err = u.unpack(&archive{r: out})
	}
	if err != nil {
		return "", err
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return "", errors.New("gzip: there is something behind its end")
	}
	return out.digest(), nil
}

// counted reads at most so many bytes, and sums them.
type counted struct {
	ctx  context.Context
	r    io.Reader
	left int64
	sum  hash.Hash
	full error // beyond left; nil: io.EOF
	err  error // of r, or ctx, that is not io.EOF
}

func (c *counted) Read(p []byte) (int, error) {
	if c.err == nil {
		c.err = c.ctx.Err()
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.left == 0 && c.full != nil {
		return 0, c.full
	}
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

func (c *counted) digest() string { return scheme + hex.EncodeToString(c.sum.Sum(nil)) }
