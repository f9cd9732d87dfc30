package keep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

func TestHowRunsEnd(t *testing.T) {
	r := newRig(t)
	notes := filepath.Join(r.work, "notes")
	if err := os.WriteFile(notes, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Run)
		script string
		want   Status
		err    string
	}{
		{name: "well", script: "exit 0", want: Status{State: Exited}},
		{name: "with-a-code", script: "exit 7", want: Status{State: Exited, ExitCode: 7}},
		{name: "by-a-signal", script: "kill -SEGV $$", want: Status{State: Exited, Signal: int(syscall.SIGSEGV)}},
		{name: "no-program", change: func(r *Run) { r.Argv[0] = "/nowhere/at/all" }, want: Status{State: Exited},
			err: "start /nowhere/at/all: no such file or directory"},
		{name: "not-executable", change: func(r *Run) { r.Argv[0] = notes }, want: Status{State: Exited},
			err: "permission denied"},
		{name: "no-directory", change: func(r *Run) { r.Dir = "/nowhere" }, want: Status{State: Exited},
			err: "its directory: stat /nowhere: no such file or directory"},
		{name: "no-group", change: func(r *Run) { r.Cgroups = []string{"/sys/fs/cgroup/nowhere"} },
			want: Status{State: Exited}, err: "its control group: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := r.shell(c.name, c.script)
			if c.change != nil {
				c.change(&run)
			}
			r.start(run)
			s := r.wait(c.name)
			if s.State != c.want.State || s.ExitCode != c.want.ExitCode || s.Signal != c.want.Signal || s.Cause != "" ||
				s.OOMKills != 0 {
				t.Errorf("%+v, want %+v", s, c.want)
			}
			if !strings.Contains(s.Error, c.err) || (c.err == "") != (s.Error == "") {
				t.Errorf("error %q, want %q", s.Error, c.err)
			}
			if s.Success() != (c.name == "well") {
				t.Errorf("success: %v", s.Success())
			}
			if s.Started.IsZero() || s.Ended.Before(s.Started) {
				t.Errorf("from %v to %v", s.Started, s.Ended)
			}
		})
	}
}

// A process has its own environment and nothing of the keeper's or the test's.
func TestSurroundings(t *testing.T) {
	r := newRig(t)
	r.start(r.shell("a",
		`echo "$GREETING"; pwd; ls /proc/self/fd | tr '\n' ' '; echo; env | grep -c .; env | grep ^TANDEM; `+
			`read x || echo no input; echo problem >&2; cat /proc/$$/stat`))
	s := r.wait("a")
	lines := strings.Split(strings.TrimSpace(r.output("a")), "\n")
	id, err := identity(r.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	// 3 is ls's own; PWD and _ are the shell's
	want := []string{"hello", r.work, "0 1 2 3 ", "5", "TANDEM_RUN=" + id + "/a", "no input", "problem"}
	if len(lines) != len(want)+1 {
		t.Fatalf("%q", lines)
	}
	for i, w := range want {
		if i == 3 { // what shells add differs
			continue
		}
		if lines[i] != w {
			t.Errorf("line %d is %q, want %q", i, lines[i], w)
		}
	}
	p, ok := parseStat(s.PID, []byte(lines[len(want)]))
	if !ok || p.group != s.PID || p.session != s.PID {
		t.Errorf("%+v of process %d", p, s.PID)
	}
}

// However often it is asked for, a run is started once.
func TestStartIsOnce(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		run := r.shell(fmt.Sprint("once-", i), "echo started >>starts")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := r.c.Start(r.ctx(), run); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() { // an agent that is killed when it has sent this, or half of it
				conn, err := dial(r.ctx(), r.dir)
				if err != nil {
					t.Error(err)
					return
				}
				data, err := encodeMessage(request{Protocol: Protocol, Op: opStart, Run: &run})
				if err != nil {
					t.Error(err)
				}
				if _, err := conn.Write(data); err != nil && !errors.Is(err, syscall.EPIPE) {
					t.Error(err)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s := r.wait(run.ID); !s.Success() {
			t.Errorf("%+v", s)
		}
	}
	if data, err := os.ReadFile(filepath.Join(r.work, "starts")); err != nil ||
		strings.Count(string(data), "started") != 5 {
		t.Errorf("%q, %v", data, err)
	}
	all, err := r.c.List(r.ctx())
	if err != nil || len(all) != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := r.c.Forget(r.ctx(), "once-0"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.c.Get(r.ctx(), "once-0"); !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
		t.Errorf("a forgotten run: %v", err)
	}
	r.start(r.shell("once-0", "echo started >>starts")) // a new one
	r.wait("once-0")
}

func TestStop(t *testing.T) {
	r := newRig(t)
	up := r.pipe("up")
	// One that obeys, with what it has to do first.
	r.start(r.shell("obeys", `trap 'echo bye; exit 3' TERM; echo up >up; while :; do sleep 1000 & wait $!; done`))
	up.line()
	s, err := r.c.Stop(r.ctx(), "obeys", time.Hour)
	if err != nil || s.State != Running || s.Cause != CauseStop {
		t.Errorf("%+v, %v", s, err)
	}
	if s := r.wait("obeys"); s.ExitCode != 3 || s.Signal != 0 || s.Cause != CauseStop ||
		!strings.HasSuffix(r.output("obeys"), "bye\n") {
		t.Errorf("%+v, %q", s, r.output("obeys"))
	}
	// One that does not, nor do those that it started.
	r.start(r.shell("deaf",
		`trap '' TERM HUP INT; (while :; do sleep 1000; done) & echo $! >up; while :; do sleep 1000; done`))
	child := up.pid()
	if _, err := r.c.Stop(r.ctx(), "deaf", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := r.c.Signal(r.ctx(), "deaf", syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	if s, err := r.c.Get(r.ctx(), "deaf"); err != nil || s.State != Running {
		t.Errorf("%+v, %v", s, err)
	}
	for _, grace := range []time.Duration{20 * time.Millisecond, time.Hour} { // the earliest counts
		if _, err := r.c.Stop(r.ctx(), "deaf", grace); err != nil {
			t.Fatal(err)
		}
	}
	if s := r.wait("deaf"); s.Signal != int(syscall.SIGKILL) || s.Cause != CauseStop || !ended(child) {
		t.Errorf("%+v; its child has ended: %v", s, ended(child))
	}
	// What has ended is not stopped, and does not change.
	if s, err := r.c.Stop(r.ctx(), "obeys", 0); err != nil || s.ExitCode != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := r.c.Signal(r.ctx(), "obeys", syscall.SIGHUP); !errors.Is(err, &wire.Error{Code: wire.CodeWrongState}) {
		t.Errorf("a signal to what has ended: %v", err)
	}
	if err := r.c.Signal(r.ctx(), "nobody", syscall.SIGHUP); !errors.Is(err, &wire.Error{Code: wire.CodeNotFound}) {
		t.Errorf("a signal to nobody: %v", err)
	}
}

func TestMaxExecution(t *testing.T) {
	r := newRig(t)
	up := r.pipe("up")
	run := r.shell("slow", `trap '' TERM; (while :; do sleep 1000; done) & echo $! >up; while :; do sleep 1000; done`)
	run.MaxExecution = 300 * time.Millisecond
	r.start(run)
	s := r.wait("slow")
	if s.Cause != CauseTimeout || s.Signal != int(syscall.SIGKILL) || s.Ended.Sub(s.Started) < run.MaxExecution {
		t.Errorf("%+v", s)
	}
	if child := up.pid(); !ended(child) {
		t.Errorf("its child %d lives on", child)
	}
	quick := r.shell("quick", "exit 4")
	quick.MaxExecution = time.Hour
	r.start(quick)
	if s := r.wait("quick"); s.Cause != "" || s.ExitCode != 4 {
		t.Errorf("%+v", s)
	}
}

// What makes itself a daemon, in whatever way, ends with its run and not with another one.
func TestDaemons(t *testing.T) {
	r := newRig(t)
	up := r.pipe("up")
	r.start(r.shell("other", `echo $$ >up; exec sleep 1000`))
	other := up.pid()
	for name, way := range map[string]string{
		"child":       `sh -c 'echo $$ >up; exec sleep 1000'`,
		"own-session": `setsid sh -c 'echo $$ >up; exec sleep 1000'`,
		"twice": `(setsid sh -c '(setsid sh -c "echo \$\$ >up; exec sleep 1000"` +
			` </dev/null >/dev/null 2>&1 &)' &)`,
		"deaf":         `setsid sh -c 'trap "" TERM INT HUP; echo $$ >up; while :; do sleep 1000; done'`,
		"without-mark": `env -i PATH="$PATH" sh -c 'echo $$ >up; exec sleep 1000'`,
		"false-mark":   `TANDEM_RUN=0123456789abcdef/other sh -c 'echo $$ >up; exec sleep 1000'`,
	} {
		t.Run(name, func(t *testing.T) {
			r.start(r.shell(name, way+" & exec sleep 1000"))
			daemon := up.pid()
			if ended(daemon) {
				t.Fatal("it is not there")
			}
			if _, err := r.c.Stop(r.ctx(), name, 0); err != nil {
				t.Fatal(err)
			}
			if s := r.wait(name); s.Left != 0 || !ended(daemon) {
				t.Errorf("%+v; the daemon has ended: %v", s, ended(daemon))
			}
		})
	}
	if ended(other) {
		t.Error("another run has ended with them")
	}
	// Without mark, group, session and parent, it could be any run's: it goes with the last of them. So does one
	// with the mark of no run at all.
	var daemons []int
	for id, env := range map[string]string{"nobodys": "env -i", "forged": "env TANDEM_RUN=0123456789abcdef/other"} {
		r.start(r.shell(id, env+` PATH="$PATH" setsid sh -c 'echo $$ >up; exec sleep 1000' & exec sleep 1000`))
		daemons = append(daemons, up.pid())
	}
	for _, id := range []string{"nobodys", "forged", "other"} {
		if _, err := r.c.Stop(r.ctx(), id, 0); err != nil {
			t.Fatal(err)
		}
		r.wait(id)
	}
	for _, pid := range append(daemons, other) {
		if !ended(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
}

func TestRefused(t *testing.T) {
	r := newRig(t)
	r.start(r.shell("a", "exec sleep 1000"))
	b := r.shell("b", "exit 0")
	b.Log.Path = filepath.Join(r.work, "logs", "a")
	if _, err := r.c.Start(r.ctx(), b); !errors.Is(err, &wire.Error{Code: wire.CodeWrongState}) {
		t.Errorf("two runs of one log: %v", err)
	}
	if err := r.c.Forget(r.ctx(), "a"); !errors.Is(err, &wire.Error{Code: wire.CodeWrongState}) {
		t.Errorf("forget what runs: %v", err)
	}
	if err := r.c.Quit(r.ctx(), false); !errors.Is(err, &wire.Error{Code: wire.CodeWrongState}) {
		t.Errorf("quit while something runs: %v", err)
	}
	if err := r.c.Forget(r.ctx(), "nobody"); err != nil {
		t.Error(err)
	}
	if _, err := r.c.ask(r.ctx(), request{Op: "dance"}); !errors.Is(err, &wire.Error{Code: wire.CodeNotSupported}) {
		t.Errorf("something newer: %v", err)
	}
	for _, bad := range []struct {
		path   string
		change func(*Run)
	}{
		{"/id", func(r *Run) { r.ID = "../../etc/passwd" }},
		{"/id", func(r *Run) { r.ID = "" }},
		{"/id", func(r *Run) { r.ID = strings.Repeat("x", MaxID+1) }},
		{"/argv", func(r *Run) { r.Argv = nil }},
		{"/argv", func(r *Run) { r.Argv[0] = "sh" }},
		{"/dir", func(r *Run) { r.Dir = "here" }},
		{"/env/0", func(r *Run) { r.Env[0] = "NOTHING" }},
		{"", func(r *Run) { r.Env[0] = "A=\x00" }},
		{"", func(r *Run) { r.Env[0] = "A=" + strings.Repeat("x", MaxArgs) }},
		{"/cgroups/0", func(r *Run) { r.Cgroups = []string{"/a/../b"} }},
		{"/maxExecution", func(r *Run) { r.MaxExecution = -1 }},
		{"/stopGrace", func(r *Run) { r.StopGrace = 2 * MaxGrace }},
		{"/log/path", func(r *Run) { r.Log.Path = "x" }},
		{"/log/bytes", func(r *Run) { r.Log.Bytes = 1 }},
		{"/log/files", func(r *Run) { r.Log.Files = -1 }},
		{"/log", func(r *Run) { r.Log = Log{Files: 1} }},
	} {
		run := r.shell("bad", "exit 0")
		bad.change(&run)
		_, err := r.c.Start(r.ctx(), run)
		if e := (*wire.Error)(nil); !errors.As(err, &e) || e.Path != bad.path {
			t.Errorf("%v, want one at %q", err, bad.path)
		}
		if _, err := r.c.ask(r.ctx(), request{Op: opStart, Run: &run}); err == nil { // of a client that does not look
			t.Errorf("the keeper takes what is wrong at %q", bad.path)
		}
	}
}

// letIn opens a directory, and those above it, to everybody.
func letIn(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o005 != 0o005 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o055); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What only a keeper of root can do.
func TestAsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: this is not root, so other users' processes were NOT tested")
	}
	r := newRig(t)
	if err := os.Chmod(r.work, 0o777); err != nil {
		t.Fatal(err)
	}
	letIn(t, r.work)
	nobody := r.shell("nobody", "id -u; id -g; id -G; (setsid sleep 1000 &); exit 0")
	nobody.User = &User{UID: 65534, GID: 65534}
	r.start(nobody)
	if s := r.wait("nobody"); !s.Success() || r.output("nobody") != "65534\n65534\n65534\n" {
		t.Errorf("%+v: %q", s, r.output("nobody"))
	}
	// What spares the keeper when memory runs out does not spare its runs.
	k, err := r.c.Keeper(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", k.PID), []byte("-100"), 0); err != nil {
		t.Skipf("SKIPPED: processes cannot be spared here: %v", err)
	}
	for i := range 5 { // from its first moment on, so that its children are not either
		spared := r.shell(fmt.Sprint("spared-", i), "cat /proc/self/oom_score_adj")
		r.start(spared)
		if s := r.wait(spared.ID); !s.Success() || r.output(spared.ID) != "0\n" {
			t.Errorf("%+v: %q", s, r.output(spared.ID))
		}
	}
	if own, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", k.PID)); err != nil || string(own) != "-100\n" {
		t.Errorf("the keeper itself: %s, %v", own, err)
	}
}
