package layers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tandem.internal/nodeagent/internal/tree"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// printName is the file beside a tree that has its print, as it was made. Without it the tree does not count.
const printName = "print"

// create makes a tree of an archive that is at path.
func (s *Store) create(ctx context.Context, a workload.Artifact, path string) (err error) {
	if e := s.cfg.Blobs.Reserve(a); e != nil {
		return e
	}
	id := a.Unpack.DiffID
	if _, there := s.trees.Path(id); there { // not as it was made
		if err := s.trees.Remove(id); err != nil {
			return err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, sum, err := workload.ParseChecksum(a.Verification.Checksum)
	if err != nil {
		return err
	}
	s.trees.Limits.Bytes = a.Unpack.Size // nobody adds without the turn
	at, err := s.trees.Add(ctx, f, tree.Ref{Digest: wire.HashPrefix + hex.EncodeToString(sum), DiffID: id,
		Size: info.Size()})
	if errors.Is(err, tree.ErrDamaged) {
		s.cfg.Blobs.Doubt(a)
	}
	if err != nil {
		return err
	}
	text, err := printOf(at)
	if err != nil {
		return err
	}
	return s.cfg.Around.Do(durable.Write, func() error {
		return durable.WriteFile(filepath.Join(filepath.Dir(at), printName), []byte(text), 0o600, nil)
	})
}

// intact reports whether a tree is there, as it was made.
func (s *Store) intact(id string) bool {
	at, there := s.trees.Path(id)
	if !there {
		return false
	}
	data, err := durable.ReadFile(filepath.Join(filepath.Dir(at), printName), 2*sha256.Size)
	if err != nil {
		return false
	}
	text, err := printOf(at)
	return err == nil && text == string(data)
}

// printOf is made of all that a tree has but the contents of its files, of which it has the size, and when they were
// changed: names, types, rights, links.
func printOf(root string) (string, error) {
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
		case info.Mode().IsRegular():
			size, at = info.Size(), changed(info)
		case info.Mode()&fs.ModeSymlink != 0:
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(sum, "%q %v %d %d %q\n", strings.TrimPrefix(path, root), info.Mode(), size, at, link)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
