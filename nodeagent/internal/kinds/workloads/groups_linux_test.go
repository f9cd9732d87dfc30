package workloads

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/shared/wire"
)

// Where no control group tells, /proc does; what cannot be found out is absent.
func TestUsage(t *testing.T) {
	none := t.TempDir()
	g := &controlGroups{cfg: cgroup.Config{Proc: none, Sys: none}}
	held := make([]byte, 32<<20)
	for i := range held {
		held[i] = byte(i)
	}
	var before syscall.Rusage
	for before.Utime.Nano() < int64(20*time.Millisecond) { // bounded: the loop itself uses it up
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
			t.Fatal(err)
		}
	}
	u := g.Usage("c1.web", os.Getpid())
	if u.PID != os.Getpid() || u.Memory < uint64(len(held)) || u.CPUMs < 10 || u.CPUMs > 600_000 {
		t.Errorf("%+v", u)
	}
	runtime.KeepAlive(held)
	const nobody = 1 << 30 // above any PID
	if u := g.Usage("../x", nobody); u != (wire.WorkloadProcess{PID: nobody}) {
		t.Errorf("%+v", u)
	}
}

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
