package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/nodeagent/internal/kind"
	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/nodeagent/internal/workloads"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

// What is a container is taken only where its runtime is, else refused with the reason, which the node tells, too.
func TestContainersAreDemanded(t *testing.T) {
	crun := Containers{Runtime: container.Runtime{Name: "crun", Version: "1.8.1"}}
	look := func(context.Context) (container.Runtime, error) { return container.Runtime{}, nil }
	for _, row := range []struct {
		of        Containers
		container workload.Container
		least     confine.Level
		attribute string
		want      string
	}{
		{crun, workload.Container{Runtime: "crun", Network: "node"}, "", "crun 1.8.1", ""},
		{crun, workload.Container{}, "landlock+net", "crun 1.8.1", ""},
		{crun, workload.Container{Runtime: "crun"}, "landlock+net", "crun 1.8.1", ""},
		{crun, workload.Container{Runtime: "crun", Network: "node"}, "landlock+net", "crun 1.8.1",
			"with the node's network"},
		{crun, workload.Container{Runtime: "runc"}, "", "crun 1.8.1", "has the container runtime crun, not runc"},
		{Containers{Why: "none is installed"}, workload.Container{Runtime: "crun"}, "", "none: none is installed",
			"no container runtime: none is installed"},
		{crun, workload.Container{Runtime: "crun", Network: "node"}, "landlock", "crun 1.8.1",
			"with the node's network"},
		{crun, workload.Container{Runtime: "crun", Network: "node"}, "files", "crun 1.8.1", ""},
		{Containers{}, workload.Container{Runtime: "crun"}, "", "", "its agent does not look for one"},
		// Where one is looked for, only its slot waits.
		{Containers{Why: "too slow", Look: look}, workload.Container{Runtime: "crun"}, "", "none: too slow", ""},
		{Containers{Why: "too slow", Look: look}, workload.Container{Runtime: "crun", Network: "node"}, "landlock",
			"none: too slow", "with the node's network"},
		{Containers{Runtime: container.Runtime{Name: "runc", Better: true}, Look: look},
			workload.Container{Runtime: "crun"}, "", "runc ", ""},
		{Containers{Runtime: container.Runtime{Name: "runc"}, Look: look}, workload.Container{Runtime: "crun"}, "",
			"runc ", "has the container runtime runc, not crun"},
	} {
		c := Config{On: true, Groups: &controlGroups{}, Containers: row.of}
		c.Confine.Least = row.least
		err := c.contains(&workload.Config{Container: &row.container})
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Message, row.want) {
			t.Errorf("%+v: %v", row, err)
		}
		if got := row.of.attribute(); got != row.attribute {
			t.Errorf("told %q, want %q", got, row.attribute)
		}
	}
	c := Config{On: true, Groups: &controlGroups{}}
	if errs := c.check([]workload.Config{{Slot: workload.Slot{Service: "web", Node: "n1"},
		Container: &workload.Container{Runtime: "crun"}}}); len(errs) != 1 || errs[0].Code != wire.CodeNotSupported ||
		!strings.Contains(errs[0].Message, "web@n1") {
		t.Errorf("%v", errs)
	}
}

// Where there is no runtime, a directory of containers is opened only if it is there: what is in it is removed.
func TestContainersOfBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "containers")
	var h home
	for range 2 {
		if err := h.set(&Containers{Dir: dir}); h.own != nil || err != nil || h.Delete(t.Context(), "a") != nil {
			t.Errorf("%v %v", h.own, err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.set(&Containers{Dir: dir}); h.own == nil || err != nil {
		t.Errorf("%v %v", h.own, err)
	}
	if _, err := h.Prepare(t.Context(), "a", container.Spec{}); err == nil || err.Error() != h.Lacks("crun") ||
		!strings.Contains(h.Lacks("crun"), "no container runtime") {
		t.Error(err)
	}
}

// owner is the agent, which does everything at once.
type owner struct{ kind.Host }

func (owner) Do(f func()) { f() }

// A probe that failed, or found less than there is, is done again, ever more rarely: without end while there is no
// runtime, else a few times. What it finds is told.
func TestLooksAgain(t *testing.T) {
	const ever, first = 100, (10 + 30 + 90 + 270 + 810) * time.Second
	crun := container.Runtime{Name: "crun", Version: "9", Overlay: true}
	less := container.Runtime{Name: "runc", Version: "1", Better: true}
	crunLess := container.Runtime{Name: "crun", Version: "9", Better: true}
	for name, c := range map[string]struct {
		first container.Runtime
		fails int // looks
		then  container.Runtime
		looks int
		after time.Duration
		now   container.Runtime
	}{
		"slow at the start":   {container.Runtime{}, 1, crun, 2, 40 * time.Second, crun},
		"late":                {container.Runtime{}, 7, crun, 8, first + 3*lastLook, crun},
		"never":               {container.Runtime{}, ever, crun, 20, 5 * time.Hour, container.Runtime{}},
		"better":              {less, 2, crun, 3, 130 * time.Second, crun},
		"no better one":       {less, 0, less, betterLooks, 400 * time.Second, less},
		"no better one works": {less, ever, crun, betterLooks, 400 * time.Second, less},
		"less, and late":      {container.Runtime{}, 6, less, 7 + betterLooks, first + 6*lastLook, less},
		"less, but more":      {less, 2, crunLess, 3 + betterLooks, first + 2*lastLook, crunLess},
		"the best":            {crun, 0, crun, 0, 0, crun},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, looks := time.Now(), 0
				var at time.Duration
				var told []string
				r := &runner{host: owner{}}
				r.cfg = Config{On: true, Log: zap.NewNop(), Containers: Containers{
					Dir: filepath.Join(t.TempDir(), "containers"), Runtime: c.first,
					Found: func(rt container.Runtime) { told = append(told, rt.Name+r.cfg.Containers.attribute()) },
				}}
				r.cfg.Containers.Look = func(ctx context.Context) (container.Runtime, error) {
					if _, bounded := ctx.Deadline(); !bounded {
						t.Error("without end")
					}
					looks, at = looks+1, time.Since(began)
					if looks <= c.fails {
						return container.Runtime{}, errors.New("too\nslow")
					}
					return c.then, nil
				}
				if err := r.home.set(&r.cfg.Containers); err != nil {
					t.Fatal(err)
				}
				r.manager = workloads.New(workloads.Config{Store: nothing{}, Kept: func() bool { return false },
					Resources: nothing{}, Containers: &r.home, Now: time.Now, Log: zap.NewNop(),
					Report: func(wire.Workloads) {}})
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() { _ = r.manager.Run(ctx) }) // it saves nothing
				all.Go(func() { r.seek(ctx) })
				time.Sleep(5*time.Hour + time.Minute)
				synctest.Wait()
				stop()
				all.Wait()
				if name == "never" {
					if looks < c.looks || looks > 25 || len(told) != looks || told[0] != "none: too slow" ||
						r.cfg.Look == nil || !strings.HasSuffix(r.home.Lacks(c.now.Name), "runtime: too slow") {
						t.Errorf("%d looks, told %q, lacks %q", looks, told, r.home.Lacks(c.now.Name))
					}
					return
				}
				if looks != c.looks || at != c.after || r.cfg.Runtime != c.now || r.cfg.Look != nil ||
					r.home.Lacks(c.now.Name) != "" || r.home.own.Runtime != c.now {
					t.Errorf("%d looks until %v, %+v", looks, at, r.cfg.Containers)
				}
				if c.first != c.now && told[len(told)-1] != c.now.Name+c.now.Name+" "+c.now.Version {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// nothing is a store of what there is not.
type nothing struct {
	workloads.Store
	workloads.Resources
}

func (nothing) Workloads() (map[string]supervise.Durable, error) { return nil, nil }
func (nothing) Updates() <-chan struct{}                         { return nil }

// What is set for one runtime is not run by another.
func TestLacksARuntime(t *testing.T) {
	var h home
	for _, name := range wire.ContainerRuntimes {
		c := Containers{Dir: filepath.Join(t.TempDir(), "containers"), Runtime: container.Runtime{Name: name}}
		if err := h.set(&c); err != nil {
			t.Fatal(err)
		}
		for _, wanted := range wire.ContainerRuntimes {
			if why := h.Lacks(wanted); (why == "") != (wanted == name) || why != "" && why != another(name, wanted) {
				t.Errorf("%s by %s: %q", wanted, name, why)
			}
		}
	}
}

// What is found is taken in the place of what there is only if nothing of it is worse.
func TestMore(t *testing.T) {
	all := []container.Runtime{{Name: "runc"}, {Name: "runc", Overlay: true}, {Name: "crun"},
		{Name: "crun", Overlay: true}}
	got := ""
	for _, a := range all {
		for _, b := range all {
			if more(a, b) {
				got += fmt.Sprint(a.Name, a.Overlay, ">", b.Name, b.Overlay, " ")
			}
		}
	}
	if got != "runctrue>runcfalse crunfalse>runcfalse cruntrue>runcfalse cruntrue>runctrue cruntrue>crunfalse " {
		t.Error(got)
	}
}
