package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/settings"
)

// The agent finds the keeper by itself in the program that it is, and keep --quit ends it with all of its runs.
func TestKeep(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "keeper")
	k, err := keep.Ensure(ctx, keep.Config{Dir: dir, Env: []string{asNode + "=1", "GORACE=atexit_sleep_ms=0"},
		Version: settings.Version})
	if err != nil {
		words, rerr := os.ReadFile(filepath.Join(dir, "stderr"))
		t.Fatalf("%v: %s (%v)", err, words, rerr)
	}
	who, err := k.Keeper(ctx)
	if err != nil || who.Version != settings.Version || who.PID == os.Getpid() {
		t.Errorf("%+v, %v", who, err)
	}
	// Where the machine has control groups, there is nothing left of the agent's when the keeper has ended.
	tree := cgroup.Config{Name: cgroup.NameOf(filepath.Dir(dir))}
	t.Cleanup(func() {
		if err := cgroup.Discard(tree); err != nil {
			t.Error(err)
		}
	})
	group, err := cgroup.Open(tree).Create("c1.web", nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := group.Leaf("start")
	if err != nil {
		t.Fatal(err)
	}
	if len(leaf) == 0 {
		t.Log("SKIPPED: this machine gives no control groups, so that they go was NOT tested")
	}
	if _, err := k.Start(ctx, keep.Run{ID: "a", Argv: []string{"/bin/sh", "-c", "exec sleep 1000"}, Dir: "/",
		Cgroups: leaf}); err != nil {
		t.Fatal(err)
	}
	if pids, err := cgroup.Processes(leaf); err != nil || len(leaf) > 0 && len(pids) == 0 {
		t.Errorf("in its groups are %v, %v", pids, err)
	}
	quit := func() {
		t.Helper()
		var out, errs bytes.Buffer
		if status := new(program).run(ctx, []string{"keep", "--dir", dir, "--quit"}, &out, &errs); status != exitOK ||
			errs.Len() > 0 || out.Len() > 0 {
			t.Errorf("status %d: %s%s", status, &out, &errs)
		}
	}
	quit()
	if _, err := keep.Dial(ctx, dir); !errors.Is(err, keep.ErrAbsent) {
		t.Errorf("after --quit: %v", err)
	}
	for _, d := range leaf {
		if _, err := os.Stat(filepath.Dir(filepath.Dir(d))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left: %s, %v", filepath.Dir(filepath.Dir(d)), err)
		}
	}
	quit() // of none
	if s, err := k.Get(ctx, "a"); err != nil || s.State != keep.Exited || s.Cause != keep.CauseQuit {
		t.Errorf("%+v, %v", s, err)
	}
	quit()
}

func TestKeepUsage(t *testing.T) {
	for args, want := range map[string]int{"--help": exitOK, "extra": exitUsage, "--nonsense": exitUsage} {
		var out, errs bytes.Buffer
		if status := new(program).run(t.Context(), []string{"keep", args}, &out, &errs); status != want ||
			out.Len()+errs.Len() == 0 {
			t.Errorf("%s: status %d, %s%s", args, status, &out, &errs)
		}
	}
}
