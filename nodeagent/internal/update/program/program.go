// Package program drives a part of the node that is updated in two sides by a program of its own:
// a base OS, an application. It owns the contract with that program: verbs, environment, exit status,
// status line, time limits (shared/docs/slots.md).
//
// It guarantees that a verb ends within its time limit, with everything in its process group killed
// otherwise, and that "done" is believed only if the status says so, too. It runs one verb when it is
// told to. Which verb is due, and that a verb is repeated after a crash, package update decides; package disk
// keeps what it has to remember, and the file that is to be installed.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/nodeagent/internal/update"
)

// Limits are the time limits of the verbs, unless a Component has others.
var Limits = map[update.Verb]time.Duration{
	update.Install: 30 * time.Minute, update.Activate: 5 * time.Minute, update.Verify: time.Minute,
	update.Commit: time.Minute, update.Rollback: 5 * time.Minute, update.Show: 20 * time.Second,
}

// ExitLater is the exit status of a verb that cannot be done now, but may be later (EX_TEMPFAIL).
const ExitLater = 75

// Component is one part of the node. Its fields are set once.
type Component struct {
	Name    string
	Command []string // the verb is added as the last argument
	Dir     string   // where the program may keep its own state; it exists
	Limits  map[update.Verb]time.Duration
}

// maxLine bounds the status line, and maxTail what an error shows of the program's output, in bytes.
const (
	maxLine = 4096
	maxTail = 600
)

// Run runs one verb and returns what the program says there is now. The error is update.ErrLater, update.ErrTimeout,
// update.ErrFailed, or the context's when ctx ended before the verb did.
func (c Component) Run(ctx context.Context, verb update.Verb, job update.Job) (update.Status, error) {
	limit := c.Limits[verb]
	if limit == 0 {
		limit = Limits[verb]
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, errs := &tail{limit: maxLine}, &tail{limit: maxTail}
	err := c.execute(limited, verb, job, limit, out, errs)
	fail := func(format string, a ...any) error {
		return fmt.Errorf("component %s: %s: %w%s", c.Name, verb, fmt.Errorf(format, a...), errs.text())
	}
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return update.Status{}, fmt.Errorf("component %s: %s: %w", c.Name, verb, ctx.Err())
	case limited.Err() != nil:
		return update.Status{}, fail("it did not end within %v: %w", limit, update.ErrTimeout)
	case errors.As(err, &exit) && exit.ExitCode() == ExitLater:
		return update.Status{}, fail("%w", update.ErrLater)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return update.Status{}, fail("%w: it cannot be started: %w", update.ErrLater, err)
	default:
		return update.Status{}, fail("%w: %w", update.ErrFailed, err)
	}
	st, err := parse(out.bytes())
	if err == nil {
		err = contradicts(st, verb, job.Version)
	}
	if err != nil {
		return update.Status{}, fail("%w: %w", update.ErrFailed, err)
	}
	return st, nil
}

func (c Component) execute(ctx context.Context, verb update.Verb, job update.Job, limit time.Duration,
	out, errs *tail) error {
	if len(c.Command) == 0 {
		return errors.New("no command")
	}
	cmd := exec.CommandContext(ctx, c.Command[0], append(slices.Clone(c.Command[1:]), string(verb))...)
	// Of our own environment it gets all but our settings: a password may be among them.
	cmd.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "TANDEM_") || strings.HasPrefix(v, "NOTIFY_SOCKET=") }),
		"TANDEM_VERB="+string(verb), "TANDEM_COMPONENT="+c.Name, "TANDEM_COMPONENT_DIR="+c.Dir,
		"TANDEM_VERSION="+job.Version, "TANDEM_FILE="+job.File,
		"TANDEM_HASH="+job.Hash, "TANDEM_PREVIOUS_VERSION="+job.Previous,
		"TANDEM_TIMEOUT="+strconv.Itoa(int(limit.Seconds())))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil // it ended well; something that it left running holds its output open
	}
	return err
}

// parse reads the last line that is not empty.
func parse(out []byte) (update.Status, error) {
	out = bytes.TrimSpace(out)
	line := out[bytes.LastIndexByte(out, '\n')+1:]
	if len(line) == 0 {
		return update.Status{}, errors.New("it succeeds and prints no status")
	}
	var st update.Status
	if err := json.Unmarshal(line, &st, json.RejectUnknownMembers(true)); err != nil {
		return update.Status{}, fmt.Errorf("its last line is no status: %w", err)
	}
	if r := st.Restart; r != update.Nothing && r != update.Agent && r != update.Node {
		return update.Status{}, fmt.Errorf("its last line is no status: restart is %.20q", string(r))
	}
	return st, nil
}

// contradicts says why a status is not that of a verb that succeeded.
func contradicts(s update.Status, verb update.Verb, version string) error {
	bad := false
	switch verb {
	case update.Install:
		bad = s.Staged != version && s.Trying != version && s.Active != version
	case update.Activate, update.Verify:
		bad = s.Trying != version && s.Active != version
	case update.Commit:
		bad = s.Active != version || s.Trying != ""
	case update.Rollback:
		bad = s.Trying != "" || s.Staged != ""
	}
	if bad {
		return fmt.Errorf("it succeeds, but its status says otherwise: version %q, status %+v", version, s)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	limit int

	mu  sync.Mutex // a program that was left running may write after the end
	buf []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.cut = true
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf)
}

func (t *tail) text() string {
	text := string(bytes.TrimSpace(t.bytes()))
	if text == "" {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cut {
		text = "…" + text
	}
	return ": " + text
}
