package workloads

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

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
	// Limits says which constraints can be enforced, as the Text of limits.Capabilities; "": that is not known yet.
	Limits() string
}

// controlGroups are the kernel's. They are looked for when they are first needed.
type controlGroups struct {
	cfg    cgroup.Config
	once   sync.Once
	tree   *cgroup.Tree
	opened atomic.Bool
}

func newControlGroups(cfg Config) *controlGroups {
	return &controlGroups{cfg: cgroup.Config{Name: cgroup.NameOf(cfg.Dir), Group: cfg.Group, Stays: cfg.Service}}
}

func (g *controlGroups) open() *cgroup.Tree {
	g.once.Do(func() { g.tree = cgroup.Open(g.cfg); g.opened.Store(true) })
	return g.tree
}

// capabilities has the files that nothing obeys now: what was taken before is not refused for that, see Enter.
func (g *controlGroups) capabilities() limits.Capabilities {
	caps := g.open().Capabilities()
	caps.Idle = g.open().Idle()
	return caps
}

func (g *controlGroups) Check(constraints map[string]string, at string) []*wire.Error {
	return limits.Check(constraints, g.capabilities(), at)
}

// Limits looks for groups only in one that was given for that: elsewhere the agent would have to leave its own.
func (g *controlGroups) Limits() string {
	if g.cfg.Group == "" && !g.opened.Load() {
		return ""
	}
	return g.capabilities().Text()
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

// Usage is from the control group; where there is none that tells, from the main process and those children of it that
// have ended.
func (g *controlGroups) Usage(group string, pid int) wire.WorkloadProcess {
	used := wire.WorkloadProcess{PID: pid}
	if created, err := g.open().Group(group); err == nil {
		if s, err := created.Stats(); err == nil { // else there is no such group
			used.Processes, used.Memory, used.CPUMs = s.Processes, s.MemoryBytes, uint64(s.CPU.Milliseconds())
		}
	}
	memory, cpu := ofProcess(pid)
	used.Memory, used.CPUMs = cmp.Or(used.Memory, memory), cmp.Or(used.CPUMs, cpu)
	return used
}

// ofProcess reads /proc/PID/stat (proc_pid_stat(5)): bytes of resident memory, and milliseconds of processor time, its
// ended children's included; 0 if it cannot be read. The name in it is in parentheses and may have any character.
func ofProcess(pid int) (memory, cpu uint64) {
	const msPerTick = 1000 / 100 // USER_HZ is 100 on all that Go runs on
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if err != nil || len(f) < 22 {
		return 0, 0
	}
	number := func(field int) uint64 { // as the manual page numbers it
		n, err := strconv.ParseUint(f[field-3], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return number(24) * uint64(os.Getpagesize()), (number(14) + number(15) + number(16) + number(17)) * msPerTick
}

// keeper makes a client of the keeper's process when it is first needed.
type keeper struct {
	cfg keep.Config

	mu     sync.Mutex
	client *keep.Client
}

func newKeeper(cfg Config) *keeper {
	return &keeper{cfg: keep.Config{Dir: filepath.Join(cfg.Dir, keeperDir), Version: settings.Version,
		Env: []string{slot.EnvWorkloads + "=" + cfg.Group}, Log: cfg.Log.Named("keeper"),
		Users: cfg.Users, Loopback: cfg.Loopback, Served: !cfg.Users.None() && os.Geteuid() != 0}}
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
