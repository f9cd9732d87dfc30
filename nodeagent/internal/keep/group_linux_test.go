package keep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/shared/limits"
)

// groups are the machine's own control groups, a tree of this test's in them.
func groups(t *testing.T, constraints map[string]string) (*cgroup.Tree, []limits.Setting) {
	t.Helper()
	return groupsBelow(t, "", constraints)
}

// groupsBelow are those below a group; "": below this process's own, which each hierarchy may have elsewhere.
func groupsBelow(t *testing.T, group string, constraints map[string]string) (*cgroup.Tree, []limits.Setting) {
	t.Helper()
	cfg := cgroup.Config{Group: group, Name: fmt.Sprintf("tandem-keep-test-%d", os.Getpid())}
	tree := cgroup.Open(cfg)
	t.Cleanup(func() {
		if err := cgroup.Discard(cfg); err != nil {
			t.Errorf("groups are left: %v", err)
		}
	})
	settings, errs := limits.Map(constraints, tree.Capabilities(), "")
	if len(errs) > 0 {
		t.Skipf("SKIPPED: this machine's control groups cannot do it, so it was NOT tested with real ones: %v", errs[0])
	}
	return tree, settings
}

func leaf(t *testing.T, tree *cgroup.Tree, settings []limits.Setting, name string) []string {
	t.Helper()
	g, err := tree.Create(name, settings)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := g.Leaf("start")
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// population is the kernel's own count of those in the groups: a list of them is made while they come and go.
func population(t *testing.T, dirs []string) int {
	t.Helper()
	for _, dir := range dirs {
		// with version 2 the limit's group counts, not the one below it
		for _, d := range []string{dir, filepath.Dir(dir)} {
			text, err := os.ReadFile(filepath.Join(d, "pids.current"))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			n, aerr := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil || aerr != nil {
				t.Fatal(err, aerr)
			}
			return n
		}
	}
	t.Fatalf("no pids.current in %q", dirs)
	return 0
}

// A process is in its groups from its first moment, its keeper never, and they are empty afterwards.
func TestInGroups(t *testing.T) {
	tree, settings := groups(t, map[string]string{"pids.max": "100"})
	dirs := leaf(t, tree, settings, "a")
	r := newRig(t)
	for i := range 5 {
		run := r.shell(fmt.Sprint("a-", i), "cat /proc/self/cgroup; (setsid sleep 1000 &); exit 0")
		run.Cgroups = dirs
		r.start(run)
		if s := r.wait(run.ID); !s.Success() {
			t.Fatalf("%+v", s)
		}
		if n := strings.Count(r.output(run.ID), fmt.Sprintf("/tandem-keep-test-%d/a/start\n", os.Getpid())); n < 1 ||
			n > len(dirs) {
			t.Errorf("in %d of %d groups:\n%s", n, len(dirs), r.output(run.ID))
		}
		if left, err := cgroup.Processes(dirs); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
	}
	// Two runs in one group would be ended together.
	up := r.pipe("up")
	first := r.shell("first", "echo $$ >up; exec sleep 1000")
	first.Cgroups = dirs
	r.start(first)
	up.pid()
	second := r.shell("second", "exit 0")
	second.Cgroups = dirs[:1]
	if _, err := r.c.Start(r.ctx(), second); err == nil {
		t.Error("two runs in one group")
	}
	r.kill()
	if s := r.wait("first"); s.State != Lost {
		t.Errorf("%+v", s)
	}
	if left, err := cgroup.Processes(dirs); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// Where a process cannot be made in its group, it is put there; where that cannot be, either, it does not run.
func TestLateInGroup(t *testing.T) {
	tree, settings := groups(t, map[string]string{"pids.max": "100"})
	dirs := leaf(t, tree, settings, "late")
	start := func() int {
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"},
			&syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	pid := start()
	if err := enterLate(dirs[0], pid, "none/such"); err != nil {
		t.Fatal(err)
	}
	if list, err := cgroup.Processes(dirs); err != nil || len(list) != 1 || list[0] != pid {
		t.Errorf("%v, %v", list, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
	pid = start()
	if err := enterLate("/nowhere", pid, "none/such"); err == nil || !ended(pid) {
		t.Errorf("%v; it has ended: %v", err, ended(pid))
	}
	if err := enterLate(dirs[0], 1<<30, "none/such"); err != nil {
		t.Errorf("one that has ended: %v", err)
	}
}

// What it has started before it was put there comes along, also out of its session.
func TestLateWithChildren(t *testing.T) {
	tree, settings := groups(t, map[string]string{"pids.max": "100"})
	if own, err := cgroup.Own(); err != nil || own == "" {
		t.Skipf("SKIPPED: this machine has no cgroup v2, where alone it happens, so it was NOT tested: %v", err)
	}
	dirs := leaf(t, tree, settings, "late")
	started, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "sleep 1000 & setsid sh -c 'echo up; sleep " +
		"1000' & wait"}, &syscall.ProcAttr{
		Env: []string{Mark + "=late/test", "PATH=" + os.Getenv("PATH")}, Files: []uintptr{0, w.Fd(), 2},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := cgroup.Kill(ctx, dirs); err != nil {
			t.Error(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			t.Error(err)
		}
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := started.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := started.Close(); err != nil {
		t.Fatal(err)
	}
	if err := enterLate(dirs[0], pid, "late/test"); err != nil {
		t.Fatal(err)
	}
	if list, err := cgroup.Processes(dirs); err != nil || len(list) < 3 { // the last sleep may not be there yet
		t.Errorf("%v, %v", list, err)
	}
}

// Lack of memory is told from any other SIGKILL.
func TestOutOfMemory(t *testing.T) {
	tree, settings := groups(t, map[string]string{"memory.limit_in_bytes": "48M"})
	dirs := leaf(t, tree, settings, "hog")
	r := newRig(t)
	hog := r.shell("hog", "")
	hog.Argv = []string{r.cfg.Exe}
	hog.Env = append(hog.Env, asWhat+"=hog", "GOGC=off")
	hog.Cgroups = dirs
	r.start(hog)
	if s := r.wait("hog"); s.Signal != int(syscall.SIGKILL) || s.OOMKills == 0 || s.Cause != "" {
		t.Errorf("%+v: %s", s, r.output("hog"))
	}
	// The same group again: what was before does not count.
	killed := r.shell("killed", "kill -KILL $$")
	killed.Cgroups = dirs
	r.start(killed)
	if s := r.wait("killed"); s.Signal != int(syscall.SIGKILL) || s.OOMKills != 0 {
		t.Errorf("%+v", s)
	}
	// A child of it: the run goes on, and it is told.
	child := hog
	child.ID = "child"
	child.Argv = []string{"/bin/sh", "-c", `"$0"; echo after`, r.cfg.Exe}
	child.Log.Path += "-child"
	r.start(child)
	if s := r.wait("child"); !s.Success() || s.OOMKills == 0 || !strings.HasSuffix(r.output("hog-child"), "after\n") {
		t.Errorf("%+v: %s", s, r.output("hog-child"))
	}
}

// What forks without end is ended all the same. Only where a limit of processes counts.
func TestForksWithoutEnd(t *testing.T) {
	tree, settings := groups(t, map[string]string{"pids.max": "40"})
	dirs := leaf(t, tree, settings, "bomb")
	r := newRig(t)
	up := r.pipe("up")
	// Each one that runs makes two more; it ends by itself after a minute if nobody else does it.
	bomb := r.shell("bomb",
		`echo 'kill -0 '$$' 2>/dev/null || exit; (setsid sh ./more &) ; (setsid sh ./more &) ; `+
			`sleep 0.01; exec sh ./more' >more; echo up >up; (sh ./more 2>/dev/null &); sleep 60`)
	bomb.Cgroups = dirs
	r.start(bomb)
	up.line()
	deadline := time.Now().Add(patience)
	for {
		n := population(t, dirs)
		if n > 40 {
			t.Fatalf("%d processes", n)
		}
		if n >= 35 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d processes", n)
		}
		time.Sleep(time.Millisecond) // nothing tells of their number
	}
	if _, err := r.c.Stop(r.ctx(), "bomb", 0); err != nil {
		t.Fatal(err)
	}
	if s := r.wait("bomb"); s.Left != 0 || s.Cause != CauseStop {
		t.Errorf("%+v", s)
	}
	if left, err := cgroup.Processes(dirs); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	r.nothingLeft()
}
