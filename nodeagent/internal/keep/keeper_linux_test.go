package keep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem.internal/nodeagent/internal/container"
)

// What this program is when it is started as another one than the tests.
const asWhat = "KEEP_TEST_AS"

func TestMain(m *testing.M) {
	container.Stage()
	switch os.Getenv(asWhat) {
	case "keeper":
		os.Exit(asKeeper())
	case "agent":
		os.Exit(asAgent())
	case "intruder":
		os.Exit(asIntruder())
	case "bound":
		os.Exit(asBounded())
	case "hostile":
		os.Exit(asHostile())
	case "hog":
		os.Exit(asHog())
	}
	goleak.VerifyTestMain(m)
}

// asKeeper is the keeper of the directory that is the first argument; the second is how long it may idle.
func asKeeper() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	idle, err := time.ParseDuration(os.Args[2])
	serving := Serving{Dir: os.Args[1], Version: os.Args[3], Ready: Ready(), Idle: idle, Last: lastWords}
	if err == nil && len(os.Args) > 4 {
		serving.Users, err = ParseUsers(os.Args[4])
		serving.Plain = os.Args[5] == "plain"
	}
	switch {
	case err != nil:
	case len(os.Args) > 6 && !IsBound():
		err = asBound(ctx, serving)
	default:
		err = Serve(ctx, serving)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// lastWords leaves a file that says whether another keeper could have the directory by now.
func lastWords() (err error) {
	lock, err := os.Open(filepath.Join(os.Args[1], "lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	busy := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Join(os.WriteFile(filepath.Join(os.Args[1], "last"), fmt.Append(nil, busy), 0o600),
		errors.New("the last words"))
}

// rig is a keeper in a directory of its own. What it says on standard error, the race detector's findings
// among it, fails the test, and so does whatever is left of its runs.
type rig struct {
	t    *testing.T
	dir  string // the keeper's
	work string // of runs
	cfg  Config
	c    *Client
}

// raceEnv keeps the race detector from waiting a second at each end of a process.
const raceEnv = "GORACE=atexit_sleep_ms=0"

const patience = 60 * time.Second

func config(t *testing.T, dir string, idle time.Duration, version string) Config {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Dir: dir, Exe: exe, Args: []string{dir, idle.String(), version},
		Env: []string{asWhat + "=keeper", raceEnv}, Version: version}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newIdleRig(t, time.Minute)
}

func newIdleRig(t *testing.T, idle time.Duration) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "keeper"), work: t.TempDir()}
	r.cfg = config(t, r.dir, idle, "1")
	r.ensure()
	t.Cleanup(r.end)
	return r
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) ensure() {
	r.t.Helper()
	c, err := Ensure(r.ctx(), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.c = c
}

// end ends the keeper, and looks whether anything is left.
func (r *rig) end() {
	if err := r.c.Quit(r.ctx(), true); err != nil {
		r.t.Errorf("quit: %v", err)
	}
	r.nothingLeft()
	if words, err := os.ReadFile(filepath.Join(r.dir, "stderr")); err != nil || len(words) > 0 {
		r.t.Errorf("the keeper said: %s (%v)", words, err)
	}
	if r.t.Failed() {
		said, _, err := ReadLog(filepath.Join(r.dir, "log"), Cursor{}, 1<<20)
		r.t.Logf("%s%v", said, err)
	}
	if left := reap(<-r.c.children); len(left) > 0 { // it has hung up, and is about to end
		for _, pid := range left {
			_, err := syscall.Wait4(pid, nil, 0, nil)
			if err != nil && !errors.Is(err, syscall.ECHILD) {
				r.t.Error(err)
			}
		}
	}
	r.c.children <- nil
}

// nothingLeft fails if a process of this keeper's runs is there.
func (r *rig) nothingLeft() {
	r.t.Helper()
	id, err := identity(r.dir, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := processes()
	if err != nil {
		r.t.Fatal(err)
	}
	for pid, p := range all {
		if m, _ := marked(pid, ""); !p.dead && strings.HasPrefix(m, id+"/") {
			r.t.Errorf("process %d of run %s is left", pid, m)
		}
	}
}

// shell is a run of a script.
func (r *rig) shell(id, script string) Run {
	return Run{
		ID: id, Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin",
			"GREETING=hello"}, Dir: r.work,
		StopGrace: 5 * time.Second, Log: Log{Path: filepath.Join(r.work, "logs", id)},
	}
}

func (r *rig) start(run Run) Status {
	r.t.Helper()
	s, err := r.c.Start(r.ctx(), run)
	if err != nil {
		r.t.Fatalf("start %s: %v", run.ID, err)
	}
	return s
}

func (r *rig) wait(id string) Status {
	r.t.Helper()
	s, err := r.c.Wait(r.ctx(), id)
	if err != nil {
		r.t.Fatalf("wait for %s: %v", id, err)
	}
	return s
}

// pipe is a named pipe in the work directory, in which runs say things to the test.
type pipe struct {
	t *testing.T
	f *os.File
	r *bufio.Reader
}

func (r *rig) pipe(name string) *pipe {
	r.t.Helper()
	path := filepath.Join(r.work, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := f.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return &pipe{r.t, f, bufio.NewReader(f)}
}

// line waits for a line.
func (p *pipe) line() string {
	p.t.Helper()
	if err := p.f.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.r.ReadString('\n')
	if err != nil {
		p.t.Fatalf("nothing came: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// pid waits for a line with a process's number.
func (p *pipe) pid() int {
	p.t.Helper()
	var pid int
	if line := p.line(); true {
		if _, err := fmt.Sscan(line, &pid); err != nil {
			p.t.Fatalf("%q: %v", line, err)
		}
	}
	return pid
}

// ended says whether a process is gone, or only its status is left.
func ended(pid int) bool {
	p, ok := lookAt(pid)
	return !ok || p.dead
}

// output is all of a log that is kept.
func (r *rig) output(id string) string {
	r.t.Helper()
	var all []byte
	for at := (Cursor{}); ; {
		data, next, err := ReadLog(filepath.Join(r.work, "logs", id), at, 64<<10)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(data) == 0 {
			return string(all)
		}
		all, at = append(all, data...), next
	}
}

// kill kills the keeper, and waits until it is gone.
func (r *rig) kill() {
	r.t.Helper()
	k, err := r.c.Keeper(r.ctx())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := syscall.Kill(k.PID, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	// another client's child
	if _, err := syscall.Wait4(k.PID, nil, 0, nil); err != nil && !errors.Is(err, syscall.ECHILD) {
		r.t.Fatal(err)
	}
}
