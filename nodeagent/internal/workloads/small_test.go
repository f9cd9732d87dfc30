package workloads

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/supervise"
	"tandem.internal/shared/wire"
	"tandem.internal/shared/workload"
)

func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		if _, err := a.Logs(&wire.LogsParams{Service: "web"}); err == nil || err.Code != wire.CodeNotFound {
			t.Errorf("of no slot: %v", err)
		}
		w.missing["web-data"] = true
		a.Manager.Want([]workload.Config{config("web", "one", "")})
		settled(time.Second)
		read := func(cursor string, tail int) *wire.LogsResult {
			t.Helper()
			r, err := a.Logs(&wire.LogsParams{Service: "web", Cursor: cursor, Tail: tail})
			if err != nil {
				t.Fatal(err)
			}
			if _, derr := wire.Decode[wire.LogsResult](wire.Encode(r)); derr != nil {
				t.Error(derr)
			}
			return r
		}
		nothing := read("", 100)
		if len(nothing.Data) > 0 || nothing.Skipped {
			t.Errorf("before the first start: %+v", nothing)
		}
		dir := filepath.Join(w.dir, "logs", "web")
		write := func(n int, text string) {
			t.Helper()
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(fmt.Sprint(dir, "/process.", n), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		write(1, "first\nsecond\n")
		if r := read(nothing.Cursor, 0); string(r.Data) != "first\nsecond\n" || r.Skipped {
			t.Errorf("what came since: %q, %v", r.Data, r.Skipped)
		}
		end := read("", 0)
		if len(end.Data) != 0 {
			t.Errorf("the last 0 bytes: %q", end.Data)
		}
		if r := read("", 8); string(r.Data) != "second\n" || r.Skipped {
			t.Errorf("the last lines: %q", r.Data)
		}
		write(1, "third\n")
		write(2, "fourth\n")
		r := read(end.Cursor, 0)
		if string(r.Data) != "third\n" {
			t.Errorf("go on: %q", r.Data)
		}
		if r = read(r.Cursor, 0); string(r.Data) != "fourth\n" || r.Skipped {
			t.Errorf("the next file: %q", r.Data)
		}
		if err := os.Remove(dir + "/process.1"); err != nil {
			t.Fatal(err)
		}
		if r = read(end.Cursor, 0); string(r.Data) != "fourth\n" || !r.Skipped {
			t.Errorf("what is gone: %q, %v", r.Data, r.Skipped)
		}
		write(3, strings.Repeat("x", wire.MaxLogs+10))
		if r = read("2:7", 0); len(r.Data) != wire.MaxLogs {
			t.Errorf("a piece has %d bytes", len(r.Data))
		}
		if r = read(r.Cursor, 0); len(r.Data) != 10 {
			t.Errorf("the rest has %d bytes", len(r.Data))
		}
		for _, bad := range []string{"x", "1", "1:", ":1", "1:-1", "-1:0", "1:2:3", " 1:2", "1:99999999999999999999",
			"1:18446744073709551615"} {
			if _, err := a.Logs(&wire.LogsParams{Service: "web", Cursor: bad}); err == nil || err.Path != "/cursor" {
				t.Errorf("cursor %q: %v", bad, err)
			}
		}
		a.Manager.Want(nil)
		settled(time.Minute)
		if _, err := a.Logs(&wire.LogsParams{Service: "web"}); err == nil || err.Code != wire.CodeNotFound {
			t.Errorf("of a slot that is gone: %v", err)
		}
		w.only(map[string]string{})
		a.end()
	})
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET", "of the agent")
	c := config("web", "one", "")
	c.Properties = map[string]string{"a.b": "1", "a_b": "2", "port": "80\n=x"}
	env := environment(supervise.Run{Hook: workload.HookStart, Config: c}, "/d")
	want := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/d", "TMPDIR=/d",
		"TANDEM_DIR=/d", "TANDEM_HOOK=iss_hook_start", "TANDEM_SLOT=web@n1", "TANDEM_SERVICE=web",
		"TANDEM_NODE=n1", "TANDEM_CONFIGURATION_ID=one",
		`TANDEM_PROPERTIES={"a.b":"1","a_b":"2","port":"80\n=x"}`, "TANDEM_PROPERTY_a_b=1",
		"TANDEM_PROPERTY_port=80\n=x"}
	if !slices.Equal(env, want) {
		t.Errorf("%q", env)
	}
	c.Properties = map[string]string{"env.LEVEL_1": "info", "env.PATH": "/x", "env.TANDEM_DIR": "/x", "env.A-B": "x",
		"env.": "x"}
	env = environment(supervise.Run{Hook: workload.HookStart, Config: c}, "/d")
	if !slices.Contains(env, "LEVEL_1=info") || slices.Contains(env, "PATH=/x") || slices.Contains(env, "A-B=x") ||
		slices.Contains(env, "TANDEM_DIR=/x") || slices.Contains(env, "=x") {
		t.Errorf("%q", env)
	}
	// A container has none of the node's directories, and what an operator sets reaches it.
	c.Container = &workload.Container{Runtime: "crun"}
	env = environment(supervise.Run{Hook: workload.HookStart, Config: c}, "/d")
	if !slices.Equal(env[len(env)-3:], []string{"LEVEL_1=info", "PATH=/x", "TANDEM_DIR=/x"}) ||
		strings.Contains(strings.Join(env, "\n"), "/d") {
		t.Errorf("%q", env)
	}
	c.Container, c.Properties = nil, nil
	if env := environment(supervise.Run{Hook: workload.HookStart, Config: c},
		"/d"); env[len(env)-1] != "TANDEM_PROPERTIES={}" {
		t.Errorf("%q", env)
	}
}

func TestReportFits(t *testing.T) {
	slots := func(n int, text string, resources int) wire.Workloads {
		w := wire.Workloads{}
		for i := range n {
			s := wire.WorkloadSlot{Slot: fmt.Sprintf("s%d@n1", i), ID: "v" + text, State: wire.WorkloadPreparing,
				Since: time.Unix(1, 0).UTC()}
			for j := range resources {
				s.Resources = append(s.Resources, wire.WorkloadResource{Name: fmt.Sprint("r", j), State: "waiting"})
			}
			w.Slots = append(w.Slots, s)
		}
		return w
	}
	for _, c := range []struct {
		in       wire.Workloads
		slots    int // at least
		resource bool
	}{
		{slots(3, "", 4), 3, true},
		{slots(2000, "", 0), 1024, false},
		{slots(900, "", 32), 900, false},
		{slots(2000, strings.Repeat("x", 250), 32), 500, false},
	} {
		total := len(c.in.Slots)
		w := fit(c.in)
		data := wire.Encode(&w)
		if _, err := wire.Decode[wire.Workloads](data); err != nil {
			t.Error(err)
		}
		if len(w.Slots) < c.slots || len(w.Slots)+w.More != total || len(data) > maxReport ||
			c.resource != (len(w.Slots[0].Resources) > 0) {
			t.Errorf("of %d slots %d, and %d more, in %d bytes", total, len(w.Slots), w.More, len(data))
		}
	}
}

// Whatever a crash has left of a directory, link makes the same of it, and remove nothing.
func TestLinkAndRemoveAfterCrash(t *testing.T) {
	c := config("web", "one", "", workload.HookInstall)
	c.Resources["also"] = workload.Artifact{Class: workload.DynamicResource, UUID: "web-also"}
	for name, prepare := range map[string]func(dir, logs string) error{
		"nothing":          func(string, string) error { return nil },
		"slot's directory": func(dir, _ string) error { return os.MkdirAll(filepath.Dir(dir), 0o755) },
		"no links":         func(dir, _ string) error { return os.MkdirAll(dir, 0o755) },
		"half a link": func(dir, logs string) error {
			return joined(os.MkdirAll(dir, 0o755), os.MkdirAll(logs, 0o755),
				os.Symlink("/store/copies/x", filepath.Join(dir, fresh)))
		},
		"some links": func(dir, _ string) error {
			return joined(os.MkdirAll(dir, 0o755), os.Symlink("/store/copies/web-also", filepath.Join(dir, "also")),
				os.Symlink("/store/copies/old", filepath.Join(dir, "data")))
		},
		"links of before": func(dir, _ string) error {
			return joined(os.MkdirAll(dir, 0o755), os.Symlink("/store/copies/old", filepath.Join(dir, "given up")))
		},
		"logs only": func(_, logs string) error { return os.MkdirAll(logs, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for _, r := range c.Resources {
					w.wanted = append(w.wanted, r)
				}
				a := &agent{world: w}
				m := New(Config{Dir: w.dir, Resources: w, Groups: a})
				dir, logs := m.dir("web", "c1"), filepath.Join(w.dir, "logs", "web", "c1")
				if err := prepare(dir, logs); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := m.link(dir, c); err != nil {
						t.Fatal(err)
					}
					got, err := links(dir)
					if err != nil || len(got) != 4 {
						t.Errorf("%v, %v", got, err)
					}
					for name, r := range c.Resources {
						if got[name] != "/store/copies/"+r.UUID {
							t.Errorf("%s leads to %q", name, got[name])
						}
					}
				}
				own := filepath.Join(dir, "current")
				if err := os.Symlink("/var/lib/web", own); err != nil { // the process's
					t.Fatal(err)
				}
				fewer := config("web", "one", "", workload.HookInstall)
				if err := m.link(dir, fewer); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Readlink(own); err != nil {
					t.Error("what a process has made is gone")
				}
				if got, _ := links(dir); len(got) != 4 || got["also"] != "" {
					t.Errorf("of fewer resources: %v", got)
				}
				w.missing["web-data"] = true
				before, _ := links(dir)
				if err := m.link(dir, c); err == nil || err.Code != wire.CodeUnavailable ||
					err.Path != "/resources/data" {
					t.Errorf("without a resource: %v", err)
				}
				if after, _ := links(dir); len(after) != len(before) {
					t.Errorf("without a resource it is changed: %v", after)
				}
				w.missing["web-data"] = false
				if err := os.Mkdir(filepath.Join(dir, "also"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := m.link(dir, c); err == nil || err.Code != wire.CodeStorage {
					t.Errorf("where a directory is in the way: %v", err)
				}
				if err := os.MkdirAll(logs, 0o755); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := m.remove("web", "c1"); err != nil {
						t.Fatal(err)
					}
					for _, d := range []string{"slots/web", "logs/web"} {
						if _, err := os.Stat(filepath.Join(w.dir, d)); !os.IsNotExist(err) {
							t.Errorf("%s: %v", d, err)
						}
					}
				}
			})
		})
	}
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A resource may have any name that a file may have.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		c := config("memory", "one", "") // a control file's name
		for i, name := range []string{".tandem-link", "-", ".hidden", "имя", strings.Repeat("x", 255)} {
			c.Resources[name] = workload.Artifact{Class: workload.Resource, UUID: fmt.Sprint("u", i)}
		}
		a.Manager.Want([]workload.Config{c})
		settled(time.Minute)
		w.only(map[string]string{"memory": "one"})
		got, err := links(a.Manager.dir("memory", "c1"))
		if err != nil || len(got) != len(c.Resources) {
			t.Errorf("%v, %v", got, err)
		}
		if !w.groups["c1.memory"] {
			t.Errorf("groups %v", w.groups)
		}
		a.end()
	})
}

// What constrains a configuration is given to the control group of each of its hooks, before that is started.
func TestConstraints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		c := config("web", "one", "", workload.HookInstall)
		c.Container = &workload.Container{Constraints: map[string]string{"memory.limit_in_bytes": "20G"}}
		a.Manager.Want([]workload.Config{c, config("free", "one", "")})
		settled(time.Minute)
		w.only(map[string]string{"web": "one", "free": "one"})
		for run, want := range map[string]map[string]string{"c1.web/install": c.Container.Constraints,
			"c1.web/start": c.Container.Constraints, "c1.free/start": nil} {
			if got, entered := w.limits[run]; !entered || !maps.Equal(got, want) {
				t.Errorf("%s has %v, want %v (entered: %v)", run, got, want, entered)
			}
		}
		a.end()
	})
}
