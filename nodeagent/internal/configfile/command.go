package configfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tailSize is how much of a command's output its error shows, in bytes.
const tailSize = 600

// Exec is the Run of production. When ctx ends, the command and everything it has started in its
// process group are killed. What the command leaves running when it exits by itself is left
// alone. Of our own environment it gets all but our settings, TANDEM_*: a password may be among them,
// and the end of what a command prints is reported when it fails.
func Exec(ctx context.Context, env, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TANDEM_") }),
		env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil
	}
	if text := out.String(); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailSize):]...)
	if over := len(t.buf) - tailSize; over > 0 || len(p) > tailSize {
		t.cut = true
		t.buf = append(t.buf[:0], t.buf[max(0, over):]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.TrimSpace(string(t.buf))
	if t.cut && s != "" {
		s = "…" + s
	}
	return s
}
