package workloads

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// fresh is what a link is called until it takes its name: no resource can be called so.
const fresh = `.tandem\link`

// link makes the directory of a configuration: a symbolic link to each resource, by its name (seed 004,
// название_ресурса). Of one that is there it changes the links, each at once, and leaves the rest: what a
// process has made there is its own. Nothing is done while a resource is missing.
func (m *Manager) link(dir string, c workload.Config) *wire.Error {
	paths, stores := map[string]string{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		r := m.cfg.Resources.Look(c.Resources[name])
		if r.State != "" {
			return wire.New(wire.CodeUnavailable, "/resources/"+name,
				"the resource is not on the node any more; it is fetched again")
		}
		paths[name], stores[filepath.Dir(r.Path)] = r.Path, true
	}
	if err := makeDir(dir); err != nil {
		return storage(err)
	}
	if err := os.Remove(filepath.Join(dir, fresh)); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crash
		return storage(err)
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		if leadsTo(dir, name) != paths[name] {
			if err := relink(dir, name, paths[name]); err != nil {
				return storage(err)
			}
		}
	}
	if err := unlink(dir, func(name, target string) bool { // to a resource, which it has no more
		return paths[name] == "" && stores[filepath.Dir(target)]
	}); err != nil {
		return storage(err)
	}
	return storage(durable.SettleDir(dir))
}

// setRight has the links of a configuration lead to its resources, which are at paths, should what runs there, and may
// change its directory, have led them elsewhere: else that would be started in their place. A dynamic resource may be
// another one by now, but not a file that did not come from the store. What is not on the node keeps its link.
func (m *Manager) setRight(dir string, c workload.Config, paths map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		path, is := paths[name], leadsTo(dir, name)
		if is == path || c.Resources[name].Class == workload.DynamicResource && filepath.Dir(is) == filepath.Dir(path) {
			continue
		}
		err := os.Remove(filepath.Join(dir, fresh))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err = errors.Join(err, relink(dir, name, path)); err != nil {
			return err
		}
		m.cfg.Log.Warn("a link of a slot led elsewhere than to its resource, and is set right",
			zap.String("slot", c.Slot.String()), zap.String("resource", name))
	}
	return nil
}

// leadsTo is what a symbolic link leads to; "": there is none.
func leadsTo(dir, name string) string {
	target, err := os.Readlink(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return target
}

// someNames is how many names of a directory are held at a time: what runs there may have made any number.
const someNames = 1024

// unlink removes the symbolic links of a directory for which gone says so.
func unlink(dir string, gone func(name, target string) bool) (err error) {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for {
		entries, err := f.ReadDir(someNames)
		for _, e := range entries {
			if e.Type()&fs.ModeSymlink == 0 || !gone(e.Name(), leadsTo(dir, e.Name())) {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// makeDir makes a directory and those above it, so that a power cut leaves them.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		return makeDir(dir) // which another slot may have made meanwhile
	case err != nil:
		return err
	}
	return durable.SettleDir(filepath.Dir(dir))
}

func relink(dir, name, target string) error {
	path := filepath.Join(dir, fresh)
	if err := os.Symlink(target, path); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(dir, name))
}

// discard removes what is on the node of a configuration: its control group and its directory. The group comes first:
// it cannot go while a process is in it.
func (m *Manager) discard(service, dir string) error {
	if err := m.cfg.Groups.Leave(group(service, dir)); err != nil {
		return err
	}
	// agents before this one kept logs of hooks there
	return errors.Join(m.removeAll(m.dir(service, dir)), os.RemoveAll(filepath.Join(m.cfg.Dir, "logs", service, dir)))
}

// removeAll removes a directory of a slot. What the slot's own user has made there, the keeper may remove.
func (m *Manager) removeAll(dir string) error {
	err := keep.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	k, kerr := m.cfg.Keeper(m.work)
	if kerr == nil {
		kerr = k.Clear(m.work, dir)
	}
	if kerr != nil {
		return errors.Join(err, kerr)
	}
	return nil
}

// remove discards a configuration, and with the last one of a slot the slot's directories.
func (m *Manager) remove(service, dir string) error {
	if err := m.discard(service, dir); err != nil {
		return err
	}
	if err := os.Remove(m.dir(service, "")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if entries, rerr := os.ReadDir(m.dir(service, "")); rerr == nil && len(entries) > 0 {
			return nil // of another configuration
		}
		return err
	}
	return os.RemoveAll(filepath.Join(m.cfg.Dir, "logs", service))
}

// tidy has removed what no slot knows. Until that is gone, nothing is made for a new slot of the same name.
func (m *Manager) tidy(saved map[string]supervise.Durable) {
	known := map[string]bool{}
	for service, d := range saved {
		known[service] = true
		for _, p := range supervise.New(d, m.cfg.Rules).Places() {
			known[service+"/"+p.Dir] = true
		}
	}
	left := map[string][]string{} // directories by service
	for _, root := range []string{"slots", "logs"} {
		for _, s := range m.entries(root) {
			service := s.Name()
			if !known[service] {
				left[service] = append(left[service], "")
			}
			if !s.IsDir() {
				continue
			}
			for _, d := range m.entries(filepath.Join(root, service)) {
				if d.IsDir() && !known[service+"/"+d.Name()] && !slices.Contains(left[service], d.Name()) {
					left[service] = append(left[service], d.Name())
				}
			}
		}
	}
	for service, dirs := range left {
		whole := !known[service]
		m.stale[service] = whole
		m.workers.Go(func() { m.clear(service, dirs, whole) })
	}
}

// entries are what is in one of the directories of slots.
func (m *Manager) entries(dir string) []os.DirEntry {
	all, err := os.ReadDir(filepath.Join(m.cfg.Dir, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.cfg.Log.Warn("what is left of slots that are no more cannot be found", zap.Error(err))
	}
	return all
}

// clear removes what is left of a slot, some directories or the whole of it, as soon as that can be.
func (m *Manager) clear(service string, dirs []string, whole bool) {
	for warned := false; ; m.pause(tidyAgain) {
		var err error
		if !m.do(func() {
			for _, d := range dirs {
				if d != "" {
					err = errors.Join(err, m.discard(service, d))
				}
			}
			if err == nil && whole {
				err = errors.Join(m.removeAll(m.dir(service, "")),
					os.RemoveAll(filepath.Join(m.cfg.Dir, "logs", service)))
			}
		}) {
			return
		}
		if err == nil {
			m.call(func() { delete(m.stale, service) })
			return
		}
		if !warned {
			warned = true
			m.cfg.Log.Warn("what is left of a slot cannot be removed; it is tried again", zap.Error(err))
		}
	}
}
