package item

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tandem.internal/controller/internal/cli/command"
	"tandem.internal/shared/items"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// A directory is packed as nodes get it, so that the same files are the same bytes whoever packs them, and when: a
// plain ustar archive in gzip, sorted by path, without owners and times, of mode 0755 where somebody may execute, else
// 0644.

// sum counts and hashes what goes through it.
type sum struct {
	n    int64
	hash hash.Hash
}

func newSum() *sum { return &sum{hash: sha256.New()} }

// Write implements io.Writer.
func (s *sum) Write(b []byte) (int, error) {
	s.n += int64(len(b))
	return s.hash.Write(b)
}

func (s *sum) digest() string { return wire.HashPrefix + hex.EncodeToString(s.hash.Sum(nil)) }

// untilDone reads until its context is done.
type untilDone struct {
	context.Context
	r io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(b []byte) (int, error) {
	if err := u.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// pack writes a directory.
func pack(ctx context.Context, dir string, to io.Writer) error {
	zip, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		switch {
		case err == nil && name == "." && !d.IsDir():
			return errors.New("it is no directory; a directory is packed")
		case err != nil || name == ".":
			return err
		}
		return packOne(ctx, out, file, filepath.ToSlash(name), d)
	})
	return errors.Join(err, out.Close(), zip.Close())
}

func packOne(ctx context.Context, out *tar.Writer, file, name string, d fs.DirEntry) error {
	if err := visible(name); err != nil {
		return err
	}
	head := &tar.Header{Name: name, Format: tar.FormatUSTAR, Mode: 0o755}
	switch d.Type() {
	case fs.ModeDir:
		head.Typeflag, head.Name = tar.TypeDir, name+"/"
		return out.WriteHeader(head)
	case fs.ModeSymlink:
		target, err := os.Readlink(file)
		if err != nil {
			return err
		}
		head.Typeflag, head.Linkname = tar.TypeSymlink, filepath.ToSlash(target)
		if err := inside(head); err != nil {
			return err
		}
		return out.WriteHeader(head)
	case 0:
	default:
		return fmt.Errorf("%s is neither a file, a directory nor a link", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		head.Typeflag, head.Size = tar.TypeReg, info.Size()
		if command.FileModes && info.Mode().Perm()&0o111 == 0 { // without modes, anything may be a program
			head.Mode = 0o644
		}
		err = out.WriteHeader(head)
	}
	if err == nil {
		_, err = io.CopyN(out, untilDone{ctx, f}, head.Size)
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s has become shorter while it was read", file)
	}
	return errors.Join(err, f.Close())
}

// visible refuses a name that nodes would leave out: in a layer of an image it says that another file is not there.
func visible(name string) error {
	for _, part := range strings.Split(name, "/") {
		if strings.HasPrefix(part, ".wh.") {
			return fmt.Errorf("%s: names that begin with .wh. are not for nodes", name)
		}
	}
	return nil
}

// inside refuses what does not stay in its directory, and what is no file, directory or link. A link has its way up at
// its beginning only: behind another link it would lead elsewhere than it says.
func inside(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
	default:
		return fmt.Errorf("%s is neither a file, a directory nor a link", h.Name)
	}
	if !filepath.IsLocal(h.Name) {
		return fmt.Errorf("%s leads out of the directory", h.Name)
	}
	if err := visible(h.Name); err != nil {
		return err
	}
	to := h.Linkname
	if h.Typeflag == tar.TypeSymlink && (path.IsAbs(to) || path.Clean(to) != strings.TrimSuffix(to, "/") ||
		!filepath.IsLocal(path.Join(path.Dir(h.Name), to))) {
		return fmt.Errorf("the link %s leads to %s: only links that stay in the directory are packed", h.Name, to)
	}
	return nil
}

// packed packs a directory into a file of its own, which whoever calls this removes.
func packed(ctx context.Context, dir string) (file string, err error) {
	f, err := os.CreateTemp("", "tandem-item-*.tar.gz")
	if err != nil {
		return "", err
	}
	err = errors.Join(pack(ctx, dir, f), f.Close())
	if err != nil {
		return "", command.Unreadable(dir, errors.Join(err, os.Remove(f.Name())))
	}
	return f.Name(), nil
}

// blobOf reads a file once, and says what it is: as it is, or with the tar file in it, and which hooks are at its top.
func blobOf(ctx context.Context, file string, tree bool) (b items.Blob, hooks []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return b, nil, command.Unreadable(file, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	whole := newSum()
	from := io.TeeReader(untilDone{ctx, f}, whole)
	if tree {
		if b.DiffID, b.Unpacked, hooks, err = unpacked(from); err != nil {
			return b, nil, command.Unreadable(file, err)
		}
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return b, nil, command.Unreadable(file, err)
	}
	b.Digest, b.Size = whole.digest(), whole.n
	return b, hooks, nil
}

// unpacked reads a packed directory, and says what is in it.
func unpacked(r io.Reader) (digest string, size int64, hooks []string, err error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return "", 0, nil, fmt.Errorf("this is no directory that tandem item pack has packed: %w", err)
	}
	all := newSum()
	from := io.TeeReader(zip, all)
	for in := tar.NewReader(from); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = inside(h)
		}
		if err != nil {
			return "", 0, nil, fmt.Errorf("this is no directory that tandem item pack has packed: %w", err)
		}
		if h.Typeflag == tar.TypeReg && slices.Contains(workload.Hooks, h.Name) {
			hooks = append(hooks, h.Name)
		}
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return "", 0, nil, err
	}
	slices.Sort(hooks)
	return all.digest(), all.n, slices.Compact(hooks), nil
}
