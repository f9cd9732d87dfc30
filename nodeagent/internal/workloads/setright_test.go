package workloads

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/workload"
)

// links are the symbolic links in a directory, and where they lead to.
func links(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	all := map[string]string{}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			all[e.Name()] = leadsTo(dir, e.Name())
		}
	}
	return all, err
}

// What a workload puts in the place of its own resources, which it can, is not started: a program that was broken into
// does not come back by itself, be it signed or not.
func TestWhatASlotHasPutInPlaceOfAHookIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent()
		c := config("web", "one", "", workload.HookStatus)
		c.Resources["data"] = workload.Artifact{Class: workload.DynamicResource, UUID: "data-1"}
		a.Manager.Want([]workload.Config{c})
		settled(time.Minute)
		dir := a.Manager.dir("web", "c1")
		want, err := links(dir)
		if err != nil || len(want) != len(c.Resources) {
			t.Fatalf("%v, %v", want, err)
		}
		for name := range c.Resources {
			if err := relink(dir, name, filepath.Join(dir, "evil")); err != nil {
				t.Fatal(err)
			}
		}
		if err := relink(dir, fresh+"x", "/store/copies/other"); err != nil { // and one that is its own
			t.Fatal(err)
		}
		if err := os.Symlink("/etc", filepath.Join(dir, fresh)); err != nil {
			t.Fatal(err)
		}
		w.exit("web", keep.Status{ExitCode: 1})
		settled(time.Minute)
		got, err := links(dir)
		for name := range c.Resources {
			if err != nil || got[name] != want[name] {
				t.Errorf("%s leads to %q when it is started, not to %q; %v", name, got[name], want[name], err)
			}
		}
		// a dynamic resource may be the next one already
		if err := relink(dir, "data", "/store/copies/data-2"); err != nil {
			t.Fatal(err)
		}
		w.exit("web", keep.Status{ExitCode: 1})
		settled(time.Minute)
		if got := leadsTo(dir, "data"); got != "/store/copies/data-2" {
			t.Errorf("a dynamic resource leads to %q", got)
		}
		// what cannot be set right is not started
		if err := os.Remove(filepath.Join(dir, workload.HookStart)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, workload.HookStart), 0o755); err != nil {
			t.Fatal(err)
		}
		w.exit("web", keep.Status{ExitCode: 1})
		settled(time.Minute)
		if got := w.running()["web"]; len(got) != 0 {
			t.Errorf("%v run", got)
		}
		a.end()
	})
}

// A directory with more names than are held at a time loses all links to resources that it has no more, and nothing
// else.
func TestUnlinkOfManyNames(t *testing.T) {
	dir := t.TempDir()
	for i := range 2*someNames + 1 {
		if err := os.Symlink("/store/copies/x", filepath.Join(dir, fmt.Sprint("l", i))); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"kept": "/store/copies/x", "own": "/var/lib"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // what is removed while a directory is read may hide others from this reading, on some disks
		if err := unlink(dir, func(name, target string) bool {
			return name != "kept" && filepath.Dir(target) == "/store/copies"
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := links(dir); err != nil || len(got) != 2 {
		t.Errorf("%d links are left, %v", len(got), err)
	}
}
