// Package cli is the program tandem-node: the agent, the launcher, the keeper, and the commands at the node. There are
// two mains of it, one that has BitTorrent (shared/docs/adr/041-bittorrent-in-a-module-of-its-own.md).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/app"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/fetch"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/owner"
	"tandem.internal/shared/settings"
	"tandem.internal/shared/wire"
)

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1 // the agent cannot run or go on
	exitUsage = 2
)

// commands are the words that may stand in the place of the agent's flags.
var commands = []string{"join", "trust", "launch", "keep", "slot", "alerts", "version", "help"}

// Main is the main function of tandem-node.
func Main(with Extras) {
	container.Stage()
	settings.Main(program{with}.run)
}

// Extras are what its mains differ in.
type Extras struct {
	Torrents  fetch.NewTorrents // makes BitTorrent; nil: this one has none
	Decrypter fetch.NewDecrypt  // makes what opens files that age has encrypted; nil: this one opens none
}

type program struct{ Extras }

func (p program) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(status int, err error) int {
		if _, werr := fmt.Fprintf(stderr, "tandem-node: %v\n", err); werr != nil {
			return exitError
		}
		return status
	}
	// Why an agent of the launcher's ends at once is kept: the next start, perhaps of another version, tells it.
	end := func(status int, why string, err error) int {
		if dir := os.Getenv(slot.EnvDir); dir != "" {
			if _, kerr := slot.Open(slot.Config{Dir: dir}).Failing(wire.BootFatal, why); kerr != nil {
				err = errors.Join(err, fmt.Errorf("and this reason cannot be kept: %w", kerr))
			}
		}
		return fail(status, err)
	}
	brought := app.ReadBrought()
	const unclear = "the agent does not understand its settings; its output says which" // and may show a secret
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		word, more := args[0], args[1:]
		switch word {
		case "join":
			return join(ctx, more, stdout, fail)
		case "trust":
			return trust(more, stdout, fail)
		case "launch":
			return launch(ctx, more, stdout, stderr, fail)
		case "keep":
			return keeper(ctx, more, stdout, fail)
		case "slot":
			return slotCommand(ctx, more, stdout, fail)
		case "alerts":
			return alerts(ctx, more, stdout, stderr, fail)
		case "version", "help":
			args = []string{"--" + word}
		default:
			return end(exitUsage, unclear, settings.Unexpected(args, commands))
		}
	}
	var cfg app.Config
	rest, err := brought.Load(&cfg, args, os.LookupEnv, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil {
		err = settings.Unexpected(rest, nil)
	}
	if err != nil {
		return end(exitUsage, unclear, err)
	}
	log, level, err := settings.Logger(cfg.LogLevel, false)
	if err != nil {
		return end(exitUsage, unclear, err)
	}
	limitMemory()
	agent, err := app.New(cfg, app.Deps{Log: log, Level: level, LookupEnv: os.LookupEnv, PID: os.Getpid(),
		Torrents: p.Torrents, Decrypter: p.Decrypter, Probe: container.Probe})
	if err != nil {
		var usage *app.UsageError
		if errors.As(err, &usage) {
			return end(exitUsage, err.Error(), err)
		}
		return end(exitError, err.Error(), err)
	}
	defer unmapUnused(agentUnmaps)()
	if err := agent.Run(ctx); err != nil {
		log.Error("node agent failed", zap.Error(err))
		return exitError
	}
	return exitOK
}

// join makes the node part of a unit.
func join(ctx context.Context, args []string, stdout io.Writer, fail func(int, error) int) int {
	var cfg app.JoinConfig
	rest, err := settings.Load("tandem-node join", &cfg, args, os.LookupEnv, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("join takes no argument besides flags, and one is given; --help shows the usage")
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	if err := becomeOwner(cfg.StateDir, app.IdentityDir); err != nil {
		return fail(exitError, err)
	}
	j, err := app.Join(ctx, cfg, app.JoinDeps{In: os.Stdin})
	if usage := (*app.UsageError)(nil); errors.As(err, &usage) {
		return fail(exitUsage, err)
	}
	if err != nil {
		return fail(exitError, err)
	}
	if _, err := fmt.Fprintf(stdout,
		"this is now node %s of unit %s; its certificate counts until %s and renews itself (kept in %s)\n",
		j.Node, j.Unit, j.Expires.Format(time.DateOnly), j.Dir); err != nil {
		return fail(exitError, err)
	}
	return exitOK
}

// trust shows whom the node believes, or makes it forget.
func trust(args []string, stdout io.Writer, fail func(int, error) int) int {
	var cfg app.TrustConfig
	rest, err := settings.Load("tandem-node trust", &cfg, args, os.LookupEnv, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil {
		err = settings.Unexpected(rest, nil)
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	if err := becomeOwner(cfg.StateDir); err != nil {
		return fail(exitError, err)
	}
	b, err := app.Trusted(cfg)
	if usage := (*app.UsageError)(nil); errors.As(err, &usage) {
		return fail(exitUsage, err)
	}
	if err != nil {
		return fail(exitError, err)
	}
	text := fmt.Sprintf(
		"node %s of unit %s believes no key yet: the first controller that it hears, unless it has joined or is given "+
			"--unit-key\n", b.Node, b.Unit)
	if len(b.Keys) > 0 {
		text = fmt.Sprintf("node %s of unit %s believes, as of list %d: %s\n", b.Node, b.Unit, b.Rev,
			strings.Join(b.Keys, ", "))
	}
	if b.Provided != "" {
		text += fmt.Sprintf("the list descends from the key %s, which was given by --unit-key\n", b.Provided)
	}
	if cfg.Reset {
		text += "these keys are forgotten\n"
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return fail(exitError, err)
	}
	return exitOK
}

// becomeOwner has a command of root's be one of the user who owns the state directory, if that is there.
func becomeOwner(stateDir string, parts ...string) error {
	err := owner.Become(stateDir, parts...)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // what is not there, the command says in its own words
	}
	return fmt.Errorf("state directory: %w", err)
}
