package keep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// waiting is the pause before the keeper is looked for again while another one starts or ends.
const waiting = 20 * time.Millisecond

// start starts the keeper. It returns when there is one, this one or another's.
func (c *Client) start(ctx context.Context) error {
	for {
		answer, err := c.spawn(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("start the keeper: %w", err)
		case answer == sayReady:
			return nil
		case answer != sayBusy:
			return fmt.Errorf("start the keeper: %s", answer)
		}
		// Another keeper has the directory: one that is about to listen, or to end.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waiting):
		}
		conn, err := dial(ctx, c.cfg.Dir)
		if err == nil {
			return conn.Close()
		}
		if !errors.Is(err, ErrAbsent) {
			return err
		}
	}
}

// What a keeper says to who started it, as the only line; anything else is why it could not start.
const (
	sayReady = "ready"
	sayBusy  = "busy" // another one has the directory
)

// spawn starts the program and returns what it says.
func (c *Client) spawn(ctx context.Context) (answer string, err error) {
	if err := makeDir(c.cfg.Dir); err != nil {
		return "", err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, null.Close()) }()
	// What the program says when it cannot go on; the rest is in the keeper's own log.
	words, err := os.OpenFile(filepath.Join(c.cfg.Dir, "stderr"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, words.Close()) }()
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	children := reap(<-c.children)
	child, err := c.process(null, words, w)
	if err == nil {
		children = append(children, child.Pid)
		err = child.Release()
	}
	c.children <- children
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(r, 4096)).ReadString('\n')
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("it ended before it had said anything; see %s", words.Name())
	}
	return line[:len(line)-1], nil
}

// process starts the keeper's process: in a session of its own, with nothing of this one but what it
// needs.
func (c *Client) process(null, words, ready *os.File) (*os.Process, error) {
	exe := c.cfg.Exe
	if exe == "" {
		exe = ownProgram
	}
	env := append([]string{readyEnv + "=3", homeEnv + "=" + c.cfg.Dir}, c.cfg.Env...)
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return os.StartProcess(exe, append([]string{"tandem-node"}, c.cfg.Args...), &os.ProcAttr{
		Dir: "/", Env: env, Files: []*os.File{null, words, words, ready},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// readyEnv names the file in which a keeper says its only line to who started it.
const readyEnv = "TANDEM_KEEPER_READY"

// homeEnv has the directory of a keeper in its environment, and for an instant in that of a process that it
// makes.
const homeEnv = "TANDEM_KEEPER_DIR"

// Ready is the file for Serving.Ready in a process that a Client started; nil in any other.
func Ready() *os.File {
	fd, err := strconv.Atoi(os.Getenv(readyEnv))
	if err != nil || fd < 3 {
		return nil
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "ready")
}

// ownProgram is this program's file, also after another one has taken its place.
const ownProgram = "/proc/self/exe"

// reap takes leave of those processes that have ended, so that no zombies stay, and returns the others.
func reap(pids []int) (left []int) {
	for _, pid := range pids {
		if done, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); done == 0 && err == nil {
			left = append(left, pid)
		}
	}
	return left
}

// makeDir makes the keeper's directory, for its user alone.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keeper's directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("keeper's directory: %w", err)
	}
	return nil
}
