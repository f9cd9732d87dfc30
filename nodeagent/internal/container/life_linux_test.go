package container

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start starts a container and waits until it says word.
func (w *world) start(id string, s Spec, word string) (pid int) {
	w.t.Helper()
	pid, out := w.create(id, s)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == word {
			return pid
		}
	}
	w.t.Fatalf("%s has ended", id)
	return 0
}

// main is the main process of a container, which runtimes note after it has begun.
func (w *world) main(id string) Process {
	w.t.Helper()
	done := time.After(10 * time.Second)
	for {
		p, err := w.process(id)
		if err == nil && p.alive() {
			return p
		}
		select {
		case <-done:
			w.t.Fatalf("%s: %+v %v", id, p, err)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestLife: prepared, running, ended, gone; by another Home on the same directory as well, as after a restart.
func TestLife(t *testing.T) {
	each(t, func(w *world) {
		s := w.spec("await")
		if w.Runtime.Name == "crun" { // which makes no group, so that Delete may end nobody in one
			s.Group = "/elsewhere"
		}
		if _, err := w.Prepare(t.Context(), "one", s); err != nil {
			t.Fatal(err)
		}
		plan, err := os.ReadFile(filepath.Join(w.bundle("one"), stageFile))
		if err != nil || strings.Contains(string(plan), "elsewhere") {
			t.Errorf("%s %v", plan, err)
		}
		for _, again := range []Spec{s, {}} { // neither makes another one, nor removes what is there
			if _, err := w.Prepare(t.Context(), "one", again); !errors.Is(err, ErrExists) {
				t.Error(err)
			}
		}
		s.Env = []string{"TANDEM_RUN=forged"}
		pid := w.start("two", s, "waiting")
		main := w.main("two")
		if environ, err := os.ReadFile("/proc/" + strconv.Itoa(main.PID) + "/environ"); err != nil ||
			!bytes.Contains(environ, []byte("TANDEM_RUN=keeper/run\x00")) || bytes.Contains(environ, []byte("forged")) {
			t.Errorf("the keeper does not find it: %q %v", environ, err)
		}
		again, err := Open(*w.Home)
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := again.List(); err != nil || !slices.Equal(ids, []string{"one", "two"}) {
			t.Error(ids, err)
		}
		if err := syscall.Kill(-pid, syscall.SIGUSR1); err != nil {
			t.Error(err)
		}
		if status := w.wait(pid); status.ExitStatus() != 7 {
			t.Errorf("exit status %d", status.ExitStatus())
		}
		if main.alive() {
			t.Error("it has not ended")
		}
		for _, id := range []string{"one", "two", "none"} {
			if err := again.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if ids, err := again.List(); err != nil || len(ids) > 0 {
			t.Error(ids, err)
		}
		if err := main.kill(); err != nil {
			t.Errorf("one that has ended: %v", err)
		}
	})
}

// TestStopSignals: every signal by which an image may ask to be ended reaches its program through the runtime, or such
// a container is not made.
func TestStopSignals(t *testing.T) {
	each(t, func(w *world) {
		if !w.Runtime.Overlay {
			return // that does not change signals
		}
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1,
			unix.SIGUSR2, unix.SIGWINCH, 37} {
			s := w.spec("hear")
			s.StopSignal = int(sig)
			id := fmt.Sprint("signal", int(sig))
			if sig == unix.SIGWINCH && w.Runtime.Name == "runc" {
				if _, err := w.Prepare(t.Context(), id, s); err == nil || !strings.Contains(err.Error(), "SIGWINCH") {
					t.Errorf("%v: %v", sig, err)
				}
				continue
			}
			pid, out := w.create(id, s)
			lines, heard := bufio.NewScanner(out), ""
			for lines.Scan() {
				if heard = lines.Text(); heard == "waiting" {
					if err := syscall.Kill(-pid, sig); err != nil {
						t.Fatal(err)
					}
					timer := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
					defer timer.Stop()
				}
			}
			if status := w.wait(pid); status.ExitStatus() != 7 || heard != fmt.Sprint("heard ", int(sig)) {
				t.Errorf("%v: %v, %q", sig, status, heard)
			}
			if err := w.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestCannotBeMade: the reason is told, and nothing is left.
func TestCannotBeMade(t *testing.T) {
	each(t, func(w *world) {
		missing, none, root := w.spec(), w.spec(), w.spec()
		missing.Args[0] = "/bin/none"
		if w.Runtime.Name == "runc" {
			s := w.spec()
			s.Group = ""
			if _, err := w.Prepare(t.Context(), "one", s); err == nil ||
				!strings.Contains(err.Error(), "needs a control group") {
				t.Error(err)
			}
		}
		none.Binds = []Bind{{Host: filepath.Join(w.Dir, "none"), Inside: "/a"}}
		root.UID = 0
		if _, err := w.Prepare(t.Context(), "one", root); err == nil || !strings.Contains(err.Error(), "user 0") {
			t.Error(err)
		}
		w.end()
		for why, s := range map[string]Spec{"no such file": missing, "none": none} {
			pid, out := w.create("one", s)
			var text bytes.Buffer
			if _, err := text.ReadFrom(out); err != nil || !strings.Contains(strings.ToLower(text.String()), why) {
				t.Errorf("%s: %q %v", why, &text, err)
			}
			if status := w.wait(pid); status.ExitStatus() <= 0 {
				t.Errorf("%s: %v", why, status)
			}
			w.end()
		}
		for _, id := range []string{"", ".", "..", "a/b", ".hidden", "-flag", "a b", "a\nb", strings.Repeat("a", 201)} {
			if _, err := w.Prepare(t.Context(), id, w.spec()); err == nil {
				t.Errorf("the name %q", id)
			}
			if err := w.Delete(t.Context(), id); err != nil {
				t.Errorf("the name %q: %v", id, err)
			}
		}
	})
}

// TestKilled: the runtime of a container is killed, after a time that rises until the container runs. All that is left
// is removed by its name, also a process that waits for the runtime, and a new one can be made.
func TestKilled(t *testing.T) {
	each(t, func(w *world) {
		whole := 0
		for after := time.Duration(0); whole < 2 && after < 2*time.Second; after += time.Millisecond {
			pid, out := w.create("one", w.spec("sleep"))
			timer := time.AfterFunc(after, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			first := make([]byte, 8)
			if n, _ := out.Read(first); string(first[:n]) == "sleeping" {
				whole++
			}
			w.wait(pid)
			timer.Stop()
			again, err := Open(*w.Home)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Delete(t.Context(), "one"); err != nil {
				t.Fatalf("after %v: %v", after, err)
			}
			w.orphans(after)
		}
		if whole == 0 {
			t.Error("never made")
		}
		w.expect(w.spec(), [][2]string{{"who", "4711:4712 pid 1 in /"}})
	})
}

// orphans waits for all children, which have to end.
func (w *world) orphans(after time.Duration) {
	w.t.Helper()
	done := make(chan struct{})
	timer := time.AfterFunc(10*time.Second, func() { close(done) })
	defer timer.Stop()
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) {
			return
		}
		if pid > 0 {
			continue
		}
		select {
		case <-done:
			out, err := exec.Command("ps", "--ppid", strconv.Itoa(os.Getpid()), "-o", "pid,args").Output()
			w.t.Fatalf("after %v: processes are left: %v\n%.500s", after, err, out)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestBundleIsLost: with its state alone a container is not made anew, and its process is found.
func TestBundleIsLost(t *testing.T) {
	each(t, func(w *world) {
		pid := w.start("one", w.spec("sleep"), "sleeping")
		main := w.main("one")
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		w.wait(pid)
		if err := os.RemoveAll(w.bundle("one")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Prepare(t.Context(), "one", w.spec("sleep")); !errors.Is(err, ErrExists) {
			t.Error(err)
		}
		if err := w.Delete(t.Context(), "one"); err != nil {
			t.Error(err)
		}
		w.orphans(0)
		if main.alive() {
			t.Error("it is there")
		}
	})
}

// TestRuntimeIsGone: a container ends and is removed although its runtime was taken off the node.
func TestRuntimeIsGone(t *testing.T) {
	each(t, func(w *world) {
		w.start("one", w.spec("sleep"), "sleeping")
		main := w.main("one")
		w.Runtime.Path = filepath.Join(w.Dir, "none")
		if err := w.Delete(t.Context(), "one"); err != nil {
			t.Error(err)
		}
		w.orphans(0)
		if main.alive() {
			t.Error("it is there")
		}
	})
}

// TestMountsDoNotSpread: not to the node either, where mounts of one namespace come to others, as under systemd.
func TestMountsDoNotSpread(t *testing.T) {
	const inside = "CONTAINER_TEST_SHARED"
	if os.Getenv(inside) == "" {
		if os.Geteuid() != 0 {
			skip(t, "this test makes mount namespaces")
		}
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "unshare", "-m", "--propagation", "shared", exe, "-test.run",
			"^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%.2000s", err, out)
		}
		return
	}
	w := newWorld(t, "crun")
	if !w.Runtime.Overlay {
		skip(t, w.Runtime.NoMount)
	}
	pid := w.start("one", w.spec("sleep"), "sleeping")
	w.noMounts()
	if err := w.Delete(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	w.wait(pid)
}

// TestOtherBoot: of before the machine was started nothing runs, and nothing is asked of the runtime.
func TestOtherBoot(t *testing.T) {
	w := newWorld(t, "crun")
	w.write(w.state(), "old/status", `{"pid": 1, "process-start-time": 1}`, 0)
	w.write(w.bundle("old"), "config.json", "{}", 0)
	w.write(w.Dir, "keep", "", 0)
	file, at := filepath.Join(w.Dir, bootName), time.Unix(1<<30, 0)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(*w.Home); err != nil {
		t.Error(err)
	} else if ids, err := again.List(); err != nil || !slices.Equal(ids, []string{"old"}) {
		t.Error(ids, err)
	}
	// On a full disk, to write is to lose it.
	if info, err := os.Stat(file); err != nil || !info.ModTime().Equal(at) {
		t.Errorf("in which boot that was is written again: %v", err)
	}
	if err := os.WriteFile(file, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Open(*w.Home)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := again.List(); err != nil || len(ids) != 0 {
		t.Error(ids, err)
	}
	if _, err := Open(Home{Dir: "relative"}); err == nil {
		t.Error("a relative directory")
	}
}

// TestDamagedState: what a runtime has not written to its end names no process, and can be removed.
func TestDamagedState(t *testing.T) {
	each(t, func(w *world) {
		for id, files := range map[string][]string{"a": {}, "b": {"status"}, "c": {"state.json"}} {
			w.write(w.state(), id, "dir/", 0)
			for _, f := range files {
				w.write(w.running(id), f, `{"pid": `, 0)
			}
			if p, err := w.process(id); err != nil || p != (Process{}) {
				t.Errorf("%s: %+v %v", id, p, err)
			}
			if err := w.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	})
}
