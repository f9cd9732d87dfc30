package proc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen; on a machine that is busy with other
// tests everything takes its time.
const Patience = time.Minute

// starter runs what starts processes on one thread that lives as long as this program: a child with
// a parent-death signal dies with the thread that started it.
var starter = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// Process is a running program.
type Process struct {
	Name string

	t    testing.TB
	cmd  *exec.Cmd
	log  string        // file with everything that it prints
	done chan struct{} // closed when it has ended and was waited for
	err  error         // of Wait; read it after done
}

// Start runs a program in a process group of its own, with nothing of our environment but PATH,
// HOME and env. What it prints is in Log, and shown when the test fails.
func Start(t testing.TB, name string, env []string, argv ...string) *Process {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), strings.ReplaceAll(name, " ", "-")+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Name: name, t: t, log: log.Name(), done: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(plainEnv(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	starter() <- func() { started <- p.cmd.Start() }
	if err := errors.Join(<-started, log.Close()); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("--- the end of what %s printed:\n%s", p.Name, tail(p.Log(), 40))
		}
	})
	return p
}

// plainEnv is an environment in which no setting of the person who runs the tests changes anything.
func plainEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + os.Getenv("HOME")}
}

// PID is the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is everything that it has printed so far.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Errorf("log of %s: %v", p.Name, err)
	}
	return string(data)
}

// Alive reports whether it still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends it and its process group with SIGKILL, and waits.
func (p *Process) Kill() {
	// The group outlives its leader while other members live, and its ID is not given away before.
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may be gone
	<-p.done
}

// Signal sends it one signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && p.Alive() {
		p.t.Errorf("signal to %s: %v", p.Name, err)
	}
}

// Wait waits for its end and returns the exit status, -1 if a signal ended it.
func (p *Process) Wait(within time.Duration) int {
	p.t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.t.Errorf("%s has not ended within %v", p.Name, within)
		p.Kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stop asks it to stop with SIGTERM, and fails the test unless it does within 5 seconds with exit
// status 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	if status := p.Wait(5 * time.Second); status != 0 {
		p.t.Errorf("%s ended with status %d after SIGTERM", p.Name, status)
	}
}

// Output is what a program that runs to its end came to.
type Output struct {
	Status      int
	Out, Errors string
}

// Run runs a program to its end.
func Run(t testing.TB, dir string, env []string, argv ...string) Output {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(plainEnv(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = nil
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("run %s: %v", argv[0], err)
	}
	timer := time.AfterFunc(2*Patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	if !timer.Stop() {
		t.Errorf("%s did not end within %v", strings.Join(argv, " "), 2*Patience)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", argv[0], err)
	}
	return Output{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// Until waits until check has nothing left to say, and fails the test with what it last said.
func Until(t testing.TB, what string, check func() string) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		why := check()
		if why == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v until %s: %s", Patience, what, why)
		}
	}
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Root is the top of the source tree.
func Root(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}
