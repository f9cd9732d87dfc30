package workloads

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// fresh is what a link is called until it takes its name.
const fresh = ".tandem-link"

// link makes the directory of a configuration: a symbolic link to each resource, by its name (seed 004,
// название_ресурса). Of one that is there it changes the links, each at once, and leaves the rest.
func (m *Manager) link(dir string, c workload.Config) *wire.Error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return storage(err)
	}
	old, err := links(dir)
	if err != nil {
		return storage(err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		r := m.cfg.Resources.Look(c.Resources[name])
		if r.State != "" {
			return wire.New(wire.CodeUnavailable, "/resources/"+name, "the resource is not on the node any more; it is fetched again")
		}
		if old[name] != r.Path {
			if err := relink(dir, name, r.Path); err != nil {
				return storage(err)
			}
		}
		delete(old, name)
	}
	for name, target := range old {
		if filepath.IsAbs(target) { // one of ours: what a process has made there is its own
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return storage(err)
			}
		}
	}
	return storage(syncDir(dir))
}

// links are the symbolic links in a directory, and where they lead to.
func links(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			if all[e.Name()], err = os.Readlink(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func relink(dir, name, target string) error {
	path := filepath.Join(dir, fresh)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, path); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(dir, name))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove removes the directory of a configuration and the logs of its hooks; with the last one of a
// slot, the slot's.
func (m *Manager) remove(service, dir string) error {
	if err := errors.Join(os.RemoveAll(m.dir(service, dir)), os.RemoveAll(filepath.Join(m.cfg.Dir, "logs", service, dir))); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(m.cfg.Dir, "slots", service)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if entries, rerr := os.ReadDir(filepath.Join(m.cfg.Dir, "slots", service)); rerr == nil && len(entries) > 0 {
			return nil // of another configuration
		}
		return err
	}
	return os.RemoveAll(filepath.Join(m.cfg.Dir, "logs", service))
}

// tidy removes directories that no slot knows.
func (m *Manager) tidy(saved map[string]supervise.Durable) error {
	known := map[string]bool{}
	for service, d := range saved {
		known[service] = true
		for _, p := range supervise.New(d, m.cfg.Rules).Places() {
			known[filepath.Join(service, p.Dir)] = true
		}
	}
	slots := filepath.Join(m.cfg.Dir, "slots")
	services, err := os.ReadDir(slots)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range services {
		dirs, derr := os.ReadDir(filepath.Join(slots, s.Name()))
		err = errors.Join(err, derr)
		for _, d := range dirs {
			if !known[filepath.Join(s.Name(), d.Name())] {
				err = errors.Join(err, os.RemoveAll(filepath.Join(slots, s.Name(), d.Name())), m.cfg.Groups.Leave(group(s.Name(), d.Name())))
			}
		}
		if !known[s.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(slots, s.Name())), os.RemoveAll(filepath.Join(m.cfg.Dir, "logs", s.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("tidy up: %w", err)
	}
	return nil
}
