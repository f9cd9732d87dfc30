package keep

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/shared/wire"
)

// What becomes a container begins in a mount namespace of its own, is said to be in one, and is asked to end by the
// signal that its image names.
func TestContain(t *testing.T) {
	r := newRig(t)
	ready := r.pipe("ready")
	run := r.shell("a", "trap 'echo asked; exit 3' USR1; echo ready >ready; while :; do sleep 0.05; done")
	run.Contain, run.StopSignal = true, int(syscall.SIGUSR1)
	st := r.start(run)
	if os.Geteuid() != 0 && strings.Contains(st.Error, syscall.EPERM.Error()) {
		t.Skip("NOT TRIED: this machine lets only root make namespaces")
	}
	if st.Confined != confine.Container {
		t.Errorf("%+v", st)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	its, ierr := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", st.PID))
	if err != nil || ierr != nil || own == its {
		t.Errorf("%s %v, its %s %v", own, err, its, ierr)
	}
	if got := ready.line(); got != "ready" {
		t.Fatal(got)
	}
	if _, err := r.c.Stop(r.ctx(), "a", patience); err != nil {
		t.Fatal(err)
	}
	if st := r.wait("a"); st.ExitCode != 3 || st.Signal != 0 || !strings.Contains(r.output("a"), "asked") {
		t.Errorf("%+v %s", st, r.output("a"))
	}
}

// contained is a run that is a container of a program that does what words say, in groups of its own.
func (r *rig) contained(rt container.Runtime, id string, dirs []string, words ...string) Run {
	r.t.Helper()
	dir := r.t.TempDir()
	layer := filepath.Join(dir, "layer", "tree")
	if err := os.MkdirAll(layer, 0o755); err != nil {
		r.t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Dir(dir), filepath.Dir(layer)} {
		if err := os.Chmod(d, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(layer, "program"),
		"../container/testdata/program.go")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("%v %s", err, out)
	}
	h, err := container.Open(container.Home{Dir: filepath.Join(dir, "home"), Runtime: rt})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := h.Delete(context.Background(), id); err != nil {
			r.t.Error(err)
		}
	})
	args, err := h.Prepare(r.ctx(), id, container.Spec{Layers: []string{layer},
		Args: append([]string{"/program"}, words...), Env: []string{"GOGC=off"}, UID: 4711, GID: 4711,
		Group: container.Group(dirs, id)})
	if err != nil {
		r.t.Fatal(err)
	}
	run := r.shell(id, "")
	run.Argv, run.Env, run.Dir = append([]string{Program}, args...), nil, "/"
	run.Cgroups, run.Contain = dirs, true
	return run
}

// A container that was ended because its control group had no memory left is told so, wherever its runtime has put it;
// what was before does not count.
func TestContainersOutOfMemory(t *testing.T) {
	for _, name := range wire.ContainerRuntimes {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil || os.Geteuid() != 0 {
				const why = "NOT TRIED: it takes root, and crun and runc, which deploy/demo/brokers installs"
				if os.Getenv("CI") == "true" {
					t.Fatal(why)
				}
				t.Skip(why)
			}
			tree, settings := groupsBelow(t, "/", map[string]string{"memory.limit_in_bytes": "48M"})
			dirs := leaf(t, tree, settings, "contained")
			r := newRig(t)
			rt := container.Runtime{Name: name, Path: path}
			for i, c := range []struct {
				words []string
				code  int
				oom   bool
			}{{[]string{"take=512"}, 137, true}, {[]string{"exit=5"}, 5, false}} {
				id := fmt.Sprint("run", i)
				r.start(r.contained(rt, id, dirs, c.words...))
				if s := r.wait(id); s.ExitCode != c.code || s.OOMKills > 0 != c.oom {
					t.Errorf("%v: %+v: %s", c, s, r.output(id))
				}
			}
		})
	}
}

// A run that confines itself is not confined otherwise, and is asked to end by a signal that there is; a keeper with
// users for slots makes none.
func TestContainRefused(t *testing.T) {
	good := Run{ID: "a", Argv: []string{"/x"}, Dir: "/", Contain: true, StopSignal: 64}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for path, change := range map[string]func(*Run){
		"/confine":    func(r *Run) { r.Confine = &Confine{} },
		"/stopSignal": func(r *Run) { r.StopSignal = 65 },
	} {
		r := good
		change(&r)
		if err := r.Check(); err == nil || err.Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
	k := &keeper{users: &slotUsers{}}
	if err := k.admit(&run{spec: good}); err == nil || !strings.Contains(err.Error(), "makes no containers") {
		t.Error(err)
	}
}

// TestDescendantsAreNoStrays: runc's containers are in control groups that are not the run's, and their programs may
// have emptied their environment.
func TestDescendantsAreNoStrays(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLiving(1)
	l.runs[10] = &run{spec: Run{Cgroups: []string{dir}}}
	all := map[int]process{10: {pid: 10, parent: 1}}
	for pid, parent := range map[int]int{11: 10, 12: 11, 20: 1, 21: 20, 30: 31, 31: 30} {
		all[pid] = process{pid: pid, parent: parent, session: pid}
	}
	strays := []process{all[11], all[12], all[20], all[21], all[30]}
	if got := l.unclaimed(all, strays, 0); !slices.Equal(got, strays[2:]) {
		t.Errorf("%v", got)
	}
}
