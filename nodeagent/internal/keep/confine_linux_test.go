package keep

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/shared/wire"
)

// confined is a run of a script in a directory of its own below the work directory.
func (r *rig) confined(id, dir, script string) Run {
	r.t.Helper()
	run := r.shell(id, script)
	run.Dir = filepath.Join(r.work, dir)
	if err := os.MkdirAll(run.Dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	run.Confine = &Confine{Room: confine.System().With(confine.Room{Write: []string{run.Dir}})}
	return run
}

// TestConfinedRuns: runs of one directory are in one domain, those of others and the keeper are outside of it.
func TestConfinedRuns(t *testing.T) {
	r := newRig(t)
	level, why := confine.Possible()
	if level != confine.Landlock {
		t.Logf("THIS KERNEL CONFINES TO %s ONLY: %v", level, why)
	}
	main := r.start(r.confined("main", "a", "exec sleep 1000"))
	k, err := r.c.Keeper(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if main.Confined != level {
		t.Errorf("confined to %q, possible is %q", main.Confined, level)
	}
	able := func(l confine.Level) bool { return level.AtLeast(l) }
	for _, c := range []struct {
		id, dir, script string
		success         bool
	}{
		{"stop", "a", fmt.Sprint("kill -0 ", main.PID), true},
		{"environ", "a", fmt.Sprintf("cat /proc/%d/environ", main.PID), true},
		{"write", "a", "echo x >file && mkdir d && mv file d", true},
		{"other", "b", fmt.Sprint("kill -0 ", main.PID), !able(confine.Landlock)},
		{"keeper", "a", fmt.Sprint("kill -0 ", k.PID), !able(confine.Landlock)},
		{"keeper-environ", "a", fmt.Sprintf("cat /proc/%d/environ", k.PID), !able(confine.Files)},
		{"beside", "b", "ls " + filepath.Join(r.work, "a"), !able(confine.Files)},
		{"identity", "b", "cat " + filepath.Join(r.dir, "identity"), !able(confine.Files)},
		{"unshare", "b", "unshare -U true", !able(confine.Basic)},
		{"rights", "b", "grep -q 'NoNewPrivs:.1' /proc/self/status", able(confine.Basic)},
	} {
		r.start(r.confined(c.id, c.dir, c.script))
		if s := r.wait(c.id); s.Success() != c.success || s.Confined != level {
			t.Errorf("%s: %+v\n%s", c.id, s, r.output(c.id))
		}
	}
	elsewhere := r.confined("elsewhere", "a", "")
	elsewhere.Argv = []string{filepath.Join(r.work, "program")} // beside its directory
	if err := os.WriteFile(elsewhere.Argv[0], []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if s := r.start(elsewhere); able(confine.Files) && !strings.Contains(s.Error, "permission denied; perhaps what") {
		t.Errorf("%+v", s)
	}
	if s := r.start(r.shell("free", "grep -q 'NoNewPrivs:.0' /proc/self/status")); s.Confined != "" {
		t.Errorf("%+v", s)
	}
	if s := r.wait("free"); !s.Success() {
		t.Errorf("a run that is not confined: %+v", s)
	}
}

// TestConfinedInGroups: a confined run is in its control groups, and no thread of the keeper's stays there.
func TestConfinedInGroups(t *testing.T) {
	tree, settings := groups(t, map[string]string{"pids.max": "100"})
	dirs := leaf(t, tree, settings, "confined")
	r := newRig(t)
	r.start(r.confined("main", "a", "exec sleep 1000")) // keeps the domain
	for i := range 3 {
		run := r.confined(fmt.Sprint("run-", i), "a", "cat /proc/self/cgroup; (setsid sleep 1000 &); exit 0")
		run.Cgroups = dirs
		r.start(run)
		if s := r.wait(run.ID); !s.Success() || s.Confined == "" {
			t.Errorf("%+v", s)
		}
		if out := r.output(run.ID); !strings.Contains(out, "confined") {
			t.Errorf("it was not in %q:\n%s", dirs, out)
		}
		if n := population(t, dirs); n != 0 {
			t.Errorf("%d are left in %q", n, dirs)
		}
	}
	g, err := tree.Group("confined")
	if err == nil {
		err = g.Remove()
	}
	if err != nil {
		t.Errorf("the group is in use: %v", err)
	}
}

// TestLeastConfinement: what cannot be confined as far as it has to be is not started, and who asks says so in a way
// that a keeper which knows nothing of it refuses.
func TestLeastConfinement(t *testing.T) {
	r := newRig(t)
	run := r.confined("newer", "a", "touch started")
	run.Confine.Least = "newer"
	s := r.start(run)
	if s.State != Exited || !strings.Contains(s.Error, `it has to be confined to "newer" at least, and this`) {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(filepath.Join(run.Dir, "started")); err == nil {
		t.Error("it was started")
	}
	run.ID, run.Confine.Least = "relative", ""
	run.Confine.Room.Read = []string{"etc"}
	if _, err := r.c.Start(r.ctx(), run); !errors.Is(err, &wire.Error{Code: wire.CodeInvalidArgument}) {
		t.Error(err)
	}

	dir := t.TempDir()
	l, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	old := make(chan string)
	go func() { // a keeper of before
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var q request
		if err := readMessage(bufio.NewReader(conn), &q); err == nil {
			data, _ := encodeMessage(answer{Error: wire.New(wire.CodeNotSupported, "", "not known")})
			_, _ = conn.Write(data)
		}
		old <- q.Op
	}()
	c, err := newClient(Config{Dir: dir}, false)
	if err != nil {
		t.Fatal(err)
	}
	run.Confine = &Confine{Least: confine.Basic}
	asked := make(chan error, 1)
	go func() { _, err := c.Start(r.ctx(), run); asked <- err }()
	if op := <-old; op != opConfine {
		t.Errorf("asked to %q", op)
	}
	if err := <-asked; !errors.Is(err, &wire.Error{Code: wire.CodeNotSupported}) {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
