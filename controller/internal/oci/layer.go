package oci

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// level is that of gzip. Nodes fetch a layer again and again over their links, and it is rewritten once.
const level = 6

// rewriteLayer reads a layer of this diff ID and writes what nodes get of it into a file in dir.
func rewriteLayer(ctx context.Context, src source, d v1.Descriptor, diffID digest.Digest, dir string) (*Layer, error) {
	p, known := packings[d.MediaType]
	if !known {
		return nil, invalid(d.Digest.String(), "layers of the type %.80q are not taken", d.MediaType)
	}
	f, err := os.CreateTemp(dir, "*.tar.gz")
	if err != nil {
		return nil, err
	}
	l := &Layer{file: f.Name(), From: Source{d.MediaType, d.Digest, diffID, d.Size}}
	err = errors.Join(l.rewrite(ctx, f, src, d, p), f.Close())
	if err != nil {
		return nil, errors.Join(err, os.Remove(l.file))
	}
	return l, nil
}

// rewrite fills f. What it has written counts for nothing if it returns an error.
func (l *Layer) rewrite(ctx context.Context, f io.Writer, src source, d v1.Descriptor, p packing) error {
	b, err := openBlob(ctx, src, d)
	if err != nil {
		return err
	}
	packed, archive := sha256.New(), sha256.New()
	size := &counter{}
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, packed, size), level)
	if err != nil {
		return errors.Join(err, b.verify(nil))
	}
	z.ModTime = time.Unix(0, 0) // none
	out := &sink{to: io.MultiWriter(z, archive)}
	ins := &unpacked{sum: sha256.New(), left: MaxUnpacked}
	r, err := l.convert(b, p, ins, out)
	if out.err != nil {
		return errors.Join(out.err, b.verify(nil))
	}
	if err != nil && !isInvalid(err) {
		err = invalid(d.Digest.String(), "is no layer that can be read: %v", err)
	}
	if err := b.verify(err); err != nil {
		return err
	}
	if got := digestOf(ins.sum.Sum(nil)); got != l.From.DiffID {
		return invalid(d.Digest.String(), "unpacked it is %s, and its diff ID is %s", got, l.From.DiffID)
	}
	if err := z.Close(); err != nil {
		return err
	}
	l.Digest, l.DiffID = digestOf(packed.Sum(nil)), digestOf(archive.Sum(nil))
	l.Size, l.Unpacked, l.Entries = size.n, r.out.n, r.entries
	l.Remarks, l.accounts = r.remarks, r.accounts
	return nil
}

// convert unpacks and rewrites all of b.
func (l *Layer) convert(b io.Reader, p packing, ins *unpacked, out io.Writer) (*rewriter, error) {
	from, done, err := unpack(b, p)
	if err != nil {
		return nil, err
	}
	defer done()
	ins.from = from
	r := newRewriter(out, MaxEntries)
	if err := r.archive(ins); err != nil {
		return nil, err
	}
	return r, ins.end()
}

func isInvalid(err error) bool {
	_, is := errors.AsType[*Invalid](err)
	return is
}

// counter counts what is written.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// sink remembers that it was not the image that made writing fail.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// seenWhiteout is what a rewriter has seen that is no file, although it is written as one.
const seenWhiteout = 'w'

// rewriter makes of an archive one that nodes take.
type rewriter struct {
	out      ustar
	most     int // entries
	entries  int
	seen     map[string]byte // what is at a path: a type, or 0 for a directory that only has something below it
	remarks  []Remark
	accounts map[string]account
}

func newRewriter(to io.Writer, most int) *rewriter {
	return &rewriter{out: ustar{to: to}, most: most, seen: map[string]byte{}, accounts: map[string]account{}}
}

// archive rewrites a whole archive, up to its end.
func (r *rewriter) archive(from io.Reader) error {
	in := tar.NewReader(from)
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return r.out.end()
		}
		if err != nil {
			return err
		}
		if n == r.most {
			return invalid("", "a layer has more than %d entries", r.most)
		}
		if err := r.entry(h, in); err != nil {
			return err
		}
	}
}

// remark notes that something is not as it was.
func (r *rewriter) remark(what, path string) {
	const shown = 4
	i := slices.IndexFunc(r.remarks, func(m Remark) bool { return m.What == what })
	if i < 0 {
		r.remarks = append(r.remarks, Remark{What: what})
		i = len(r.remarks) - 1
	}
	m := &r.remarks[i]
	if m.Count++; m.Count <= shown {
		m.Paths = append(m.Paths, readable(path, 300))
	}
}

// entry rewrites one entry, whose content in gives.
func (r *rewriter) entry(h *tar.Header, in io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader { // a comment of whoever made the archive
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	e := &entry{name: name, uid: h.Uid, gid: h.Gid, seconds: seconds(h.ModTime.Unix())}
	switch {
	case isSparse(h):
		return invalid(name, "is a sparse file, which is not taken")
	case name == "" && h.Typeflag == tar.TypeDir: // of the root nodes decide themselves
		return nil
	case name == "":
		return invalid(h.Name, "is the root, and no directory")
	}
	// Names that have no room are not kept in memory either.
	if err := checkName(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	white, left, err := whiteout(name)
	if err != nil {
		return err
	}
	if left {
		r.remark("of aufs, left out", name)
		return nil
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont:
		e.kind, e.size, e.mode = typeFile, h.Size, h.Mode&0o777
	case tar.TypeDir:
		e.kind, e.mode = typeDir, h.Mode&0o1777
	case tar.TypeSymlink:
		e.kind, e.mode, e.link = typeSymlink, 0o777, h.Linkname
	case tar.TypeLink:
		e.kind, e.mode = typeHard, h.Mode&0o777
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		r.remark("devices and pipes, left out", name)
		return nil
	default:
		return invalid(name, "is of the type %q, which is not taken", string(h.Typeflag))
	}
	if white {
		// Some builders made whiteouts of hard links to one another. What they are is in their name.
		if e.kind != typeFile && e.kind != typeHard || e.size != 0 {
			return invalid(name, "is a whiteout, and no empty file")
		}
		*e = entry{name: name, kind: typeFile}
	}
	if repeated, err := r.place(e, white); repeated || err != nil {
		return err
	}
	if err := r.fits(e, h); err != nil {
		return err
	}
	r.stripped(h, e)
	if in, err = r.account(e, in); err != nil {
		return err
	}
	if err := r.out.head(e); err != nil {
		return err
	}
	r.entries++
	return r.out.content(in, e.size)
}

// place checks that nothing stands where the entry goes, and that what is above it are directories.
func (r *rewriter) place(e *entry, white bool) (repeated bool, err error) {
	for i := range e.name {
		if e.name[i] != '/' {
			continue
		}
		if above, is := r.seen[e.name[:i]]; !is {
			r.seen[e.name[:i]] = 0
		} else if above != 0 && above != typeDir {
			return false, invalid(e.name, "is below %q, which is no directory in this layer", e.name[:i])
		}
	}
	switch there, is := r.seen[e.name]; {
	case !is, there == 0 && e.kind == typeDir:
	case there == typeDir && e.kind == typeDir:
		r.remark("directories that are there twice, taken once", e.name)
		return true, nil
	default:
		return false, invalid(e.name, "is there twice in one layer")
	}
	r.seen[e.name] = e.kind
	switch {
	case white:
		r.seen[e.name] = seenWhiteout
	case e.kind == typeHard:
		r.seen[e.name] = typeFile
	}
	return false, nil
}

// checkName checks that ustar has room for a name.
func checkName(name string, isDir bool) error {
	whole := name
	if isDir {
		whole += "/"
	}
	if _, _, ok := splitName(whole); !ok {
		return invalid(name, "the name has %d bytes: ustar has room for %d, and after a slash for %d more", len(whole),
			prefix, nameBytes)
	}
	return nil
}

// fits checks that ustar has room for the rest of the entry, and where its link leads.
func (r *rewriter) fits(e *entry, h *tar.Header) error {
	if e.uid < 0 || e.uid > maxID || e.gid < 0 || e.gid > maxID {
		return invalid(e.name, "is owned by %d:%d; ustar has room for numbers up to %d", e.uid, e.gid, maxID)
	}
	switch e.kind {
	case typeHard:
		to, err := cleanName(h.Linkname)
		if err != nil {
			return err
		}
		if r.seen[to] != typeFile || to == e.name {
			return invalid(e.name, "is a hard link to %q, which is no file before it in this layer", to)
		}
		e.link = to
	case typeSymlink:
		if e.link == "" {
			return invalid(e.name, "is a symbolic link to nothing")
		}
	}
	if len(e.link) > linkBytes {
		return invalid(e.name, "is a link to a name of %d bytes; ustar has room for %d", len(e.link), linkBytes)
	}
	return nil
}

// stripped notes what of an entry is not written.
func (r *rewriter) stripped(h *tar.Header, e *entry) {
	const setIDs = 0o6000
	if h.Mode&setIDs != 0 && e.kind != typeSymlink {
		r.remark("set-uid and set-gid bits, removed", e.name)
	}
	for _, k := range attributes(h) {
		what := "extended attributes, removed"
		if k == "security.capability" {
			what = "capabilities of files, removed"
		}
		r.remark(what, e.name)
	}
}
