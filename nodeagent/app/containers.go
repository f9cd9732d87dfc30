package app

import (
	"context"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/kinds/workloads"
	"tandem.internal/shared/wire"
)

// What --container-runtime says beside a path.
const (
	autoRuntime = "auto"
	noRuntime   = "none"
)

// probeTime bounds the probe of a container runtime, which the agent's start waits for where one is installed: what the
// node offers is known before it is told. It takes a tenth of a second; one that is too slow is removed after it, for
// seconds. Later looks have more time: nobody waits.
const probeTime = 10 * time.Second

// containers finds out what runs containers on this node, and says how to look again.
func (a *Agent) containers(dir string) (c workloads.Containers) {
	c.Dir = filepath.Join(dir, "containers")
	switch {
	case a.deps.Probe == nil || !a.cfg.Workloads:
		return c
	case a.cfg.ContainerRuntime == noRuntime:
		c.Why = "--container-runtime=none"
		return c
	case a.cfg.WorkloadUsers != "":
		c.Why = "each workload slot has a user of its own (--workload-users)"
		return c
	}
	p := container.Probing{Dir: filepath.Join(dir, "probe")}
	if a.cfg.ContainerRuntime != autoRuntime {
		p.Path = a.cfg.ContainerRuntime
	}
	c.Look = func(ctx context.Context) (container.Runtime, error) { return a.deps.Probe(ctx, p) }
	c.Found = func(rt container.Runtime) {
		a.contains(rt)
		if a.session != 0 {
			a.refreshInfo()
			a.send(&a.info)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	var err error
	if c.Runtime, err = c.Look(ctx); err != nil {
		c.Runtime, c.Why = container.Runtime{}, wire.Plain(err.Error(), wire.MaxText)
		a.log.Info("this node runs no containers; a runtime is looked for again", zap.Error(err))
		return c
	}
	a.contains(c.Runtime)
	return c
}

// contains takes note of what runs containers; the zero Runtime: nothing does yet.
func (a *Agent) contains(rt container.Runtime) {
	if a.cfg.contain = rt.Name; rt.Name == "" {
		return
	}
	a.log.Info("this node runs containers", zap.String("runtime", rt.Name), zap.String("version", rt.Version),
		zap.Bool("overlay", rt.Overlay))
}
