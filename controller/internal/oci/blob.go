package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// blob reads what a descriptor refers to, and says at the end whether it was that.
type blob struct {
	ctx  context.Context
	from io.ReadCloser
	of   v1.Descriptor
	sum  hash.Hash
	n    int64
	err  error // of the reading itself, where the image is not to blame
}

func openBlob(ctx context.Context, src source, d v1.Descriptor) (*blob, error) {
	from, err := src.open(ctx, d)
	if err != nil {
		return nil, err
	}
	return &blob{ctx: ctx, from: from, of: d, sum: sha256.New()}, nil
}

// Read reads one byte more than there ought to be, and no further.
func (b *blob) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		b.err = err
		return 0, err
	}
	left := b.of.Size + 1 - b.n
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), left)])
	b.n += int64(n)
	b.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) && b.err == nil {
		b.err = err
	}
	return n, err
}

// verify reads what is left. err is what the reader of the content found wrong, or nil: content that is not what its
// digest says is told before what is wrong with it.
func (b *blob) verify(err error) error {
	if b.err == nil {
		if _, rest := io.Copy(io.Discard, b); b.err == nil {
			b.err = rest
		}
	}
	if closing := b.from.Close(); b.err == nil {
		b.err = closing
	}
	at := b.of.Digest.String()
	switch {
	case b.err != nil:
		return b.err
	case b.n > b.of.Size:
		return invalid(at, "has more than the %d bytes that what refers to it says", b.of.Size)
	case b.n < b.of.Size:
		return invalid(at, "has %d bytes, and what refers to it says %d", b.n, b.of.Size)
	case digestOf(b.sum.Sum(nil)) != b.of.Digest:
		return invalid(at, "has another content, of the digest %s", digestOf(b.sum.Sum(nil)))
	}
	return err
}

// readDocument reads a small blob whole.
func readDocument(ctx context.Context, src source, d v1.Descriptor) ([]byte, error) {
	if err := checkDescriptor(&d, MaxDocument); err != nil {
		return nil, err
	}
	b, err := openBlob(ctx, src, d)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(b)
	if err = b.verify(err); err != nil {
		return nil, err
	}
	return text, nil
}

// unpack gives the archive in a layer, and what ends its use.
func unpack(r io.Reader, p packing) (io.Reader, func(), error) {
	switch p {
	case gzipped:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, err
		}
		return z, func() {}, nil
	case zstandard:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(MaxWindow),
			zstd.WithDecoderMaxMemory(MaxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

var (
	errLarge    = errors.New("unpacked it is larger than what is taken")
	errTrailing = errors.New("something follows the end of the archive")
)

// unpacked reads an archive, makes its diff ID and bounds it.
type unpacked struct {
	from io.Reader
	sum  hash.Hash
	left int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.left < 0 {
		return 0, errLarge
	}
	n, err := u.from.Read(p[:min(int64(len(p)), u.left+1)])
	u.left -= int64(n)
	u.sum.Write(p[:n])
	if u.left < 0 {
		return n, errLarge
	}
	return n, err
}

// end reads what follows the archive, which may only be zeros.
func (u *unpacked) end() error {
	buf, zeros := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := u.Read(buf)
		if !bytes.Equal(buf[:n], zeros[:n]) {
			return errTrailing
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
