package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tandem.internal/shared/wire"
)

// Hierarchies of control groups.
const (
	v1     = "v1"
	hybrid = "hybrid" // v1, and v2 beside it
	v2     = "v2"

	groupRoot = "/sys/fs/cgroup"
)

// groups says which control groups the node has; "" none.
func groups() string {
	kind := func(path string) int64 {
		var s unix.Statfs_t
		if unix.Statfs(path, &s) != nil {
			return 0
		}
		return int64(s.Type)
	}
	switch {
	case kind(groupRoot) == unix.CGROUP2_SUPER_MAGIC:
		return v2
	case kind(groupRoot+"/unified") == unix.CGROUP2_SUPER_MAGIC:
		return hybrid
	case kind(groupRoot) == unix.TMPFS_MAGIC:
		return v1
	}
	return ""
}

// dropIn is what gives the packaged agent the rights to run containers.
const dropIn = "tandem-node-oci.conf"

// Probe looks for a runtime and runs a container with it, once. Its error is for people, and says why there is none.
func Probe(ctx context.Context, p Probing) (Runtime, error) {
	var why []error
	missing := 0
	paths := wire.ContainerRuntimes
	if p.Path != "" {
		paths = []string{p.Path}
	}
	for _, name := range paths {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			if errors.Is(err, exec.ErrNotFound) {
				missing++
			}
			why = append(why, fmt.Errorf("%s: %w", name, err))
			continue
		}
		rt := Runtime{Name: filepath.Base(path), Path: path, Groups: groups()}
		if !slices.Contains(wire.ContainerRuntimes, rt.Name) {
			why = append(why, fmt.Errorf("%s: only crun and runc are possible", path))
			continue
		}
		if err := rt.probe(ctx, p); err != nil {
			why = append(why, fmt.Errorf("%s: %w", path, err))
			continue
		}
		rt.Better = !rt.Overlay || len(why) > missing
		return rt, nil
	}
	if missing == len(wire.ContainerRuntimes) {
		return Runtime{}, fmt.Errorf("none of %s is installed", strings.Join(wire.ContainerRuntimes, ", "))
	}
	err := errors.Join(why...)
	if os.Geteuid() != 0 && forbidden(err) {
		return Runtime{}, fmt.Errorf("this agent may not make containers; %s, a drop-in of its service, would let it: "+
			"%w", dropIn, err)
	}
	return Runtime{}, err
}

// probe runs a container, with an overlay if that is possible, and completes what is known of the runtime.
func (rt *Runtime) probe(ctx context.Context, p Probing) error {
	if rt.Name == "runc" && os.Geteuid() != 0 {
		return errors.New("runc needs an agent that is root; crun does not")
	}
	cmd := exec.CommandContext(ctx, rt.Path, "--version")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := run(cmd); err != nil {
		return err
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	version, ok := strings.CutPrefix(line, rt.Name+" version ")
	if !ok || len(version) > 100 {
		return fmt.Errorf("it says of its version %.100q", line)
	}
	rt.Version = version
	rt.Overlay = true
	err := rt.try(ctx, p)
	if err != nil && ctx.Err() == nil {
		rt.Overlay, rt.NoMount = false, err.Error()
		err = rt.try(ctx, p)
	}
	return err
}

// try runs a container, after what a try that was killed has left was removed.
func (rt *Runtime) try(ctx context.Context, p Probing) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(p.Dir)) }()
	h, err := Open(Home{Dir: filepath.Join(p.Dir, "containers"), Runtime: *rt})
	if err == nil {
		err = h.Delete(ctx, probeID)
	}
	if err != nil {
		return err
	}
	layer := filepath.Join(p.Dir, "layer", "tree")
	if err := os.MkdirAll(layer, 0o755); err != nil {
		return err
	}
	program := p.True
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	group := p.Group
	if group == "" && rt.Name == "runc" {
		group = filepath.Join(ownGroup(), fmt.Sprint(probeID, "-", os.Getpid()))
	}
	const uid = 65534 // nobody's
	spec := Spec{Layers: []string{layer}, Args: []string{"/probe", "version"}, UID: uid, GID: uid, Group: group,
		Binds: []Bind{{Host: program, Inside: "/probe"}}}
	args, err := h.Prepare(ctx, probeID, spec)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{}, "/", &syscall.SysProcAttr{}
	Attr(cmd.SysProcAttr)
	err = run(cmd)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	return errors.Join(err, h.Delete(ctx, probeID))
}

// How long a probe waits, whatever its own time is: until what it has run has ended and is removed, and for who still
// has the output of a program that has ended. Else neither the agent's start nor its stop would be bounded.
const (
	endTime   = 5 * time.Second
	waitDelay = time.Second
)

// probeID is the name of a probe's container.
const probeID = "tandem-probe"

// run runs a command. Its error has the last line that was written to standard error.
func run(cmd *exec.Cmd) error {
	var words bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &words, waitDelay
	err := cmd.Run()
	text := strings.TrimSpace(words.String())
	text = text[strings.LastIndexByte(text, '\n')+1:]
	if err == nil || text == "" {
		return err
	}
	return fmt.Errorf("%w: %.500s", err, text)
}

// forbidden says that the kernel, or the filter of the agent's service, did not let a container be made.
func forbidden(err error) bool {
	return errors.Is(err, syscall.EPERM) ||
		err != nil && strings.Contains(strings.ToLower(err.Error()), syscall.EPERM.Error())
}

// ownGroup is the control group of this process, as the first line of /proc/self/cgroup has it.
func ownGroup() string {
	data, err := os.ReadFile("/proc/self/cgroup")
	line, _, _ := strings.Cut(string(data), "\n")
	parts := strings.SplitN(line, ":", 3) // number, controllers, path
	if err != nil || len(parts) < 3 {
		return "/"
	}
	return parts[2]
}
