package workloads

import (
	"os"
	"path/filepath"
	"testing"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/shared/wire"
)

// A weight that no disk obeys is refused; a process that had it before is still started.
func TestWeightNothingObeys(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/cgroup", "5:blkio:/\n")
	write("proc/mountinfo", "30 22 0:26 / "+filepath.Join(dir, "blkio")+" rw - cgroup cgroup rw,blkio\n")
	write("blkio/tasks", "")
	write("sys/block/sda/queue/scheduler", "[none] bfq")
	kernel := cgroup.Kernel{Rmdir: os.RemoveAll, Mkdir: func(path string) error {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(path, "blkio.bfq.weight"), nil, 0o644)
	}}
	g := &controlGroups{cfg: cgroup.Config{Proc: filepath.Join(dir, "proc"), Sys: filepath.Join(dir, "sys"),
		Kernel: &kernel}}
	weight := map[string]string{"blkio.weight": "1000"}
	if errs := g.Check(weight, "/at"); len(errs) != 1 || errs[0].Code != wire.CodeNotSupported ||
		errs[0].Path != "/at/blkio.weight" {
		t.Errorf("nobody obeys it: %v", errs)
	}
	dirs, err := g.Enter("c1.web", "start", weight)
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, %v", dirs, err)
	}
	if data, err := os.ReadFile(filepath.Join(dirs[0], "..", "blkio.bfq.weight")); err != nil || string(data) != "200" {
		t.Errorf("the group has %q, %v", data, err)
	}
	write("sys/block/sda/queue/scheduler", "none [bfq]")
	if errs := g.Check(weight, "/at"); errs != nil {
		t.Errorf("a disk obeys it: %v", errs)
	}
}
