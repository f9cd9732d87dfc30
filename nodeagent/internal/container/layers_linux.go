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
	"tandem.internal/shared/durable"
)

// lower is one layer of a root: a tree, and what it hides of those below it.
type lower struct {
	Dir    string   `json:"dir"`
	Hidden []string `json:"hidden,omitempty"`
}

// Directories of a bundle that are layers.
const (
	topName  = "top"  // over all others
	baseName = "base" // below them
)

// All layers of a container together hide at most so much: it is read, and written, for each start.
const (
	maxHides  = 4096
	maxHidden = 1 << 20 // bytes, with one behind each path
)

// lowers are the layers of a container, the lowest first. The last is a directory of the bundle that is filled with the
// places at which something is mounted, and with the files by which names are resolved in the node's network: there,
// whatever the image has, plain directories and files lead. Without a network, the first knows localhost, unless the
// image does.
func (s Spec) lowers(bundle string) (all []lower, err error) {
	top := filepath.Join(bundle, topName)
	hides, bytes := 0, 0
	for i, dir := range s.Layers {
		if slices.Contains(s.Layers[i+1:], dir) {
			continue // what is above it has all of it, and overlayfs takes no directory twice
		}
		hidden, err := tree.Whiteouts(dir)
		if err != nil {
			return nil, err
		}
		hides += len(hidden)
		for _, name := range hidden {
			bytes += len(name) + 1
		}
		if hides > maxHides || bytes > maxHidden {
			return nil, fmt.Errorf("the layers of its image hide more than %d paths, or %d bytes of them", maxHides,
				maxHidden)
		}
		all = append(all, lower{dir, hidden})
	}
	if err := s.plainDir(all); err != nil {
		return nil, err
	}
	if err = os.Mkdir(top, 0o755); err == nil && s.HostNetwork {
		err = names(top)
	} else if base := filepath.Join(bundle, baseName); err == nil {
		err = errors.Join(write(base, hostsFile, []byte(localhost)), openTo(base))
		all = slices.Insert(all, 0, lower{Dir: base})
	}
	for _, dir := range []string{"proc", "dev", "tmp"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(top, dir), 0o755))
	}
	for _, b := range s.Binds {
		err = errors.Join(err, write(top, b.Inside, nil))
	}
	return append(all, lower{Dir: top}), errors.Join(err, openTo(top))
}

// The files by which names are resolved.
const (
	hostsFile   = "/etc/hosts"
	resolveFile = "/etc/resolv.conf" // a link, where systemd-resolved is
	maxNames    = 1 << 20            // bytes
	localhost   = "127.0.0.1\tlocalhost\n::1\tlocalhost\n"
)

// names copies the node's files by which names are resolved, as they are now, below a root. What the node does not have
// the image may.
func names(root string) error {
	for _, name := range []string{hostsFile, resolveFile} {
		data, err := durable.ReadFile(name, maxNames)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = write(root, name, data)
		}
		if err != nil {
			return fmt.Errorf("the node's %s: %w", name, err)
		}
	}
	return nil
}

// write writes a file below a root, which everybody may read, whatever the umask.
func write(root, name string, data []byte) error {
	at := filepath.Join(root, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o444))
	return errors.Join(err, os.Chmod(at, 0o444))
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
