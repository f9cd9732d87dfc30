package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"tandem.internal/shared/durable"
)

// Names that mean that something of the layers below is not there (OCI image specification, "Whiteouts").
const (
	whiteout = ".wh."         // before the name of what is hidden
	opaque   = ".wh..wh..opq" // all that the layers below have in its directory is hidden
)

// whiteoutBytes is how much what a layer hides may take: all of it is read, and written, for each container.
const whiteoutBytes = 1 << 20

// unpacker puts the entries of one layer below a root that nobody else writes.
type unpacker struct {
	ctx    context.Context
	root   *os.Root
	limits Limits
	around durable.Around

	entries int
	parent  string // the directory of the last entry; it is there
	hidden  []string
	hides   int // bytes of hidden
}

// unpack puts all entries below the root, and returns what the layer hides of those below it, sorted and each once.
func (u *unpacker) unpack(a *archive) error {
	for {
		h, err := a.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := u.count(); err != nil {
			return err
		}
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if err := u.around.Do(durable.Write, func() error { return u.entry(h, a) }); err != nil {
			return fmt.Errorf("%.300q: %w", h.name, err)
		}
	}
}

// count counts an entry, or a directory that only a path names.
func (u *unpacker) count() error {
	if u.entries++; u.entries > u.limits.Entries {
		return fmt.Errorf("more than %d entries", u.limits.Entries)
	}
	return nil
}

// entry puts one entry in place.
func (u *unpacker) entry(h header, content io.Reader) error {
	switch h.kind {
	case typeFile, typeLink, typeSymlink, typeDir:
	default:
		return fmt.Errorf("an entry of type %q: only files, directories, hard and symbolic links are possible", h.kind)
	}
	name, err := u.clean(h.name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.kind != typeDir {
			return errors.New("the root of a layer is a directory")
		}
		return nil
	}
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	if err := u.directory(dir); err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteout) {
		return u.hide(dir, base, h.kind)
	}
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir() && h.kind == typeDir:
		return nil
	case info.IsDir():
		return errors.New("it is there as a directory")
	default: // the later one counts, and never goes through what is there
		if err := u.root.Remove(name); err != nil {
			return err
		}
	}
	if h.kind == typeDir {
		return u.mkdir(name)
	}
	if err := u.take(h.size); err != nil {
		return err
	}
	switch h.kind {
	case typeSymlink:
		if h.link == "" {
			return errors.New("a symbolic link to nothing")
		}
		return u.root.Symlink(h.link, name)
	case typeLink:
		return u.link(h.link, name)
	}
	return u.file(name, h, content)
}

// clean is a name as a path below the root, "." for the root itself.
func (u *unpacker) clean(name string) (string, error) {
	parts := strings.Split(name, "/")
	kept := parts[:0]
	for i, p := range parts {
		switch {
		case p == "..":
			return "", errors.New("a path with .. in it")
		case p == "" || p == ".":
			continue
		case len(p) > u.limits.Name:
			return "", fmt.Errorf("a name of %d bytes; %d are possible", len(p), u.limits.Name)
		case strings.HasPrefix(p, whiteout) && strings.Join(parts[i+1:], "") != "":
			return "", errors.New("an entry below a whiteout")
		}
		kept = append(kept, p)
	}
	if len(kept) > u.limits.Depth {
		return "", fmt.Errorf("it is %d levels deep; %d are possible", len(kept), u.limits.Depth)
	}
	return path.Join(append([]string{"."}, kept...)...), nil
}

// directory sees to it that dir is a directory, reached through directories only, and makes those that are missing.
func (u *unpacker) directory(dir string) error {
	if dir == u.parent || dir == "." {
		return nil
	}
	if err := u.directory(path.Dir(dir)); err != nil {
		return err
	}
	info, err := u.root.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = u.count(); err == nil {
			err = u.mkdir(dir)
		}
	case err == nil && !info.IsDir():
		err = fmt.Errorf("its path leads through %.300q, which is no directory", dir)
	}
	if err == nil {
		u.parent = dir
	}
	return err
}

// hide notes what a whiteout hides. In some images it is a hard link to another one.
func (u *unpacker) hide(dir, base string, kind byte) error {
	name := path.Join(dir, strings.TrimPrefix(base, whiteout))
	switch rest := strings.TrimPrefix(base, whiteout); {
	case kind != typeFile && kind != typeLink:
		return errors.New("a whiteout is a file")
	case base == opaque:
		name = dir
	case rest == "" || rest == "." || rest == ".." || strings.HasPrefix(rest, whiteout):
		return errors.New("a whiteout of no name")
	}
	if u.hides += len(name) + 1; len(u.hidden) == u.limits.Whiteouts || u.hides > whiteoutBytes {
		return fmt.Errorf("more than %d whiteouts, or %d bytes of them", u.limits.Whiteouts, whiteoutBytes)
	}
	u.hidden = append(u.hidden, name)
	return u.take(0)
}

// mkdir makes a directory in which the agent alone may write.
func (u *unpacker) mkdir(name string) error {
	if err := u.take(0); err != nil {
		return err
	}
	if err := u.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	d, err := u.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Chmod(0o755), d.Close())
}

// link makes a hard link to what the same layer has.
func (u *unpacker) link(to, name string) error {
	target, err := u.clean(to)
	if err != nil {
		return fmt.Errorf("a hard link to %.300q: %w", to, err)
	}
	for dir := path.Dir(target); dir != "."; dir = path.Dir(dir) {
		if info, err := u.root.Lstat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("a hard link to %.300q, whose path leads through %.300q, which is no directory", to, dir)
		}
	}
	info, err := u.root.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("a hard link to %.300q, which this layer does not have before it", to)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("a hard link to %.300q, which is a directory", to)
	}
	return u.root.Link(target, name)
}

// file writes a file. Everybody may read it, and execute what somebody may; nobody may write it, and it gives nobody
// the rights of its owner.
func (u *unpacker) file(name string, h header, content io.Reader) error {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, content, h.size)
	perm := fs.FileMode(0o444)
	if h.mode&0o111 != 0 {
		perm |= 0o111
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	at := time.Unix(h.time, 0)
	return u.root.Chtimes(name, at, at)
}
