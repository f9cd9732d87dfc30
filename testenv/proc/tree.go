package proc

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Tree copies the sources to a directory of the test's own, as a newcomer has them: without
// programs, and without the state of a unit.
func Tree(t testing.TB) string {
	t.Helper()
	root, dir := Root(t), t.TempDir()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains([]string{".git", "bin", "run"}, rel):
			if !d.IsDir() { // of a worktree
				return nil
			}
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) { // somebody's temporary file
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), data, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Demo is a running `make up`.
type Demo struct {
	*Process
	dir, run string
	t        testing.TB
}

// StartDemo runs a command that brings up the demo unit in a tree, and waits until it is up.
func StartDemo(t testing.TB, dir, run string, env []string, argv ...string) *Demo {
	t.Helper()
	d := StartDemoScript(t, dir, run, env, argv...)
	d.awaitBuild()
	Until(t, "the unit is up", func() string {
		if !d.Alive() {
			t.Fatal("it has ended")
		}
		if !strings.Contains(d.Log(), "Ctrl-C stops everything.") {
			return "not yet"
		}
		return ""
	})
	return d
}

// StartDemoScript runs a command that brings up a demo unit in a tree. Nothing of that outlives the test.
func StartDemoScript(t testing.TB, dir, run string, env []string, argv ...string) *Demo {
	t.Helper()
	d := &Demo{Process: Start(t, "make up", append(goEnv(), env...), append([]string{"env", "-C", dir}, argv...)...),
		dir: dir, run: run, t: t}
	sweep := sweeper(t, run)
	t.Cleanup(func() { // before Start's own, which only reaches one process group
		if d.Alive() {
			d.Interrupt()
			d.Wait(Patience)
		}
		sweep()
	})
	return d
}

// awaitBuild waits until the programs are there and the script runs that starts them. Patience is for what must happen,
// and begins after that: how long a build takes, the machine and what Go has cached decide.
func (d *Demo) awaitBuild() {
	d.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for d.Alive() {
		if _, err := os.Stat(filepath.Join(d.run, "controller.log")); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-d.t.Context().Done():
			d.t.Fatal("it was still building")
		}
	}
}

// sweeper starts a process that waits for the end of this program, or for sweep, and then kills
// what a demo has left behind: its programs lead process groups of their own.
func sweeper(t testing.TB, run string) (sweep func()) {
	t.Helper()
	const script = `read _; rm -f "$0/port"; for f in "$0"/*.pid; do [ ! -e "$f" ] || kill -KILL "$(cat "$f")"; done`
	cmd := exec.Command("sh", "-c", script, run)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it outlives us, by a moment
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := stdin.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("sweeping %s: %v", run, err)
		}
	}
}

// Interrupt is Ctrl-C: every process in the terminal's foreground gets it.
func (d *Demo) Interrupt() {
	if err := syscall.Kill(-d.PID(), syscall.SIGINT); err != nil {
		d.t.Errorf("Ctrl-C: %v", err)
	}
}

// goEnv is what the go command may need of our environment.
func goEnv() (env []string) {
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "GO") && !strings.HasPrefix(e, "GOWORK=") {
			env = append(env, e)
		}
	}
	return env
}

// Shell runs a line as somebody in a terminal would.
func (d *Demo) Shell(line string, env ...string) Output {
	d.t.Helper()
	return Run(d.t, d.dir, env, "bash", "-c", line)
}

// CheckStopped checks that nothing of the unit is left running, nor said to be.
func (d *Demo) CheckStopped() {
	d.t.Helper()
	left, err := filepath.Glob(filepath.Join(d.run, "*.pid"))
	if err != nil || len(left) > 0 {
		d.t.Errorf("left behind: %v %v", left, err)
	}
	Until(d.t, "nothing of the unit runs", func() string {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err.Error()
		}
		for _, file := range lines {
			line, err := os.ReadFile(file)
			if err != nil {
				continue // it has ended
			}
			cwd, err := os.Readlink(filepath.Join(filepath.Dir(file), "cwd"))
			if err != nil {
				continue
			}
			if cwd == d.dir && strings.Contains(string(line), "tandem-") {
				return strings.ReplaceAll(string(line), "\x00", " ")
			}
		}
		return ""
	})
}
