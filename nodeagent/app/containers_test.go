package app

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

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
