package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Files of a group.
const (
	procsFile = "cgroup.procs" // lists its processes, and takes in who is written to it
	tasksFile = "tasks"        // lists its threads, in v1
)

// Pauses of Kill between two looks.
const (
	firstPause = time.Millisecond
	longest    = 100 * time.Millisecond
)

// Kill kills every process of some groups and their children, and waits until none is left, or ctx ends. A
// process that starts others faster than they can be killed does not escape: where the node counts
// processes (pids), no new ones are let into the groups meanwhile; where it does not, cgroup.kill is
// used. This process itself is passed over.
//
// cgroup.kill is not used for what can be done without it: there are kernels (6.14 and some after it) that kill every
// process which is started right into a group that was once killed so.
func Kill(ctx context.Context, dirs []string) (result error) {
	counted := false
	for looks, pause := 0, firstPause; ; looks, pause = looks+1, min(2*pause, longest) {
		left, err := Processes(dirs)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		for _, d := range dirs {
			switch {
			case looks == 0:
				open, found, serr := shut(d)
				if serr != nil {
					return serr
				}
				counted = counted || found
				defer func() { result = errors.Join(result, open()) }()
			case looks >= manyLooks && !counted:
				// Where the kernel cannot, there is no such file.
				if err := writeFile(filepath.Join(d, "cgroup.kill"), "1"); err != nil &&
					!errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EOPNOTSUPP) {
					return fmt.Errorf("kill a control group: %w", err)
				}
			}
		}
		for _, pid := range left {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d of a control group: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of a control group cannot be killed: %w", len(left), ctx.Err())
		case <-time.After(pause):
		}
	}
}

// manyLooks is how often processes are killed one by one before it shows that more come than go.
const manyLooks = 5

// shut lets no more processes into a group, if the node counts them, until open is called.
func shut(dir string) (open func() error, counted bool, err error) {
	path := filepath.Join(dir, "pids.max")
	was, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, false, nil // or the group is gone
	}
	if err != nil {
		return nil, false, fmt.Errorf("kill a control group: %w", err)
	}
	if err := writeFile(path, "0"); err != nil {
		return nil, false, fmt.Errorf("kill a control group: %w", err)
	}
	return func() error { return writeFile(path, strings.TrimSpace(string(was))) }, true, nil
}

// Processes lists the processes of some groups and their children, each once, without this one.
func Processes(dirs []string) (pids []int, err error) {
	for _, d := range dirs {
		list, err := procs(d)
		if err != nil {
			return nil, err
		}
		children, err := childrenOf(d)
		if err != nil {
			return nil, err
		}
		for i, c := range children {
			children[i] = filepath.Join(d, c)
		}
		below, err := Processes(children)
		if err != nil {
			return nil, err
		}
		pids = append(append(pids, list...), below...)
	}
	slices.Sort(pids)
	return slices.DeleteFunc(slices.Compact(pids), func(pid int) bool { return pid == os.Getpid() }), nil
}

// In lists the processes of one group, and not of its children.
func In(dir string) (pids []int, err error) { return procs(dir) }

// procs are the processes of one group; none if it is not there. In v1, threads have groups of their own:
// a process is where its first thread is, and not where another one makes a child.
func procs(dir string) (pids []int, err error) {
	pids, err = numbers(filepath.Join(dir, procsFile))
	if err != nil || len(pids) == 0 {
		return nil, err
	}
	threads, err := numbers(filepath.Join(dir, tasksFile))
	if err != nil || threads == nil {
		return pids, err // v2
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return !slices.Contains(threads, pid) }), nil
}

// numbers reads a file of process IDs; none if it is not there.
func numbers(path string) (pids []int, err error) {
	data, err := os.ReadFile(path)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the processes of a control group: %w", err)
	}
	for _, f := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("list the processes of a control group: %w", err)
		}
		if pid > 0 { // 0 is one that this process cannot see
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// childrenOf are the groups in a group; none if it is not there.
func childrenOf(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if gone(err) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	return names, nil
}

// gone says that a group was removed, before it was opened or after.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) }

// removeAll removes a group and all below it: directories only, their files are the kernel's.
func (k Kernel) removeAll(dir string) error {
	children, err := childrenOf(dir)
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := k.removeAll(filepath.Join(dir, c)); err != nil {
			return err
		}
	}
	if err := k.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// writeFile writes to a control file, which must be there.
func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
