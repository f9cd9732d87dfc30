package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/container"
	"tandem.internal/shared/wire"
)

// A container runtime is looked for where settings let it, and offered when one was found; else it is told why.
func TestContainerRuntime(t *testing.T) {
	for _, row := range []struct {
		set     func(*Config)
		err     error
		path    string // that is asked for
		runtime string
		why     string
	}{
		{func(*Config) {}, nil, "", "crun", ""},
		{func(c *Config) { c.ContainerRuntime = "auto" }, nil, "", "crun", ""},
		{func(c *Config) { c.ContainerRuntime = "/opt/crun" }, nil, "/opt/crun", "crun", ""},
		{func(*Config) {}, errors.New("not\npermitted"), "", "", "permitted"},
		{func(c *Config) { c.ContainerRuntime = "none" }, nil, "-", "", "--container-runtime=none"},
		{func(c *Config) { c.WorkloadUsers = "70000-70010" }, nil, "-", "", "--workload-users"},
		{func(c *Config) { c.Workloads = false }, nil, "-", "", ""},
	} {
		asked := "-"
		a := &Agent{cfg: NewConfig("u1", "n1", "mainType", t.TempDir())}
		a.deps = Deps{Probe: func(_ context.Context, p container.Probing) (container.Runtime, error) {
			asked = p.Path
			if !filepath.IsAbs(p.Dir) {
				t.Errorf("%+v", p)
			}
			return container.Runtime{Name: "crun", Version: "1"}, row.err
		}}.withDefaults()
		a.log = a.deps.Log
		row.set(&a.cfg)
		c := a.containers(a.cfg.StateDir)
		if row.err != nil {
			c.Runtime = container.Runtime{}
		}
		if asked != row.path || c.Runtime.Name != row.runtime || !strings.Contains(c.Why, row.why) ||
			(c.Why == "") != (row.why == "") || strings.Contains(c.Why, "\n") {
			t.Errorf("asked for %q, %+v, want %+v", asked, c, row)
		}
		offered := ""
		for _, r := range a.cfg.runtimes("") {
			offered += r.Type + " "
		}
		if looked := row.path != "-"; (c.Look != nil) != looked || (c.Found != nil) != looked {
			t.Errorf("looks again: %v", c.Look != nil)
		} else if looked { // what is found later is offered, too
			c.Found(container.Runtime{Name: "later"})
			if all := a.cfg.runtimes(""); all[len(all)-1].Type != "later" {
				t.Errorf("offers %+v", all)
			}
		}
		want := strings.Replace("process RT", "RT", row.runtime, 1)
		if !a.cfg.Workloads {
			want = ""
		}
		if strings.TrimSpace(offered) != strings.TrimSpace(want) {
			t.Errorf("offers %q, want %q", offered, want)
		}
	}
	a := &Agent{cfg: NewConfig("u1", "n1", "mainType", t.TempDir()), deps: Deps{}}
	if c := a.containers(a.cfg.StateDir); c.Runtime.Name != "" || c.Why != "" {
		t.Errorf("%+v", c)
	}
	for setting, set := range map[string]func(*Config){
		"container-runtime": func(c *Config) { c.ContainerRuntime = "crun" },
		"component": func(c *Config) {
			c.Components = map[string]string{wire.ContainerRuntimes[0]: "/bin/true"}
		},
	} {
		c := NewConfig("u1", "n1", "mainType", t.TempDir())
		set(&c)
		var usage *UsageError
		if err := c.complete(); !errors.As(err, &usage) || usage.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// A runtime that shows only later is told then, and a set with a container is taken before: who needs none runs.
func TestContainerRuntimeShowsLater(t *testing.T) {
	bubble(t, func(r *rig) {
		newWorks(r)
		looks := 0
		r.deps.Probe = func(context.Context, container.Probing) (container.Runtime, error) {
			if looks++; looks < 3 {
				return container.Runtime{}, errors.New("too slow")
			}
			return container.Runtime{Name: "crun", Version: "9", Overlay: true}, nil
		}
		r.start()
		told := func() (attribute string, offers int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			all := r.reports[wire.KindInfo]
			i := decode[wire.NodeInfo](r, all[len(all)-1].Detail)
			return i.Attributes[wire.AttributeContainers], len(i.Runtimes)
		}
		if text, n := told(); text != "none: too slow" || n != 1 {
			t.Errorf("%s, %d runtimes", text, n)
		}
		const sum = `"verification":{"checksum":"SHA256:` +
			`abababababababababababababababababababababababababababababababab"}}`
		r.desire(duty(1, "web@n1", `box@n1 ,"container":{"runtime":"crun"},"resources":{"iss_hook_start":`+
			`{"@class":"Resource","uuid":"image","urls":["https://h/image"],"size":0,`+sum+`}`))
		r.pass(5 * time.Second)
		state := func(i int) string {
			report, slots := r.duties()
			if report != "1/1 installed" || len(slots) != 2 {
				t.Fatalf("%s %+v", report, slots)
			}
			return fmt.Sprint(slots[i].Slot, " ", slots[i].State, " ", slots[i].Error)
		}
		if box, web := state(0), state(1); !strings.HasPrefix(web, "web@n1 running") ||
			!strings.Contains(box, "no container runtime: too slow") {
			t.Errorf("%s; %s", box, web)
		}
		r.pass(time.Minute)
		if box := state(0); strings.Contains(box, "no container runtime") {
			t.Error(box)
		}
		if text, n := told(); text != "crun 9" || n != 2 || looks != 3 {
			t.Errorf("%s, %d runtimes, after %d looks", text, n, looks)
		}
	})
}
