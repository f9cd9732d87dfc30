package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tandem.internal/shared/limits"
)

// Group is the control group of one workload.
type Group struct {
	tree *Tree
	name string
}

// Stats are what a group uses.
type Stats struct {
	MemoryBytes uint64        // now; 0 also where the node does not tell
	CPU         time.Duration // since the group was made; 0 also where the node does not tell
	OOMKills    uint64        // processes of it that were killed because it had no memory left
	Processes   int
}

// Group names a group, whether it is there or not. A name is that of a file, without dots in front.
func (t *Tree) Group(name string) (*Group, error) {
	if !goodName(name) {
		return nil, fmt.Errorf("control group %q: the name cannot be a directory's", name)
	}
	return &Group{t, name}, nil
}

// goodName says whether a group can have this name. The kernel's own files are named tasks and the like, or
// begin with a controller's name and a dot.
func goodName(name string) bool {
	if name == "" || len(name) > 200 || name[0] == '.' || strings.ContainsAny(name, "/\x00\n") ||
		slices.Contains([]string{"tasks", "notify_on_release", "release_agent"}, name) {
		return false
	}
	first, _, dotted := strings.Cut(name, ".")
	return !dotted || !slices.Contains([]string{"cgroup", "cpuacct", "cpuset", "hugetlb", "irq", "misc", "rdma"},
		first) && !slices.Contains(controllers, first)
}

// Create makes a group with settings, or gives one that is there these settings and no others. Where
// the node has no control groups, it makes nothing, and settings are an error.
func (t *Tree) Create(name string, settings []limits.Setting) (*Group, error) {
	g, err := t.Group(name)
	if err != nil {
		return nil, err
	}
	for _, dir := range g.dirs() {
		err := t.kernel.make(dir)
		if errors.Is(err, fs.ErrNotExist) { // the tree was discarded
			if err = t.again(filepath.Dir(dir)); err == nil {
				err = t.kernel.make(dir)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("make a control group: %w", err)
		}
	}
	if t.caps.Version == limits.V2 {
		err = t.enable(g.dirs()[0])
	} else if dir, ok := t.dirs["memory"]; ok {
		err = withChildren(filepath.Join(dir, g.name))
	}
	if err != nil {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	return g, g.Apply(settings)
}

// again makes the tree's own group in one hierarchy once more.
func (t *Tree) again(dir string) error {
	if err := t.kernel.make(dir); err != nil || t.caps.Version != limits.V2 {
		return err
	}
	return t.enable(dir)
}

// withChildren has the limit of a v1 group's memory count for its children, too, as newer kernels have it
// anyway.
func withChildren(dir string) error {
	path := filepath.Join(dir, "memory.use_hierarchy")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || strings.TrimSpace(string(data)) == "1" {
		return err
	}
	return writeFile(path, "1")
}

// List names the groups that are there.
func (t *Tree) List() ([]string, error) {
	found := map[string]bool{}
	for _, dir := range t.dirs {
		children, err := childrenOf(dir)
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			found[c] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// dirs are the group's directories, each once.
func (g *Group) dirs() []string {
	found := map[string]bool{}
	for _, d := range g.tree.dirs {
		found[filepath.Join(d, g.name)] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// Leaf makes a group in the group, for one process and what it starts, and returns its directories:
// none where the node has no control groups. Two processes that are there at the same time need two leaves.
func (g *Group) Leaf(name string) ([]string, error) {
	if !goodName(name) {
		return nil, fmt.Errorf("control group %q: the name cannot be a directory's", name)
	}
	dirs := g.dirs()
	for i, d := range dirs {
		dirs[i] = filepath.Join(d, name)
		if _, counted := g.tree.caps.Files["pids"]; !counted { // so cgroup.kill may have been used; see Kill
			if err := g.tree.kernel.removeAll(dirs[i]); err != nil && !errors.Is(err, syscall.EBUSY) {
				return nil, fmt.Errorf("make a control group: %w", err)
			}
		}
		if err := g.tree.kernel.make(dirs[i]); err != nil {
			return nil, fmt.Errorf("make a control group: %w", err)
		}
	}
	for _, f := range limits.DeviceFiles(g.tree.caps) {
		if err := g.throttle(f, name); err != nil {
			return nil, fmt.Errorf("limit a control group: %w", err)
		}
	}
	return dirs, nil
}

// throttle gives a leaf the group's limits of devices. In v1 they do not count for children, so each leaf
// has them for itself.
func (g *Group) throttle(f limits.Setting, leaf string) error {
	if g.tree.caps.Version != limits.V1 {
		return nil
	}
	dir := filepath.Dir(g.file(f))
	data, err := os.ReadFile(filepath.Join(dir, f.File))
	if err != nil {
		return err
	}
	had, err := os.ReadFile(filepath.Join(dir, leaf, f.File))
	if err != nil {
		return err
	}
	values := limits.ResetDevices(f, string(had))
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); len(limits.ResetDevices(f, line)) == 1 { // a line of one device
			values = append(values, limits.Setting{Controller: f.Controller, File: f.File, Value: line})
		}
	}
	for _, s := range values {
		if err := writeFile(filepath.Join(dir, leaf, f.File), s.Value); err != nil {
			return err
		}
	}
	return nil
}

// Apply gives the group these settings and no others. After an error it has some of them, and Apply can be repeated.
func (g *Group) Apply(settings []limits.Setting) error {
	var list []limits.Setting
	for _, s := range limits.Reset(g.tree.caps) {
		if !slices.ContainsFunc(settings, func(o limits.Setting) bool {
			return o.Controller == s.Controller &&
				o.File == s.File
		}) {
			list = append(list, s)
		}
	}
	for _, f := range limits.DeviceFiles(g.tree.caps) {
		data, err := os.ReadFile(g.file(f))
		if err != nil {
			return fmt.Errorf("read the limits of a control group: %w", err)
		}
		list = append(list, limits.ResetDevices(f, string(data))...)
	}
	if inherited := (limits.Setting{Controller: "memory", File: "memory.swappiness"}); slices.Contains(
		g.tree.caps.Files["memory"], inherited.File) &&
		!slices.ContainsFunc(settings, func(o limits.Setting) bool { return o.File == inherited.File }) {
		// A new group has its parent's.
		inherited.Value = strconv.FormatUint(number(filepath.Join(g.tree.dirs["memory"], inherited.File)), 10)
		list = append(list, inherited)
	}
	// Memory alone must never be more than memory and swap, nor may a burst be above its quota. Which of two is to
	// be written first depends on what was there, so what is refused is written once more.
	list = append(list, settings...)
	for again := true; ; again = false {
		var refused []limits.Setting
		var errs []error
		for _, s := range list {
			if err := writeFile(g.file(s), s.Value); err != nil {
				refused = append(refused, s)
				errs = append(errs, fmt.Errorf("set %s of a control group to %q: %w", s.File, s.Value, err))
			}
		}
		if len(refused) == 0 {
			return g.throttleLeaves()
		}
		if !again {
			return errors.Join(errs...)
		}
		list = refused
	}
}

// throttleLeaves gives all leaves the group's limits of devices.
func (g *Group) throttleLeaves() error {
	for _, f := range limits.DeviceFiles(g.tree.caps) {
		leaves, err := childrenOf(filepath.Dir(g.file(f)))
		if err != nil {
			return err
		}
		for _, l := range leaves {
			if err := g.throttle(f, l); err != nil {
				return fmt.Errorf("limit a control group: %w", err)
			}
		}
	}
	return nil
}

func (g *Group) file(s limits.Setting) string {
	dir, ok := g.tree.dirs[s.Controller]
	if !ok {
		dir = g.tree.dirs[unified]
	}
	return filepath.Join(dir, g.name, s.File)
}

// Kill kills every process of the group and waits until none is left, or ctx ends.
func (g *Group) Kill(ctx context.Context) error { return Kill(ctx, g.dirs()) }

// Remove removes the group and its leaves. A group with processes is an error; one that is not there is none.
func (g *Group) Remove() error {
	for _, d := range g.dirs() {
		if err := g.tree.kernel.removeAll(d); err != nil {
			return fmt.Errorf("remove a control group: %w", err)
		}
	}
	return nil
}

// Stats says what the group uses.
func (g *Group) Stats() (Stats, error) {
	pids, err := Processes(g.dirs())
	if err != nil {
		return Stats{}, err
	}
	s := Stats{Processes: len(pids)}
	switch g.tree.caps.Version {
	case limits.V2:
		dir := g.dirs()[0]
		s.MemoryBytes = number(filepath.Join(dir, "memory.current"))
		s.OOMKills = field(filepath.Join(dir, "memory.events"), "oom_kill")
		s.CPU = time.Duration(field(filepath.Join(dir, "cpu.stat"), "usage_usec")) * time.Microsecond
	case limits.V1:
		if dir, ok := g.tree.dirs["memory"]; ok {
			s.MemoryBytes = number(filepath.Join(dir, g.name, "memory.usage_in_bytes"))
			s.OOMKills = eachDir(filepath.Join(dir, g.name), func(d string) uint64 { return OOMKills([]string{d}) })
		}
		if dir, ok := g.tree.dirs["cpuacct"]; ok {
			s.CPU = time.Duration(number(filepath.Join(dir, g.name, "cpuacct.usage")))
		}
	}
	return s, nil
}

// OOMKills counts the processes that were killed because one of these groups had no memory left. In v1 a
// process that was in a child of the group does not count.
func OOMKills(dirs []string) (n uint64) {
	for _, d := range dirs {
		n += field(filepath.Join(d, "memory.events"), "oom_kill") + field(filepath.Join(d, "memory.oom_control"),
			"oom_kill")
	}
	return n
}

// eachDir adds up what f says of a directory and all below it.
func eachDir(dir string, f func(string) uint64) uint64 {
	n := f(dir)
	children, _ := childrenOf(dir) // a group that went away has nothing to add
	for _, c := range children {
		n += eachDir(filepath.Join(dir, c), f)
	}
	return n
}

// number reads a file that has one number; 0 if it cannot be read.
func number(path string) uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// field reads a number from a file of names and numbers; 0 if it is not there.
func field(path, name string) uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
				return n
			}
		}
	}
	return 0
}
