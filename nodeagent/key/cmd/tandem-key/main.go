// Command tandem-key holds a node's private key as another user than the agent's; see tandem-key --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/key"
	"tandem.internal/nodeagent/key/internal/tpm"
	"tandem.internal/shared/settings"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1 // it cannot start, or has failed
	exitUsage = 2
)

// config is the configuration, as package settings reads it.
type config struct {
	Socket   string `name:"socket" default:"/run/tandem-key/socket"`
	Dir      string `name:"dir" default:"/var/lib/tandem-key"`
	TPM      string `name:"tpm"`
	Agent    string `name:"agent" default:"tandem-node"`
	Group    string `name:"refuse-group"`
	LogLevel string `name:"log-level" default:"info"`
}

// Help describes the settings.
func (*config) Help() map[string]string {
	return map[string]string{
		"socket": "unix socket to listen on; the agent and tandem-node join get --key unix:/PATH",
		"dir":    "directory of the keys, mode 0700; made if missing",
		"tpm": "TPM 2.0 that makes and uses the keys, /dev/tpmrm0, or unix:/PATH for an emulator: what is in the " +
			"directory is worth nothing without it; empty: the keys are in the directory",
		"agent": "user of the agent, a name or a number: its processes are answered, but none that it has started",
		"refuse-group": "control group, as /proc/PID/cgroup names groups (cgroup v2), in which nobody is answered: " +
			"that of the workloads",
		"log-level": "debug, info, warn or error",
	}
}

// Usage is the beginning of the help.
func (*config) Usage() string {
	return `Usage: tandem-key [flags]

Holds the private key of this node as another user than the agent's, and signs for the agent: TLS
handshakes and requests for certificates, nothing else. So whoever reads the agent's directory, or
a program that it runs, does not have the key.

Example:
  runuser -u tandem-key -- tandem-key --socket /run/tandem-key/socket --dir /var/lib/tandem-key
`
}

func main() { settings.Main(run) }

// run serves until ctx ends and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(status int, err error) int {
		if _, werr := fmt.Fprintf(stderr, "tandem-key: %v\n", err); werr != nil {
			return exitError
		}
		return status
	}
	var cfg config
	rest, err := settings.Load("tandem-key", &cfg, args, os.LookupEnv, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil {
		err = settings.Unexpected(rest, nil)
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	uid, err := cfg.check(os.Getuid())
	if err != nil {
		return fail(exitUsage, err)
	}
	log, _, err := settings.Logger(cfg.LogLevel, false)
	if err != nil {
		return fail(exitUsage, err)
	}
	if err := serve(ctx, &cfg, uid, log); err != nil {
		return fail(exitError, err)
	}
	return exitOK
}

// serve runs the program until ctx ends.
func serve(ctx context.Context, cfg *config, uid int, log *zap.Logger) error {
	c := key.Config{Socket: cfg.Socket, Dir: cfg.Dir, Guard: key.AgentOnly(uid, cfg.Group), Log: log}
	if cfg.TPM != "" {
		chip, err := tpm.Open(cfg.TPM)
		if err != nil {
			return err
		}
		c.Chip = chip
		return errors.Join(key.Serve(ctx, c, nil), chip.Close())
	}
	return key.Serve(ctx, c, nil)
}

// check checks the settings and returns the agent's user; own is this program's.
func (c *config) check(own int) (uid int, err error) {
	for name, path := range map[string]string{"socket": c.Socket, "dir": c.Dir} {
		if !filepath.IsAbs(path) {
			return 0, fmt.Errorf("--%s: %q is not absolute", name, path)
		}
	}
	if c.Group != "" && c.Group[0] != '/' {
		return 0, fmt.Errorf("--refuse-group: %q does not name a control group as /proc/PID/cgroup does", c.Group)
	}
	if uid, err = strconv.Atoi(c.Agent); err != nil {
		u, err := user.Lookup(c.Agent)
		if err != nil {
			return 0, fmt.Errorf("--agent: %w", err)
		}
		if uid, err = strconv.Atoi(u.Uid); err != nil {
			return 0, fmt.Errorf("--agent: %w", err)
		}
	}
	switch uid {
	case 0:
		return 0, errors.New("--agent: an agent that is root could read every key")
	case own:
		return 0, errors.New("--agent: that is this program's own user, which has to be another")
	}
	return uid, nil
}
