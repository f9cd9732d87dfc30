package workloads

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// made are the containers that somebody has prepared.
type made struct {
	*world
	specs   map[string]container.Spec
	deleted []string
	lacks   string
}

func (m *made) Lacks(runtime string) (why string) {
	m.lock(func() {
		if why = m.lacks; why == "" && runtime != "crun" {
			why = "there is crun alone"
		}
	})
	return why
}

func (m *made) Prepare(_ context.Context, id string, s container.Spec) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.specs[id]; there {
		return nil, container.ErrExists
	}
	m.specs[id] = s
	return []string{"stage", id}, nil
}

func (m *made) Delete(_ context.Context, id string) error {
	m.lock(func() { delete(m.specs, id); m.deleted = append(m.deleted, id) })
	return nil
}

func (m *made) List() (ids []string, err error) {
	m.lock(func() { ids = slices.Sorted(maps.Keys(m.specs)) })
	return ids, nil
}

// images has a file of an image in the place of the start hook.
type images struct {
	*world
	file string
}

func (i images) Look(a workload.Artifact) Resource {
	r := i.world.Look(a)
	if r.State == "" && strings.HasSuffix(a.UUID, workload.HookStart) {
		r.Path = i.file
	}
	return r
}

func (i images) Use(_ context.Context, _ string, all map[string]workload.Artifact) (map[string]string, error) {
	return pathsOf(i, all), nil
}

// imaged is a configuration of an image.
func imaged(id string) workload.Config {
	layer := func(name string) workload.Artifact {
		return workload.Artifact{Class: workload.Resource, UUID: name, URLs: []string{"http://x/"},
			Unpack: &workload.Unpack{DiffID: "diff-" + name, Size: 9}}
	}
	c := config("web", id, "")
	c.Container = &workload.Container{Runtime: "crun", Network: workload.NodeNetwork}
	c.Resources = map[string]workload.Artifact{workload.HookStart: c.Resources[workload.HookStart],
		"layer.000": layer("base"), "layer.001": layer("own"), "python": layer("python"), "abc": layer("abc")}
	c.Properties[workload.EnvPrefix+"LEVEL"], c.Properties[workload.EnvPrefix+"HOME"] = "item", "/tmp"
	return c
}

// A container is made of the file of its image, its layers over those of items, and the variables of the image, the
// item and the slot. The keeper runs it with the program that becomes its runtime; what is left of it goes before the
// run is forgotten, and what no slot has when an agent starts.
func TestContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &made{world: w, specs: map[string]container.Spec{"web.stale.start.1": {}}}
		image := workload.Image{Layers: []string{"diff-base", "diff-own"}, Args: []string{"/bin/sensor", "--all"},
			Env: []string{"PATH=/bin", "LEVEL=image", "OF=image"}, Dir: "/srv", UID: 1000, GID: 50,
			StopSignal: "SIGQUIT"}
		file := filepath.Join(w.dir, "image")
		write := func(data []byte) {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(image.Encode())
		w.contain, w.fetches, w.lenient = c, images{w, file}, true
		a := w.agent()
		a.Manager.Want([]workload.Config{imaged("one")})
		settled(time.Minute)
		w.lock(func() {
			if len(w.runs) != 1 || len(c.specs) != 1 || !slices.Contains(c.deleted, "web.stale.start.1") {
				t.Fatalf("%v %v %v", w.runs, c.specs, c.deleted)
			}
			for id, p := range w.runs {
				r, s := p.run, c.specs[id]
				if !slices.Equal(r.Argv, []string{keep.Program, "stage", id}) || !r.Contain || r.StopSignal != 3 ||
					r.Confine != nil || len(r.Env) > 0 || r.Dir != "/" || len(r.Cgroups) == 0 || r.Log.Path == "" {
					t.Errorf("%+v", r)
				}
				want := []string{"/store/copies/abc", "/store/copies/python", "/store/copies/base", "/store/copies/own"}
				if !slices.Equal(s.Layers, want) || !slices.Equal(s.Args, image.Args) || s.Dir != "/srv" ||
					s.UID != 1000 || s.GID != 50 || !s.HostNetwork {
					t.Errorf("%+v", s)
				}
				env := variables(s.Env)
				for name, value := range map[string]string{"PATH": "/bin", "LEVEL": "item", "OF": "image",
					"HOME":       "/tmp",
					"TANDEM_DIR": "", "TMPDIR": "", "TANDEM_SERVICE": "web",
					"TANDEM_PROPERTY_version": "one"} {
					if env[name] != value {
						t.Errorf("%s=%q, want %q", name, env[name], value)
					}
				}
			}
		})
		// One that cannot be made is not started, with the reason.
		for _, row := range [][2]string{{"{", "the configuration of its image"},
			{`{"layers":["diff-none"],"args":["x"],"uid":1,"gid":1}`, "the layer diff-none, which is not among"}} {
			write([]byte(row[0]))
			w.exit("web", keep.Status{State: keep.Exited, ExitCode: 1})
			settled(time.Minute)
			if e := w.slot("web").Exit; e == nil || !strings.Contains(e.Text, row[1]) || len(w.running()) > 0 {
				t.Errorf("%s: %+v", row[0], e)
			}
		}
		a.Manager.Want(nil)
		settled(time.Minute)
		w.lock(func() {
			if len(c.specs) > 0 || len(w.runs) > 0 {
				t.Errorf("left: %v %v", c.specs, w.runs)
			}
		})
		a.end()
	})
}

// A node that has lost its container runtime does not start it.
func TestNoContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		a.Manager.Want([]workload.Config{imaged("one")})
		settled(time.Minute)
		if e := w.slot("web").Exit; e == nil || !strings.Contains(e.Text, "no container runtime any more") ||
			w.starts() != "" {
			t.Errorf("%s %+v", w.starts(), e)
		}
		a.end()
	})
}

// Where signatures are demanded, a container has the layers that its signed configuration names, in that order, and
// others set those of its variables that it leaves to them: else it is not started, with the reason.
func TestContainedAsSigned(t *testing.T) {
	layers := []string{"diff-python", "diff-abc", "diff-base", "diff-own"}
	set := []string{"HOME", "LEVEL", "OTHER"}
	for _, row := range []struct {
		layers, variables []string
		want              string
	}{
		{layers, set, ""},
		{layers[1:], set, `the layer "python" is none that`},
		{layers[2:], set, `the layer "abc" is none that`},
		{layers, set[1:], `the variable "HOME" is none that`},
		{layers, nil, `the variable "HOME" is none that`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c := &made{world: w, specs: map[string]container.Spec{}}
			image := workload.Image{Layers: row.layers, Args: []string{"/bin/sensor"}, UID: 1, Env: []string{"LEVEL=1"},
				Variables: row.variables}
			file := filepath.Join(w.dir, "image")
			if err := os.WriteFile(file, image.Encode(), 0o600); err != nil {
				t.Fatal(err)
			}
			w.contain, w.fetches = c, images{w, file}
			a := w.agent()
			a.Manager.Want([]workload.Config{imaged("one")})
			settled(time.Minute)
			e := w.slot("web").Exit
			switch {
			case row.want != "":
				if e == nil || !strings.Contains(e.Text, row.want) || len(w.running()) > 0 {
					t.Errorf("%q %q: %+v", row.layers, row.variables, e)
				}
			case len(c.specs) != 1:
				t.Errorf("%+v", e)
			}
			for _, s := range c.specs {
				want := []string{"/store/copies/python", "/store/copies/abc", "/store/copies/base", "/store/copies/own"}
				if env := variables(s.Env); !slices.Equal(s.Layers, want) || env["LEVEL"] != "item" {
					t.Errorf("%+v", s)
				}
			}
			a.end()
		})
	}
}

// A configuration waits for a container runtime, while what runs goes on, and others are put in force.
func TestWaitsForARuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &made{world: w, specs: map[string]container.Spec{}}
		image := workload.Image{Layers: []string{"diff-base", "diff-own"}, Args: []string{"/bin/sensor"}, UID: 1}
		file := filepath.Join(w.dir, "image")
		if err := os.WriteFile(file, image.Encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		w.contain, w.fetches, w.lenient = c, images{w, file}, true
		a := w.agent()
		a.Manager.Want([]workload.Config{imaged("one")})
		settled(time.Minute)
		first := w.running()
		w.lock(func() { c.lacks = "this node has no container runtime: too slow" })
		a.Manager.Want([]workload.Config{imaged("two"), config("db", "x", "")})
		settled(time.Hour)
		s := w.slot("web")
		if len(first) != 1 || len(w.running()) != 2 || s.Error == nil || s.Error.Code != wire.CodeNotSupported ||
			!strings.Contains(s.Error.Message, "too slow") || w.slot("db").State != wire.WorkloadRunning {
			t.Errorf("%v %v: %+v", first, w.running(), s)
		}
		w.lock(func() { c.lacks = "" })
		a.Manager.Look()
		settled(time.Minute)
		if s := w.slot("web"); s.ID != "two" || s.State != wire.WorkloadRunning || s.Error != nil {
			t.Errorf("%+v", s)
		}
		a.end()
	})
}

// The signals of images have their numbers.
func TestStopSignals(t *testing.T) {
	got := ""
	for _, name := range workload.StopSignals {
		got += fmt.Sprint(name, " ", stopSignal(name), " ")
	}
	const want = "SIGTERM 15 SIGINT 2 SIGQUIT 3 SIGHUP 1 SIGUSR1 10 SIGUSR2 12 SIGWINCH 28 SIGKILL 9 SIGRTMIN+3 37 "
	if got != want || stopSignal("") != 0 {
		t.Errorf("%s", got)
	}
}
