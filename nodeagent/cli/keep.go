package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/owner"
	"tandem.internal/shared/settings"
)

// keepConfig is the configuration of tandem-node keep.
type keepConfig struct {
	Dir   string `name:"dir" default:"/var/lib/tandem-node/keeper"`
	Quit  bool   `name:"quit"`
	Users string `name:"users"`
	User  string `name:"user"`
	Ports string `name:"loopback"`
}

// Help describes the settings.
func (*keepConfig) Help() map[string]string {
	return map[string]string{
		"dir":  "the keeper's directory",
		"quit": "stop every workload process and end the keeper that runs, and wait for it",
		"users": "FIRST-LAST: numbers of users that slots get, each its own (hooks.md, A user for each slot); only " +
			"root can start such a keeper",
		"user": "the agent's user, or UID:GID, with --users; none: root",
		"loopback": "with --users: ports of this machine's loopback addresses to which slots may connect, divided by " +
			"commas, or all; none: they cannot",
	}
}

// Usage opens the help of tandem-node keep.
func (*keepConfig) Usage() string {
	return `Usage: tandem-node keep --dir DIR --quit
       tandem-node keep --dir DIR --users FIRST-LAST --user USER [--loopback PORTS]

The keeper: the parent of this node's workload processes, which outlive the agent in it. The agent
starts it; one that gives slots users of their own (--users) root starts before an agent that is not root,
as tandem-keeper.service does. With --quit, the one that runs is ended, with everything that it keeps.

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
		err = keepRuns(ctx, cfg)
	}
	if err != nil {
		return fail(exitError, err)
	}
	return exitOK
}

func quitKeeper(ctx context.Context, dir string) error {
	// A keeper with users for slots does not know root.
	if err := owner.Become(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	k, err := keep.Dial(ctx, dir)
	if errors.Is(err, keep.ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	return k.Quit(ctx, true)
}

// noIdle is for a keeper that a service manager has started, and would start again.
const noIdle = 100 * 365 * 24 * time.Hour

func keepRuns(ctx context.Context, cfg keepConfig) error {
	limitKeeperMemory()
	defer unmapUnused(keeperUnmaps)()
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return err
	}
	users, err := keep.ParseUsers(cfg.Users)
	if err != nil {
		return fmt.Errorf("--users: %w", err)
	}
	serving := keep.Serving{Dir: dir, Version: settings.Version, Ready: keep.Ready(), Users: users,
		Last: func() error {
			return cgroup.Discard(cgroup.Config{Group: os.Getenv(slot.EnvWorkloads),
				Name: cgroup.NameOf(filepath.Dir(dir))})
		}}
	if !users.None() && serving.Ready == nil {
		serving.Idle = noIdle
	}
	if !users.None() && !keep.IsBound() {
		return bind(ctx, cfg, users, serving)
	}
	return keep.Serve(ctx, serving)
}

// bind has the keeper run where the kernel bounds which users it can become.
func bind(ctx context.Context, cfg keepConfig, users keep.Users, serving keep.Serving) error {
	fail := func(err error) error {
		if serving.Ready != nil { // who started it hears why
			_, werr := fmt.Fprintln(serving.Ready, err)
			err = errors.Join(err, werr, serving.Ready.Close())
		}
		return err
	}
	ports, all, err := keep.Loopback(cfg.Ports).Ports()
	if err != nil {
		return fail(fmt.Errorf("--loopback: %w", err))
	}
	uid, gid, err := ids(cfg.User)
	if err == nil {
		err = users.Overlap()
	}
	if err == nil && (users.Has(uid) || users.Has(gid)) {
		err = fmt.Errorf("--users %s: the agent's user is one of them", users)
	}
	if err != nil {
		return fail(err)
	}
	return keep.Bound{Args: []string{"keep", "--dir", serving.Dir, "--users", users.String()}, Dir: serving.Dir,
		Env: os.Environ(), UID: uid, GID: gid, Users: users, Ports: ports, Open: all, Note: func(text string) {
			fmt.Fprintln(os.Stderr, text)
		}, Ready: serving.Ready}.Run(ctx)
}

// ids are the numbers of a user and of its group: of UID:GID, or of a name in passwd(5); of "" those of this process.
func ids(name string) (uid, gid uint32, err error) {
	if name == "" {
		return uint32(os.Geteuid()), uint32(os.Getegid()), nil
	}
	numbers := strings.Split(name, ":")
	if len(numbers) != 2 {
		data, err := os.ReadFile("/etc/passwd")
		if err != nil {
			return 0, 0, fmt.Errorf("--user: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Split(line, ":"); f[0] == name && len(f) > 3 {
				numbers = f[2:4]
			}
		}
	}
	if len(numbers) != 2 {
		return 0, 0, fmt.Errorf("--user: there is no user %.40q", name)
	}
	a, aerr := strconv.ParseUint(numbers[0], 10, 32)
	b, berr := strconv.ParseUint(numbers[1], 10, 32)
	if err := errors.Join(aerr, berr); err != nil {
		return 0, 0, fmt.Errorf("--user %.40q: %w", name, err)
	}
	return uint32(a), uint32(b), nil
}

// limitKeeperMemory is limitMemory for a process that needs less. What it does takes no second processor.
func limitKeeperMemory() {
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(8 << 20)
	runtime.GOMAXPROCS(1)
}
