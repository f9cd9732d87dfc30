package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/nodeagent/internal/keep"
	"tandem.internal/shared/settings"
)

// TestKeeperWithUsers: an agent of root's replaces an idle keeper that gives slots no users; one that is not root does
// so, too, starts none itself, and says who has to.
func TestKeeperWithUsers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: keepers that give slots users; only root can start them")
	}
	dir := filepath.Join(t.TempDir(), "keeper")
	cfg := keep.Config{Dir: dir, Env: []string{asNode + "=1", "GORACE=atexit_sleep_ms=0"}, Version: settings.Version}
	users := func(cfg keep.Config) string {
		t.Helper()
		c, err := keep.Ensure(ctx, cfg)
		if err != nil {
			words, rerr := os.ReadFile(filepath.Join(dir, "stderr"))
			t.Fatalf("%v: %s (%v)", err, words, rerr)
		}
		k, err := c.Keeper(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return k.Users
	}
	if got := users(cfg); got != "" {
		t.Errorf("users %q", got)
	}
	served := cfg
	first := 1_000_000 + 10*uint32(os.Getpid()) // of several tests at the same time each has its own
	served.Users, served.Served = keep.Users{First: first, Last: first + 9}, true
	c, err := keep.Ensure(ctx, served) // which ends it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Keeper(ctx); !errors.Is(err, keep.ErrAbsent) {
		t.Errorf("the keeper without users: %v", err)
	}
	if _, err := keep.Ensure(ctx, served); !errors.Is(err, keep.ErrAbsent) || !strings.Contains(err.Error(),
		"--workload-users") {
		t.Error(err)
	}
	own := served
	own.Served = false
	for _, c := range []keep.Config{cfg, own, cfg, own} { // each replaces the one before
		if got := users(c); got != c.Users.String() {
			t.Errorf("users %q, want %q", got, c.Users)
		}
	}
	if got := users(served); got != served.Users.String() {
		t.Errorf("users %q", got)
	}
	c, err = keep.Ensure(ctx, own)
	if err != nil {
		t.Fatal(err)
	}
	run := keep.Run{ID: "a", Slot: "a", Argv: []string{"/bin/true"},
		Dir: filepath.Join(filepath.Dir(dir), "slots/a/c1"), Confine: &keep.Confine{Room: confine.System()}}
	if err := os.MkdirAll(run.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Start(ctx, run); err != nil || s.UID != first+1 || !s.Confined.Has(confine.User) {
		t.Errorf("%+v, %v", s, err)
	}
	var out, errs bytes.Buffer
	if status := new(program).run(ctx, []string{"keep", "--dir", dir, "--quit"}, &out, &errs); status != exitOK {
		t.Errorf("status %d: %s%s", status, &out, &errs)
	}
}

// TestKeepUsersUsage: settings of a keeper with users are checked before anything is started.
func TestKeepUsersUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--users 70000":                              "a range of users",
		"--users 70000-70009 --loopback x":           "--loopback",
		"--users 70000-70009 --user nobody-of-these": "there is no user",
		"--users 70000-70009 --user 70001:100":       "the agent's user is one of them",
		"--users 70000-70009 --user a:b":             "invalid syntax",
	} {
		var out, errs bytes.Buffer
		status := new(program).run(t.Context(), append([]string{"keep", "--dir", t.TempDir()}, strings.Fields(args)...),
			&out, &errs)
		if status != exitError || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, %s", args, status, &errs)
		}
	}
	if uid, gid, err := ids("root"); err != nil || uid != 0 || gid != 0 {
		t.Error(fmt.Sprint(uid, gid, err))
	}
}
