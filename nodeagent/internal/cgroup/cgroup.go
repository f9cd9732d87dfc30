// Package cgroup owns the control groups of workloads (seed 004, container): it finds out what this node's
// can do, makes one group for each workload with the settings that package limits made of its constraints, and one
// leaf in it for each process that is run.
//
//	v2:  a group ─┬─ agent                    agent and keeper: a group with processes cannot have limited children
//	              └─ tandem ── SLOT ── LEAF   the limits are SLOT's, the processes LEAF's
//	v1:  a group ─── tandem ── SLOT ── LEAF   in each controller's hierarchy
//
// It needs a group that belongs to it: its own, or another one that Config names, with which the agent stays where
// it is. Without one, groups are made of nothing: processes run without, and constraints are refused by limits.Map
// with the reason.
//
// It must not start processes. It keeps nothing: all state is in the kernel.
package cgroup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tandem.internal/shared/limits"
)

// Config says which part of the node's control groups may be used.
type Config struct {
	// Group is the group under which the tree is made, as /proc/PID/cgroup names groups; "": this process's own.
	Group string
	// Stays says that this process must not leave its own group, nor that get limited children: whoever starts the
	// next process in it, as systemd does, would be refused by the kernel for as long as one of those runs.
	Stays bool
	// Name is of the directory that has all groups of this agent; "": tandem.
	Name string
	// Proc is where /proc/self is; "": there.
	Proc string
	// Sys is where the kernel tells of disks; "": /sys.
	Sys string
	// Kernel is a seam for tests; nil: the real one.
	Kernel *Kernel
}

// NameOf is the Name of the agent that has this state directory: several agents may run on one machine.
func NameOf(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return "tandem-" + hex.EncodeToString(sum[:6])
}

// Kernel makes and removes groups. The real one fills a new directory with control files.
type Kernel struct {
	Mkdir func(dir string) error
	Rmdir func(dir string) error
}

var real = Kernel{
	Mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
	Rmdir: syscall.Rmdir,
}

// make makes a group that may be there.
func (k Kernel) make(dir string) error {
	if err := k.Mkdir(dir); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// agentGroup is where the agent goes to, so that its own group can have limited children. Units may
// name it in DelegateSubgroup.
const agentGroup = "agent"

// Tree is the groups of this agent. Its methods are for any goroutine.
type Tree struct {
	kernel Kernel
	sys    string
	costs  string            // the file of cgroup v2 that says for which disks weights are costs; "": there is none
	dirs   map[string]string // controller, or unified for none: its directory of this tree
	caps   limits.Capabilities
}

// unified stands for cgroup v2 where it has no controllers and is of use only to find processes.
const unified = "unified"

// Open finds out what there is. It always returns a Tree: Capabilities says what it can do. On a v2 node
// it moves this process into a group beside the workloads', once.
func Open(cfg Config) *Tree {
	cfg = cfg.resolved()
	t := &Tree{kernel: *cfg.Kernel, sys: cfg.Sys, dirs: map[string]string{},
		caps: limits.Capabilities{Files: map[string][]string{}}}
	var why []string
	mounts, err := readMounts(cfg)
	if err != nil {
		why = append(why, err.Error())
	}
	for _, m := range mounts {
		if err := t.open(m, cfg); err != nil {
			why = append(why, err.Error())
		}
	}
	if len(mounts) == 0 && err == nil {
		why = append(why, "no control groups are mounted")
	}
	t.caps.Why = strings.Join(why, "; ")
	return t
}

func (cfg Config) resolved() Config {
	if cfg.Name == "" {
		cfg.Name = "tandem"
	}
	if cfg.Proc == "" {
		cfg.Proc = ownProc
	}
	if cfg.Sys == "" {
		cfg.Sys = "/sys"
	}
	if cfg.Kernel == nil {
		cfg.Kernel = &real
	}
	return cfg
}

// Discard removes a tree with all groups in it, for whoever leaves it last. A group with processes stays, and so
// does what it is in: that is an error. A tree that is not there is none. Whoever has it open may go on: Create
// makes anew what is gone.
func Discard(cfg Config) error {
	cfg = cfg.resolved()
	mounts, err := readMounts(cfg)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mounts {
		if err := cfg.Kernel.removeAll(filepath.Join(m.base(), cfg.Name)); err != nil {
			errs = append(errs, fmt.Errorf("remove the control groups: %w", plain(err)))
		}
	}
	return errors.Join(errs...)
}

// Capabilities are what a group of this tree can do.
func (t *Tree) Capabilities() limits.Capabilities { return t.caps }

// Idle are the files of new groups with weights that no disk obeys now: that is for the disks' schedulers to do, which
// may be changed at any time.
func (t *Tree) Idle() (files []string) {
	schedulers := ""
	block := filepath.Join(t.sys, "block")
	disks, _ := os.ReadDir(block) // without them, nothing obeys
	for _, d := range disks {
		text, err := os.ReadFile(filepath.Join(block, d.Name(), "queue", "scheduler"))
		if err == nil { // else the disk has just gone
			schedulers += string(text)
		}
	}
	for _, w := range []struct{ file, by string }{
		{"io.weight", "[cfq]"}, {"blkio.weight", "[cfq]"}, {"io.bfq.weight", "[bfq]"}, {"blkio.bfq.weight", "[bfq]"},
	} {
		if !strings.Contains(schedulers, w.by) && !(w.file == "io.weight" && t.costed()) {
			files = append(files, w.file)
		}
	}
	return files
}

// costed says whether cgroup v2 itself sees to it that some disk obeys io.weight.
func (t *Tree) costed() bool {
	text, err := os.ReadFile(t.costs)
	return err == nil && strings.Contains(string(text), "enable=1")
}

// ownProc is where the kernel tells about this process.
const ownProc = "/proc/self"

// controllers are those that constraints are about.
var controllers = []string{"memory", "cpu", "io", "blkio", "pids"}

// open takes one hierarchy into use.
func (t *Tree) open(m mount, cfg Config) error {
	if m.version == limits.V2 {
		t.costs = filepath.Join(m.top, "io.cost.qos")
		return t.openV2(m, cfg)
	}
	dir := filepath.Join(m.dir, cfg.Name)
	files, err := t.probe(dir)
	if err != nil {
		return fmt.Errorf("the control group %s is not this agent's: %w", m.dir, plain(err))
	}
	t.caps.Version = limits.V1
	for _, c := range m.controllers {
		t.dirs[c] = dir
		t.caps.Files[c] = of(files, c)
	}
	return nil
}

// openV2 takes cgroup v2 into use: for limits, unless v1 has the controllers, and to find processes.
func (t *Tree) openV2(m mount, cfg Config) error {
	base := m.base()
	if cfg.Stays && cfg.Group == "" && base == m.dir && t.caps.Version != limits.V1 {
		return errors.New("systemd could not start the agent again with limits below its own control group: set " +
			"--workload-group, or DelegateSubgroup=agent")
	}
	dir := filepath.Join(base, cfg.Name)
	if _, err := t.probe(dir); err != nil {
		if t.caps.Version == limits.V1 {
			return nil // it would only have been of help
		}
		return fmt.Errorf("the control group %s is not this agent's: %w", base, plain(err))
	}
	if t.caps.Version == limits.V1 {
		t.dirs[unified] = dir
		return nil
	}
	t.caps.Version = limits.V2
	t.dirs[unified] = dir
	err := t.enable(base)
	if err == nil {
		err = t.enable(dir)
	}
	files, perr := t.probe(dir)
	if perr != nil {
		return plain(perr)
	}
	for _, c := range controllers {
		if list := of(files, c); list != nil {
			t.caps.Files[c] = list
		}
	}
	return err
}

// enable lets the children of a group have limits. The agent itself leaves it for that.
func (t *Tree) enable(dir string) error {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return plain(err)
	}
	on, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return plain(err)
	}
	var missing []string
	for _, c := range strings.Fields(string(has)) {
		if slices.Contains(controllers, c) && !slices.Contains(strings.Fields(string(on)), c) {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := t.leave(dir); err != nil {
		return err
	}
	var errs []error
	for _, c := range missing {
		if err := writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+c); errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("other processes are in the control group %s; the agent needs one of its own", dir)
		} else if err != nil {
			errs = append(errs, fmt.Errorf("the controller %s cannot be used in %s: %w", c, dir, plain(err)))
		}
	}
	return errors.Join(errs...)
}

// leave moves this process and its own out of a group, unless that is the root of all, where processes may
// stay. Others are left where they are.
func (t *Tree) leave(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	in, err := procs(dir)
	in = slices.DeleteFunc(in, func(pid int) bool { return !ours(pid) })
	if err != nil || len(in) == 0 {
		return err
	}
	own := filepath.Join(dir, agentGroup)
	if err := t.kernel.make(own); err != nil {
		return plain(err)
	}
	for _, pid := range in {
		if err := writeFile(filepath.Join(own, procsFile), strconv.Itoa(pid)); err != nil &&
			!errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("move this agent to %s: %w", own, plain(err))
		}
	}
	return nil
}

// ours says whether a process is this one, a child of it, or another one of the same program: the keeper.
func ours(pid int) bool {
	if pid == os.Getpid() {
		return true
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	mine, merr := os.Readlink("/proc/self/exe")
	its, err := os.Readlink(filepath.Join(dir, "exe"))
	if merr == nil && err == nil && its == mine {
		return true
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // state, parent, …
	return err == nil && len(f) > 1 && f[1] == strconv.Itoa(os.Getpid())
}

// probe makes a group and a child in it, and returns the control files of the child.
func (t *Tree) probe(dir string) (files []string, err error) {
	child := filepath.Join(dir, ".probe")
	for _, d := range []string{dir, child} {
		if err := t.kernel.make(d); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(child)
	for _, e := range entries {
		files = append(files, e.Name())
	}
	return files, errors.Join(err, t.kernel.Rmdir(child))
}

// of are the files of one controller.
func of(files []string, controller string) (list []string) {
	for _, f := range files {
		if strings.HasPrefix(f, controller+".") {
			list = append(list, f)
		}
	}
	return list
}

// plain takes the name of the system call from an error.
func plain(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}
