package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/settings"
)

// keepConfig is the configuration of tandem-node keep.
type keepConfig struct {
	Dir  string `name:"dir" default:"/var/lib/tandem-node/keeper"`
	Quit bool   `name:"quit"`
}

// Help describes the settings.
func (*keepConfig) Help() map[string]string {
	return map[string]string{
		"dir":  "the keeper's directory",
		"quit": "stop every workload process and end the keeper that runs, and wait for it",
	}
}

// Usage opens the help of tandem-node keep.
func (*keepConfig) Usage() string {
	return `Usage: tandem-node keep --dir DIR [--quit]

The keeper: the parent of this node's workload processes, which outlive the agent in it. The agent
starts it; nobody else has to. With --quit, the one that runs is ended, with everything that it keeps:
before the node is taken out of service, say.

Example:
  tandem-node keep --dir /var/lib/tandem-node/keeper --quit
`
}

// keeper is the keeper, or ends it.
func keeper(ctx context.Context, args []string, stdout io.Writer, fail func(int, error) int) int {
	var cfg keepConfig
	rest, err := settings.Load("tandem-node keep", &cfg, args, func(string) (string, bool) { return "", false }, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil {
		err = settings.Unexpected(rest, nil)
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	if cfg.Quit {
		err = quitKeeper(ctx, cfg.Dir)
	} else {
		err = keepRuns(ctx, cfg.Dir)
	}
	if err != nil {
		return fail(exitError, err)
	}
	return exitOK
}

func quitKeeper(ctx context.Context, dir string) error {
	k, err := keep.Dial(ctx, dir)
	if errors.Is(err, keep.ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	return k.Quit(ctx, true)
}

func keepRuns(ctx context.Context, dir string) error {
	limitKeeperMemory()
	defer unmapUnused(keeperUnmaps)()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return keep.Serve(ctx, keep.Serving{Dir: dir, Version: settings.Version, Ready: keep.Ready(),
		Last: func() error {
			return cgroup.Discard(cgroup.Config{Group: os.Getenv(slot.EnvWorkloads),
				Name: cgroup.NameOf(filepath.Dir(dir))})
		}})
}

// limitKeeperMemory is limitMemory for a process that needs less. What it does takes no second processor.
func limitKeeperMemory() {
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(8 << 20)
	runtime.GOMAXPROCS(1)
}
