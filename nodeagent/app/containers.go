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
// node offers is known before it is told. It takes a tenth of a second.
const probeTime = 10 * time.Second

// containers finds out what runs containers on this node.
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
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	var err error
	if c.Runtime, err = a.deps.Probe(ctx, p); err != nil {
		c.Why = wire.Plain(err.Error(), wire.MaxText)
		a.log.Info("this node runs no containers", zap.Error(err))
		return c
	}
	a.cfg.contain = c.Runtime.Name
	a.log.Info("this node runs containers", zap.String("runtime", c.Runtime.Name),
		zap.String("version", c.Runtime.Version), zap.Bool("overlay", c.Runtime.Overlay))
	return c
}
