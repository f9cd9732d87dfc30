package cgroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/shared/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a machine with control groups that are plain files, in a directory.
type machine struct {
	t     *testing.T
	dir   string
	files map[string]string                         // what a new group has
	deny  func(dir string) error                    // nil: every group can be made
	fill  func(dir string, files map[string]string) // nil: as files says
}

var v2Files = map[string]string{
	"cgroup.controllers": "cpu io memory pids", "cgroup.subtree_control": "", procsFile: "", "cgroup.type": "domain",
	"memory.max": "max", "memory.high": "max", "memory.low": "0", "memory.swap.max": "max", "memory.current": "4096",
	"memory.events": "low 0\noom 1\noom_kill 3\n",
	"cpu.max":       "max 100000", "cpu.weight": "100", "cpu.stat": "usage_usec 1500\nuser_usec 1\n", "io.max": "",
	"io.weight": "default 100", "pids.max": "max",
}

func (m *machine) mkdir(dir string) error {
	if m.deny != nil {
		if err := m.deny(dir); err != nil {
			return &os.PathError{Op: "mkdir", Path: dir, Err: err}
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	files := maps.Clone(m.files)
	if m.fill != nil {
		m.fill(dir, files)
	}
	for name, text := range files {
		m.write(filepath.Join(dir, name), text)
	}
	return nil
}

func (m *machine) rmdir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("%s has %s in it", dir, e.Name())
		}
	}
	return os.RemoveAll(dir)
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(path string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.dir, path))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// newMachine makes a machine whose own process is in group, on v2.
func newMachine(t *testing.T, group string) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), files: v2Files}
	for dir := m.dir; ; {
		for name, text := range m.files {
			if name != "cgroup.type" || dir != m.dir { // the root of all has none
				m.write(filepath.Join(dir, name), text)
			}
		}
		m.write(filepath.Join(dir, "cgroup.subtree_control"), "cpu io memory pids")
		if dir == filepath.Join(m.dir, group) {
			m.write(filepath.Join(dir, "cgroup.subtree_control"), "")
			m.write(filepath.Join(dir, procsFile), fmt.Sprintln(os.Getpid()))
			break
		}
		next, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(filepath.Join(m.dir, group), dir), "/"), "/")
		dir = filepath.Join(dir, next)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	proc := filepath.Join(m.dir, "proc")
	if err := os.Mkdir(proc, 0o755); err != nil {
		t.Fatal(err)
	}
	m.write(filepath.Join(proc, "cgroup"), "0::"+group+"\n")
	m.write(filepath.Join(proc, "mountinfo"), "22 1 0:20 / / rw - ext4 /dev/vda rw\n30 22 0:26 / "+m.dir+" rw,nosuid "+
		"- cgroup2 cgroup2 rw,nsdelegate\n")
	return m
}

func (m *machine) config() Config {
	return Config{Proc: filepath.Join(m.dir, "proc"), Kernel: &Kernel{m.mkdir, m.rmdir}}
}

func (m *machine) open() *Tree { return Open(m.config()) }

func (m *machine) discard() error { return Discard(m.config()) }

func TestV2(t *testing.T) {
	m := newMachine(t, "/system.slice/tandem-node.service")
	tree := m.open()
	if caps := tree.Capabilities(); caps.Version != limits.V2 || caps.Why != "" ||
		!slices.Contains(caps.Files["memory"], "memory.max") {
		t.Fatalf("%+v", caps)
	}
	// The agent has left its group, and its children can be limited. (A file keeps what is written last.)
	own := "system.slice/tandem-node.service/"
	if m.read(own+"agent/"+procsFile) != fmt.Sprint(os.Getpid()) || m.read(own+"cgroup.subtree_control") != "+pids" ||
		m.read(own+"tandem/cgroup.subtree_control") != "+pids" {
		t.Errorf("%q, %q", m.read(own+"agent/"+procsFile), m.read(own+"cgroup.subtree_control"))
	}
	settings, errs := limits.Map(map[string]string{"memory.limit_in_bytes": "20M", "cpu.shares": "512",
		"io.max": "8:0 rbps=5"}, tree.Capabilities(), "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	g, err := tree.Create("shop@n1", settings)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := g.Leaf("start")
	if err != nil || len(dirs) != 1 || dirs[0] != filepath.Join(m.dir, own, "tandem/shop@n1/start") {
		t.Fatalf("%q, %v", dirs, err)
	}
	check := func(want map[string]string) {
		t.Helper()
		for name, text := range want {
			if got := m.read(own + "tandem/shop@n1/" + name); strings.TrimSpace(got) != text {
				t.Errorf("%s is %q, want %q", name, got, text)
			}
		}
	}
	check(map[string]string{"memory.max": "20971520", "cpu.weight": "50", "io.max": "8:0 rbps=5", "pids.max": "max",
		"start/memory.max": "max"})
	// Other settings: the rest is as in a new group.
	settings, errs = limits.Map(map[string]string{"pids.max": "7"}, tree.Capabilities(), "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := g.Apply(settings); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"memory.max": "max", "cpu.weight": "100", "io.max": "8:0 rbps=max wbps=max " +
		"riops=max wiops=max", "pids.max": "7"})
	s, err := g.Stats()
	if err != nil || s != (Stats{MemoryBytes: 4096, CPU: 1500 * time.Microsecond, OOMKills: 3}) || OOMKills(dirs) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if names, err := tree.List(); err != nil || !slices.Equal(names, []string{"shop@n1"}) {
		t.Errorf("%q, %v", names, err)
	}
	if err := errors.Join(g.Remove(), g.Remove()); err != nil {
		t.Error(err)
	}
	// Whoever is the last takes all away, and who has the tree open goes on.
	if _, err := tree.Create("again", nil); err != nil {
		t.Error(err)
	}
	m.write(filepath.Join(m.dir, own, "tandem/cgroup.subtree_control"), "")
	if err := errors.Join(m.discard(), m.discard()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(m.dir, own, "tandem")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree is left: %v", err)
	}
	if _, err = tree.Create("again", settings); err != nil || m.read(own+"tandem/again/pids.max") != "7" ||
		m.read(own+"tandem/cgroup.subtree_control") != "+pids" {
		t.Errorf("created after it was discarded: %v", err)
	}
	// The next agent is started in the group that DelegateSubgroup names, and finds the same tree.
	m.write(filepath.Join(m.dir, "proc/cgroup"), "0::/system.slice/tandem-node.service/agent\n")
	if tree := m.open(); tree.dirs[unified] != filepath.Join(m.dir, own, "tandem") {
		t.Errorf("%v", tree.dirs)
	}
}

// The group of another unit: the tree is there, and the agent stays where it is.
func TestOtherGroup(t *testing.T) {
	m := newMachine(t, "/system.slice/tandem-node.service")
	other := filepath.Join(m.dir, "workloads.service")
	cfg := Config{Proc: filepath.Join(m.dir, "proc"), Kernel: &Kernel{m.mkdir, m.rmdir}, Group: "/workloads.service",
		Stays: true}
	if caps := Open(cfg).Capabilities(); caps.Version != limits.None ||
		!strings.Contains(caps.Why, "workloads.service is not this agent's") {
		t.Errorf("it is not there, and the agent may use %+v", caps)
	}
	if err := m.mkdir(other); err != nil {
		t.Fatal(err)
	}
	tree := Open(cfg)
	if caps := tree.Capabilities(); caps.Version != limits.V2 || caps.Why != "" ||
		!slices.Contains(caps.Files["memory"], "memory.max") {
		t.Fatalf("%+v", caps)
	}
	own := "system.slice/tandem-node.service/"
	if in, on := m.read(own+procsFile), m.read(own+"cgroup.subtree_control"); in != fmt.Sprintln(os.Getpid()) ||
		on != "" {
		t.Errorf("the agent's own group has %q and lets %q limit its children", in, on)
	}
	if _, err := os.Stat(filepath.Join(m.dir, own, agentGroup)); !os.IsNotExist(err) {
		t.Errorf("a group for the agent: %v", err)
	}
	g, err := tree.Create("shop@n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if dirs, err := g.Leaf("start"); err != nil || len(dirs) != 1 ||
		dirs[0] != filepath.Join(other, "tandem/shop@n1/start") {
		t.Errorf("%q, %v", dirs, err)
	}
}

// Whom a service manager has started, and would start again in the same group, does not make it one where nobody
// can be started; in one below, that DelegateSubgroup names, it may.
func TestStays(t *testing.T) {
	m := newMachine(t, "/system.slice/tandem-node.service")
	cfg := Config{Proc: filepath.Join(m.dir, "proc"), Kernel: &Kernel{m.mkdir, m.rmdir}, Stays: true}
	if caps := Open(cfg).Capabilities(); caps.Version != limits.None || !strings.Contains(caps.Why, "workload-group") {
		t.Errorf("%+v", caps)
	}
	own := "system.slice/tandem-node.service"
	if on := m.read(own + "/cgroup.subtree_control"); on != "" {
		t.Errorf("its children can be limited: %q", on)
	}
	if entries, err := os.ReadDir(filepath.Join(m.dir, own, "tandem")); !os.IsNotExist(err) {
		t.Errorf("%v, %v", entries, err)
	}
	m.write(filepath.Join(m.dir, "proc/cgroup"), "0::/"+own+"/agent\n")
	if caps := Open(cfg).Capabilities(); caps.Version != limits.V2 || caps.Why != "" {
		t.Errorf("%+v", caps)
	}
}

// Where nothing is delegated, processes run without groups, and constraints are refused with the reason.
func TestNotDelegated(t *testing.T) {
	m := newMachine(t, "/user.slice")
	m.deny = func(string) error { return os.ErrPermission }
	tree := m.open()
	if caps := tree.Capabilities(); caps.Version != limits.None ||
		!strings.Contains(caps.Why, "user.slice is not this agent's") ||
		!strings.Contains(caps.Why, "permission denied") {
		t.Errorf("%+v", caps)
	}
	g, err := tree.Create("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if dirs, err := g.Leaf("start"); err != nil || len(dirs) != 0 {
		t.Errorf("%q, %v", dirs, err)
	}
	if err := errors.Join(g.Kill(context.Background()), g.Remove()); err != nil {
		t.Error(err)
	}
	if s, err := g.Stats(); err != nil || s != (Stats{}) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := tree.Create("b",
		[]limits.Setting{{Controller: "memory", File: "memory.max", Value: "1"}}); err == nil {
		t.Error("a limit is set nowhere, and that is no error")
	}
	m.write(filepath.Join(m.dir, "proc/mountinfo"), "")
	if caps := m.open().Capabilities(); caps.Why != "no control groups are mounted" {
		t.Errorf("%+v", caps)
	}
	if caps := Open(Config{Proc: "/nowhere"}).Capabilities(); caps.Version != limits.None || caps.Why == "" {
		t.Errorf("%+v", caps)
	}
}
