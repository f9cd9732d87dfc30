package workloads

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/limits"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// Groups has the control groups of workloads, and knows what they can do.
type Groups interface {
	workloads.Groups
	// Check says what is wrong with constraints here; at is their place in the document.
	Check(constraints map[string]string, at string) []*wire.Error
}

// controlGroups are the kernel's. They are looked for when they are first needed.
type controlGroups struct {
	cfg  cgroup.Config
	once sync.Once
	tree *cgroup.Tree
}

func newControlGroups(cfg Config) *controlGroups {
	return &controlGroups{cfg: cgroup.Config{Name: cgroup.NameOf(cfg.Dir), Group: cfg.Group, Stays: cfg.Service}}
}

func (g *controlGroups) open() *cgroup.Tree {
	g.once.Do(func() { g.tree = cgroup.Open(g.cfg) })
	return g.tree
}

func (g *controlGroups) Check(constraints map[string]string, at string) []*wire.Error {
	caps := g.open().Capabilities()
	caps.Idle = g.open().Idle() // what was taken before is not refused for that, see Enter
	return limits.Check(constraints, caps, at)
}

func (g *controlGroups) Enter(group, run string, constraints map[string]string) ([]string, error) {
	tree := g.open()
	set, errs := limits.Map(constraints, tree.Capabilities(), "")
	if len(errs) > 0 {
		return nil, errs[0]
	}
	enter := func() ([]string, error) {
		created, err := tree.Create(group, set)
		if err != nil {
			return nil, err
		}
		return created.Leaf(run)
	}
	dirs, err := enter()
	if errors.Is(err, fs.ErrNotExist) { // a keeper that ends has just taken all groups away
		return enter()
	}
	return dirs, err
}

func (g *controlGroups) Leave(group string) error {
	created, err := g.open().Group(group)
	if err != nil {
		return err
	}
	return created.Remove()
}

// keeper makes a client of the keeper's process when it is first needed.
type keeper struct {
	cfg keep.Config

	mu     sync.Mutex
	client *keep.Client
}

func newKeeper(cfg Config) *keeper {
	return &keeper{cfg: keep.Config{Dir: filepath.Join(cfg.Dir, keeperDir), Version: settings.Version,
		Env: []string{slot.EnvWorkloads + "=" + cfg.Group}, Log: cfg.Log.Named("keeper")}}
}

func (k *keeper) get(ctx context.Context) (workloads.Keeper, error) {
	k.mu.Lock()
	client := k.client
	k.mu.Unlock()
	if client != nil {
		return client, nil
	}
	client, err := keep.Ensure(ctx, k.cfg) // of several at a time one keeper comes out
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.client = client
	k.mu.Unlock()
	return client, nil
}
