package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/durable"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// Containers are what runs are made of that are containers, by the IDs of the runs; see container.Home. Its methods are
// for any goroutine.
type Containers interface {
	Prepare(ctx context.Context, id string, s container.Spec) (args []string, err error)
	Delete(ctx context.Context, id string) error
	List() (ids []string, err error)
	Lacks(runtime string) string // why none can be made by it now; "": some can
}

// lacks says why a configuration is not put in force or started now, for want of a container runtime: what runs goes
// on until then.
func (m *Manager) lacks(c workload.Config) *wire.Error {
	if m.cfg.Containers == nil || !c.Contained() {
		return nil
	}
	if why := m.cfg.Containers.Lacks(c.Container.Runtime); why != "" {
		return wire.New(wire.CodeNotSupported, "/container/runtime", wire.Plain(why, wire.MaxText))
	}
	return nil
}

// Connects says why a container cannot have the network that it asks for, where this level is demanded.
func Connects(c *workload.Config, least confine.Level) *wire.Error {
	if c.Container.Network == "" || !least.Has(confine.Net) && !least.AtLeast(confine.Landlock) {
		return nil
	}
	return wire.New(wire.CodeNotAllowed, "/container/network", "what this node runs cannot connect to what "+
		"listens on it (--confine "+string(least)+"), and with the node's network it could")
}

// Look has the manager look at what may have changed without its doing.
func (m *Manager) Look() { m.call(func() { m.changed = true }) }

// contain makes a run that of a container, of resources that are at paths. Its control groups are made.
func (m *Manager) contain(run *keep.Run, c workload.Config, paths map[string]string) error {
	if m.cfg.Containers == nil {
		return errors.New("this node has no container runtime any more")
	}
	if err := Connects(&c, m.cfg.Confine.Least); err != nil { // the set may be of before the level
		return errors.New(err.Message)
	}
	spec, err := m.spec(c, paths)
	if err != nil {
		return err
	}
	spec.Env = append(spec.Env, run.Env...) // of two of a name the last counts
	spec.Group = container.Group(run.Cgroups, run.ID)
	args, err := m.cfg.Containers.Prepare(m.work, run.ID, spec)
	if errors.Is(err, container.ErrExists) { // of an attempt that the keeper has not heard of
		if err = m.cfg.Containers.Delete(m.work, run.ID); err == nil {
			args, err = m.cfg.Containers.Prepare(m.work, run.ID, spec)
		}
	}
	if err != nil {
		return err
	}
	run.Argv, run.Env, run.Dir = append([]string{keep.Program}, args...), nil, "/"
	run.Contain, run.StopSignal, run.Confine = true, spec.StopSignal, nil
	return nil
}

// spec is what a container is made of by its configuration, whose start hook is the file of its image. Layers of items
// lie below those of the image. Where signatures are demanded, the file says which layers may be there, and which
// variables others may set: interpreters and loaders obey some, and run what is below an image.
func (m *Manager) spec(c workload.Config, paths map[string]string) (s container.Spec, err error) {
	data, err := durable.ReadFile(paths[workload.HookStart], workload.MaxImage)
	if err != nil {
		return s, fmt.Errorf("the configuration of its image: %w", err)
	}
	image, err := workload.DecodeImage(data)
	if err != nil {
		return s, fmt.Errorf("the configuration of its image: %w", err)
	}
	trees := map[string]string{} // by diff ID
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		a := c.Resources[name]
		if a.Unpack == nil {
			continue
		}
		path := paths[name]
		trees[a.Unpack.DiffID] = path
		named := slices.Contains(image.Layers, a.Unpack.DiffID)
		if m.cfg.Signed && !named {
			return s, fmt.Errorf("the layer %.64q is none that its signed configuration names, and this node runs "+
				"only what a publisher has signed", name)
		}
		if !named && !strings.HasPrefix(name, workload.LayerPrefix) {
			s.Layers = append(s.Layers, path)
		}
	}
	for _, name := range setVariables(c) {
		if m.cfg.Signed && !slices.Contains(image.Variables, name) {
			return s, fmt.Errorf("the variable %.64q is none that its signed configuration lets others set, and "+
				"this node runs only what a publisher has signed", name)
		}
	}
	for _, id := range image.Layers {
		if trees[id] == "" {
			return s, fmt.Errorf("its image has the layer %s, which is not among its resources", id)
		}
		s.Layers = append(s.Layers, trees[id])
	}
	s.Args, s.Env, s.Dir, s.UID, s.GID = image.Args, image.Env, image.Dir, image.UID, image.GID
	s.HostNetwork = c.Container.Network == workload.NodeNetwork
	s.StopSignal = stopSignal(image.StopSignal)
	return s, nil
}

// stopSignal is one of workload.StopSignals here; 0: none.
func stopSignal(name string) int {
	const firstRealTime = 34 // as C libraries count
	if name == "SIGRTMIN+3" {
		return firstRealTime + 3
	}
	for sig, known := range signals {
		if known == name {
			return int(sig)
		}
	}
	return 0
}

// uncontain removes what is left of the container of a run, if it was one.
func (m *Manager) uncontain(id string) error {
	if m.cfg.Containers == nil {
		return nil
	}
	return m.cfg.Containers.Delete(m.work, id)
}

// sweep removes the containers of runs that no slot has.
func (m *Manager) sweep(saved map[string]supervise.Durable) {
	if m.cfg.Containers == nil {
		return
	}
	all, err := m.cfg.Containers.List()
	known := map[string]bool{}
	for _, d := range saved {
		s := supervise.New(d, m.cfg.Rules)
		for _, id := range s.RunIDs() {
			known[id] = true
		}
	}
	m.workers.Go(func() {
		for _, id := range all {
			if !known[id] && m.work.Err() == nil {
				err = cmp.Or(err, m.cfg.Containers.Delete(m.work, id))
			}
		}
		if err != nil && m.work.Err() == nil {
			m.cfg.Log.Warn("what is left of containers cannot be removed", zap.Error(err))
		}
	})
}
