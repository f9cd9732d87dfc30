package cgroup

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/shared/limits"
)

// realTree is a tree in this machine's own groups.
func realTree(t *testing.T) *Tree {
	t.Helper()
	cfg := Config{Name: fmt.Sprintf("tandem-cgroup-test-%d", os.Getpid())}
	tree := Open(cfg)
	t.Cleanup(func() {
		if err := Discard(cfg); err != nil {
			t.Errorf("groups are left: %v", err)
		}
	})
	if caps := tree.Capabilities(); len(caps.Files["memory"]) == 0 || len(caps.Files["pids"]) == 0 {
		t.Skipf("SKIPPED: this machine gives no control groups, so real ones were NOT tested: %s", caps.Why)
	}
	t.Logf("real control groups %v", tree.Capabilities().Version)
	return tree
}

// Everything that can be set on this machine's own groups is taken by its kernel, in any order, and is undone.
func TestRealSettings(t *testing.T) {
	tree := realTree(t)
	g, err := tree.Create("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Leaf("start"); err != nil {
		t.Fatal(err)
	}
	content := func() map[string]string {
		all := map[string]string{}
		for _, s := range append(limits.Reset(tree.Capabilities()), limits.DeviceFiles(tree.Capabilities())...) {
			data, err := os.ReadFile(g.file(s))
			if err != nil {
				t.Fatal(err)
			}
			all[s.File] = string(data)
		}
		return all
	}
	fresh := content()
	for _, constraints := range []map[string]string{
		{"memory.limit_in_bytes": "64M", "memory.memsw.limit_in_bytes": "128M", "cpu.shares": "512"},
		{"memory.limit_in_bytes": "1G", "memory.memsw.limit_in_bytes": "2G", "cpu.cfs_quota_us": "20000",
			"cpu.cfs_period_us": "50000"},
		{"memory.limit_in_bytes": "32M", "memory.memsw.limit_in_bytes": "32M", "pids.max": "10",
			"cpu.max": "5000 10000", "cpu.cfs_burst_us": "1000"},
		{"memory.soft_limit_in_bytes": "16M", "io.weight": "200", "pids.max": "max"},
		{"memory.max": "max", "cpu.max": "max"},
		{},
	} {
		settings := []limits.Setting{}
		for name, value := range constraints { // one that this kernel lacks is no reason to leave out the others
			if list, errs := limits.Map(map[string]string{name: value}, tree.Capabilities(), ""); len(errs) == 0 {
				settings = append(settings, list...)
			} else if all, errs := limits.Map(constraints, tree.Capabilities(), ""); len(errs) == 0 {
				settings = all
				break
			} else {
				t.Logf("not here: %v", errs)
			}
		}
		if err := g.Apply(settings); err != nil {
			t.Errorf("%v: %v", constraints, err)
		}
		for _, s := range settings {
			data, err := os.ReadFile(g.file(s))
			if want := strings.TrimPrefix(s.Value, "-"); err != nil || s.Value != "-1" &&
				!strings.Contains(string(data), want) {
				t.Errorf("%s is %q, %v; want %q", s.File, data, err, s.Value)
			}
		}
	}
	if now := content(); !maps.Equal(now, fresh) {
		t.Errorf("settings are left: %v, and was %v", now, fresh)
	}
}

func TestRealKill(t *testing.T) {
	tree := realTree(t)
	g, err := tree.Create("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := g.Leaf("start")
	if err != nil {
		t.Fatal(err)
	}
	script := "read go; sleep 1000 & sleep 1000 & wait"
	cmd := exec.Command("/bin/sh", "-c", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if err := writeFile(filepath.Join(d, procsFile), fmt.Sprint(cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if stats, err := g.Stats(); err != nil || stats.Processes == 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	if err := g.Remove(); err == nil {
		t.Error("a group with processes is removed")
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := g.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("it was not killed")
	}
	if s, err := g.Stats(); err != nil || s.Processes != 0 || s.OOMKills != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := g.Kill(ctx); err != nil {
		t.Errorf("a group that is gone: %v", err)
	}
}
