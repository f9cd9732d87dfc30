package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tandem.internal/nodeagent/app"
	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/settings"
)

// launchConfig is the configuration of tandem-node launch.
type launchConfig struct {
	StateDir string `name:"state-dir" default:"/var/lib/tandem-node"`
}

// Help describes the settings.
func (*launchConfig) Help() map[string]string {
	return map[string]string{
		"state-dir": "state directory of the agent; the slots are in slots/ there. If the agent's flags name one, " +
			"that is the default; the agent is not told of this one",
	}
}

// Usage opens the help of tandem-node launch.
func (*launchConfig) Usage() string {
	return `Usage: tandem-node launch -- --state-dir DIR [flags of the agent]

Starts the agent from the slot that is to run: the good one, or one on trial while it has tries
left; where the agent's settings name publishers' keys, only what their owners have signed. It becomes
the agent, so the process stays the same; it restarts nothing. Without slots, or when no disk can be
written, it starts this very binary.
The agent finds TANDEM_SLOT, TANDEM_SLOT_DIR, TANDEM_SLOT_TRIAL, TANDEM_SLOT_TRIES,
TANDEM_SLOT_FACTORY, TANDEM_BOOT_REASON, TANDEM_BOOT_NOTE and TANDEM_BOOT_RESTARTS in its environment.

Example:
  tandem-node launch --state-dir /var/lib/tandem-node -- --config /etc/tandem/node.yaml
`
}

// launch becomes the agent. It returns only if nothing can be started.
//
// A signal may end it at any moment: every step leaves a disk that the next start goes on from. So no
// signal is held back, and none is lost on the way to the agent.
func launch(ctx context.Context, args []string, stdout, stderr io.Writer, fail func(int, error) int) int {
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	if ctx.Err() != nil {
		return exitOK
	}
	own, agentArgs := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		own, agentArgs = args[:i], args[i+1:]
	}
	cfg := launchConfig{}
	rest, err := settings.Load("tandem-node launch", &cfg, append(stateDirOf(agentArgs), own...), stateDirOnly, stdout)
	if errors.Is(err, settings.ErrPrinted) {
		return exitOK
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q; the agent's flags come after --", rest[0])
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	say := func(text string) { _, _ = fmt.Fprintf(stderr, "tandem-node launch: %s\n", text) } // nobody else to tell
	err = start(cfg.StateDir, agentArgs, say)
	// Not a slot in the world: this binary, without any.
	say(err.Error() + "; starting the installed binary without slots")
	return fail(exitError, become("", agentArgs, nil))
}

// start starts the slot that is to run, or the next one that can be; it returns only with an error.
func start(stateDir string, args []string, say func(string)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a mistake in the launcher: %v", r)
		}
	}()
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return err
	}
	var keys app.PublisherSetting
	err = settings.Some(&keys, args, os.LookupEnv)
	cfg := slot.Config{Dir: filepath.Join(dir, slot.Dir)}
	if err == nil {
		cfg.Publishers, err = keys.Read()
		cfg.Floor = keys.Floor
	}
	if cfg.Unread = err; err != nil {
		say(fmt.Sprintf("%v; no slot is tried, and those in force are not verified", err))
	}
	next := slot.Open(cfg).Starting()
	var why error
	for {
		l, err := next.Next(why)
		for _, note := range l.Notes {
			say(note)
		}
		if err != nil {
			return err
		}
		if l.Note != "" {
			say(l.Note)
		}
		why = become(l.Path, args, append(l.Env(), slot.EnvFactory+"="+settings.Version))
		say(fmt.Sprintf("slot %s: %v", l.Slot, why))
	}
}

// become replaces this process by a binary, the own one if path is empty. It returns only with an error.
func become(path string, args, add []string) error {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			if self, err = exec.LookPath(os.Args[0]); err != nil {
				return fmt.Errorf("the installed binary cannot be found: %w", err)
			}
		}
		path = self
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, slot.EnvSlot+"=") || strings.HasPrefix(v, slot.EnvSlot+"_") ||
			strings.HasPrefix(v, "TANDEM_BOOT_")
	})
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, append([]string{path}, args...), append(env, add...)))
}

// stateDirOf finds the state directory among the agent's flags, as a flag for the launcher.
func stateDirOf(args []string) []string {
	for i, a := range args {
		if strings.HasPrefix(a, "--state-dir=") {
			return []string{a}
		}
		if a == "--state-dir" && i+1 < len(args) {
			return []string{a, args[i+1]}
		}
	}
	return nil
}

// stateDirOnly is the environment of commands that share only the state directory with the agent.
func stateDirOnly(name string) (string, bool) {
	if name != "TANDEM_STATE_DIR" {
		return "", false
	}
	return os.LookupEnv(name)
}
