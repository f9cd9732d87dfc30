package layers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/tree"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Files beside a tree: its prints, as it was made, and where it is from, without which the tree does not count; and the
// checksums of the archives that have proved to have it in them.
const (
	printName    = "print"
	maxPrint     = 256
	archivesName = "archives"
	maxArchives  = 1 << 20
)

// create makes a tree of an archive that is at path, for a run, or for all.
func (s *Store) create(ctx context.Context, run string, a workload.Artifact, path string) (err error) {
	id := a.Unpack.DiffID
	if err := s.trees.Remove(id, run); err != nil { // one that is not as it was made
		return err
	}
	s.mu.Lock()
	held := max(a.Unpack.Size, s.needs[a.Verification.Checksum])
	s.mu.Unlock()
	if e := s.cfg.Blobs.Reserve(a, held); e != nil {
		return e
	}
	lacks := int64(1)
	s.trees.Limits.Room = func(bytes int64) error {
		if held -= bytes; held >= 0 {
			return nil
		}
		lacks, held = -held, 0 // more than the archive has: of small files, for example
		if e := s.cfg.Blobs.Reserve(a, lacks); e != nil {
			return errors.Join(e, syscall.ENOSPC)
		}
		return nil
	}
	s.trees.Limits.Full = func(taken int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.needs[a.Verification.Checksum] = taken + lacks
	}
	at, err := s.read(ctx, a, path)
	if err != nil {
		return err
	}
	text, err := printOf(at, false)
	if err != nil {
		return err
	}
	content, err := printOf(at, true)
	if err != nil {
		return err
	}
	from, err := origin(id, at)
	if err != nil {
		return err
	}
	return s.note(at, printName, text, content, from)
}

// read unpacks an archive that is at path to a tree, or finds out that the one that is there is in it, and writes that
// down. One that turns out to be damaged is verified again.
func (s *Store) read(ctx context.Context, a workload.Artifact, path string) (at string, err error) {
	_, sum, err := workload.ParseChecksum(a.Verification.Checksum)
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	s.trees.Limits.Bytes = a.Unpack.Size // nobody adds without the turn
	at, err = s.trees.Add(ctx, f, tree.Ref{Digest: wire.HashPrefix + hex.EncodeToString(sum), DiffID: a.Unpack.DiffID,
		Size: info.Size()})
	if errors.Is(err, tree.ErrDamaged) {
		s.cfg.Blobs.Doubt(a)
	}
	if err != nil {
		return "", err
	}
	return at, s.tie(a, at)
}

// tie writes down that an archive has a tree in it, with others that are wanted and have.
func (s *Store) tie(a workload.Artifact, at string) error {
	all := []string{a.Verification.Checksum}
	s.mu.Lock()
	if l := s.layers[a.Unpack.DiffID]; l != nil {
		for _, o := range l.from {
			if c := o.Verification.Checksum; slices.Contains(l.proved, c) && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	s.mu.Unlock()
	return s.note(at, archivesName, all...)
}

// archives are the checksums of the archives that have proved to have a tree in them. Agents of before wrote down none.
func (s *Store) archives(at string) []string {
	data, err := durable.ReadFile(filepath.Join(filepath.Dir(at), archivesName), maxArchives)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Log.Warn("which archives have a tree cannot be read; they are read again", zap.Error(err))
	}
	return strings.Fields(string(data))
}

// note writes down how a tree is, in a file beside it.
func (s *Store) note(at, name string, all ...string) error {
	return s.cfg.Around.Do(durable.Write, func() error {
		return durable.WriteFile(filepath.Join(filepath.Dir(at), name), []byte(strings.Join(all, " ")), 0o600, nil)
	})
}

// intact reports whether a tree is as it was made of what has the digest id. Where only the times are others at
// which its files were changed, what is in them decides, if thorough says so: a hard link changes the time.
func (s *Store) intact(id, at string, thorough bool) bool {
	data, err := durable.ReadFile(filepath.Join(filepath.Dir(at), printName), maxPrint)
	if err != nil {
		return false
	}
	text, err := printOf(at, false)
	if err != nil {
		return false
	}
	was := strings.Fields(string(data))
	if len(was) == 1 { // of an agent before there was more
		return was[0] == text
	}
	from, err := origin(id, at)
	if err != nil || len(was) != 3 || was[2] != from {
		return false
	}
	if was[0] == text || !thorough {
		return was[0] == text
	}
	content, err := printOf(at, true)
	if err != nil || content != was[1] {
		return false
	}
	// text is of before it was read: what was changed since is noticed the next time.
	if err := s.note(at, printName, text, content, from); err != nil {
		s.cfg.Log.Warn("the print of a tree cannot be written; it is read again", zap.Error(err))
	}
	return true
}

// origin is made of the digest that a tree is known by, and of what it hides.
func origin(id, at string) (string, error) {
	hidden, err := tree.Whiteouts(at)
	return wire.Hash([]byte(id + "\x00" + strings.Join(hidden, "\x00"))), err
}

// printOf is made of all that a tree has: names, types, rights, links; of its files the size, and what is in them or
// when they were changed.
func printOf(root string, content bool) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size, at, link := int64(0), int64(0), ""
		switch {
		case info.Mode().IsRegular() && content:
			size, err = copied(sum, path)
		case info.Mode().IsRegular():
			size, at = info.Size(), changed(info)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err = os.Readlink(path)
		}
		fmt.Fprintf(sum, "%q %v %d %d %q\n", strings.TrimPrefix(path, root), info.Mode(), size, at, link)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// copied copies what is in a file.
func copied(to io.Writer, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, f)
	return n, errors.Join(err, f.Close())
}
