package proc

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Service keeps a program running as systemd does with Type=notify, Restart=always, TimeoutStartSec=
// and WatchdogSec=. There is no limit on starts.
type Service struct {
	t         testing.TB
	env, argv []string
	dir       string // of the sockets on which the program says how it is
	log       *os.File
	quit      chan struct{} // closed to end it all
	done      chan struct{}

	mu      sync.Mutex
	runs    []ServiceRun
	changed chan struct{} // closed when runs changes
}

// ServiceRun is one run of a service's program.
type ServiceRun struct {
	PID     int
	Ready   bool
	Program string // what the process executed when it said that it is ready
	Ended   string // "": it runs; else its exit status or signal
	Killed  string // why the manager ended it
	Left    bool   // other processes of its group were left behind
}

const (
	startLimit    = 20 * time.Second // within which it has to say that it is ready
	watchdogLimit = 20 * time.Second // between two signs of life
	restartPause  = 100 * time.Millisecond
	mostRuns      = 30 // a test that needs more goes in circles
)

// StartService starts a service with the sockets in dir. It is stopped at the end of the test.
func StartService(t testing.TB, dir string, env []string, argv ...string) *Service {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "service.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{t: t, env: env, argv: argv, dir: dir, log: log, quit: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{})}
	go s.keep()
	t.Cleanup(func() {
		s.Stop()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if data, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("--- the end of what the service printed (%v), its runs %+v:\n%s", err, s.Runs(),
				tail(string(data), 60))
		}
	})
	return s
}

// Runs are all runs so far.
func (s *Service) Runs() []ServiceRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// Stop ends the program with SIGTERM, and the service with it.
func (s *Service) Stop() {
	select {
	case <-s.quit:
	default:
		close(s.quit)
	}
	<-s.done
}

// Await waits for a run that satisfies is, from run number first on (the first of all is 0), and
// returns its number.
func (s *Service) Await(what string, first int, within time.Duration, is func(ServiceRun) bool) int {
	s.t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		s.mu.Lock()
		runs, changed := slices.Clone(s.runs), s.changed
		s.mu.Unlock()
		for i := first; i < len(runs); i++ {
			if is(runs[i]) {
				return i
			}
		}
		select {
		case <-changed:
		case <-limit.C:
			s.t.Fatalf("waited %v for a run that %s: %+v", within, what, runs)
		case <-s.done:
			s.t.Fatalf("the service has ended before a run that %s: %+v", what, runs)
		}
	}
}

// Ready waits for the next run that is ready, from run number first on.
func (s *Service) Ready(first int) int {
	s.t.Helper()
	return s.Await("is ready", first, 2*Patience, func(r ServiceRun) bool { return r.Ready })
}

// Signal sends the newest run a signal, and returns the number of the next run.
func (s *Service) Signal(sig syscall.Signal) int {
	s.t.Helper()
	runs := s.Runs()
	if r := runs[len(runs)-1]; r.Ended != "" {
		s.t.Errorf("%v: the program has ended: %+v", sig, r)
	} else if err := syscall.Kill(r.PID, sig); err != nil {
		s.t.Errorf("%v: %v", sig, err)
	}
	return len(runs)
}

// set changes the newest run.
func (s *Service) set(change func(*ServiceRun)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.runs[len(s.runs)-1])
	close(s.changed)
	s.changed = make(chan struct{})
}

// keep is the life of the service.
func (s *Service) keep() {
	defer close(s.done)
	for number := 0; ; number++ {
		if number == mostRuns {
			s.t.Errorf("it was started %d times", number)
			return
		}
		if err := s.run(filepath.Join(s.dir, "notify."+strconv.Itoa(number))); err != nil {
			s.t.Errorf("run %d: %v", number, err)
			return
		}
		pause := time.NewTimer(restartPause)
		select {
		case <-s.quit:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// run is one run of the program, to its end.
func (s *Service) run(socket string) error {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	said, deaf := make(chan string), make(chan struct{})
	var reader sync.WaitGroup
	defer func() {
		close(deaf)
		_ = conn.Close() // nothing is written to it
		reader.Wait()
	}()
	reader.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			select {
			case said <- string(buf[:n]):
			case <-deaf:
				return
			}
		}
	})
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Env = slices.Concat(plainEnv(), s.env, []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=" +
		strconv.FormatInt(watchdogLimit.Microseconds(), 10)})
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return err
	}
	s.mu.Lock()
	s.runs = append(s.runs, ServiceRun{})
	s.mu.Unlock()
	s.set(func(r *ServiceRun) { r.PID = cmd.Process.Pid })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	quit := s.quit
	for ready := false; ; {
		select {
		case text := <-said:
			lines := strings.Split(text, "\n")
			if slices.Contains(lines, "READY=1") {
				ready = true
				program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
				if err != nil {
					program = err.Error()
				}
				s.set(func(r *ServiceRun) { r.Ready, r.Program = true, program })
			}
			if ready {
				limit.Reset(watchdogLimit)
			}
		case <-limit.C:
			why := "it was not ready in time"
			if ready {
				why = "it gave no sign of life"
			}
			s.set(func(r *ServiceRun) { r.Killed = why })
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		case <-quit:
			quit = nil
			s.set(func(r *ServiceRun) { r.Killed = "the service is stopped" })
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			limit.Reset(watchdogLimit)
			ready = true
		case <-ended: // what it says is in ProcessState
			left := lingers(cmd.Process.Pid)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // systemd leaves nothing of a unit, either
			s.set(func(r *ServiceRun) { r.Ended, r.Left = cmd.ProcessState.String(), left })
			return nil
		}
	}
}

// lingers reports whether a group has processes for longer than those take to end that are killed with their parent.
func lingers(group int) bool {
	often := time.NewTicker(10 * time.Millisecond)
	defer often.Stop()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-often.C {
		if syscall.Kill(-group, 0) != nil {
			return false
		}
	}
	return true
}
