package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tandem.internal/nodeagent/internal/tree"
)

// lower is one layer of a root: a tree, and what it hides of those below it.
type lower struct {
	Dir    string   `json:"dir"`
	Hidden []string `json:"hidden,omitempty"`
}

// lowers are the layers of a container, the lowest first. The last is top, a directory that is filled with the places
// at which something is mounted: there, whatever the image has, plain directories and files lead.
func (s Spec) lowers(top string) (all []lower, err error) {
	for i, dir := range s.Layers {
		if slices.Contains(s.Layers[i+1:], dir) {
			continue // what is above it has all of it, and overlayfs takes no directory twice
		}
		hidden, err := tree.Whiteouts(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, lower{dir, hidden})
	}
	if err := s.plainDir(all); err != nil {
		return nil, err
	}
	err = os.Mkdir(top, 0o755)
	for _, dir := range []string{"proc", "dev", "tmp"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(top, dir), 0o755))
	}
	for _, b := range s.Binds {
		at := filepath.Join(top, b.Inside)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o444))
	}
	return append(all, lower{Dir: top}), errors.Join(err, openTo(top))
}

// openTo lets everybody pass through the directories of a root, whatever the umask.
func openTo(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// plainDir refuses a directory to begin in that an image makes a link: it could lead to what the runtime still has open
// (CVE-2024-21626).
func (s Spec) plainDir(layers []lower) error {
	name := ""
	for part := range strings.SplitSeq(strings.Trim(s.Dir, "/"), "/") {
		name = path.Join(name, part)
		for i := len(layers) - 1; i >= 0; i-- {
			info, err := os.Lstat(filepath.Join(layers[i].Dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if !info.IsDir() {
				return fmt.Errorf("it would begin in %.100q, and /%.100q is no directory in its image", s.Dir, name)
			}
		}
	}
	return nil
}

// linkAll makes one tree of layers, of hard links: where overlays are not possible. Whatever a layer has in the place
// of a directory of another one is removed before something is made below, so that no path leads through a link.
func linkAll(layers []lower, to string) (err error) {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, l := range layers {
		for _, name := range l.Hidden {
			if name != "." {
				if err := clear(to, name); err != nil {
					return err
				}
				continue
			}
			if err := errors.Join(os.RemoveAll(to), os.Mkdir(to, 0o755)); err != nil {
				return err
			}
		}
		if err := link(to, l.Dir); err != nil {
			return err
		}
	}
	return openTo(to)
}

// clear removes a name below a root, if its path leads through directories: what is behind a link is not below it.
func clear(root, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := os.Lstat(filepath.Join(root, dir)); err == nil && !info.IsDir() ||
			errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(root, name))
}

// link puts a layer over what is in a root. Each directory comes before what is in it.
func link(root, layer string) error {
	return filepath.WalkDir(layer, func(file string, e fs.DirEntry, err error) error {
		if err != nil || file == layer {
			return err
		}
		at := filepath.Join(root, strings.TrimPrefix(file, layer))
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.IsDir() && e.IsDir():
			return nil
		default:
			if err := os.RemoveAll(at); err != nil {
				return err
			}
		}
		if e.IsDir() {
			return os.Mkdir(at, 0o755)
		}
		return os.Link(file, at)
	})
}
