package keep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// However many start a keeper at once, one comes out.
func TestOneKeeper(t *testing.T) {
	r := newRig(t)
	for range 3 {
		if err := r.c.Quit(r.ctx(), true); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		found := make(chan int, 8)
		for range cap(found) {
			all.Go(func() {
				c, err := newClient(r.cfg, true)
				if err == nil {
					var k Keeper
					k, err = c.Keeper(r.ctx())
					found <- k.PID
					for _, pid := range <-c.children { // those that had to go
						if pid != k.PID {
							_, _ = syscall.Wait4(pid, nil, 0, nil)
						}
					}
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(found)
		first := <-found
		for pid := range found {
			if pid != first {
				t.Errorf("keepers %d and %d", first, pid)
			}
		}
	}
}

func TestNoKeeper(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := Dial(ctx, filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
	r := newRig(t)
	c, err := Dial(ctx, r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Quit(ctx, true), c.Quit(ctx, true)); err != nil {
		t.Errorf("quit, twice: %v", err)
	}
	if _, err := c.List(ctx); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
	if err := c.Follow(ctx, func(Status) {}); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
	for what, cfg := range map[string]Config{
		"fork/exec /nowhere": {Dir: r.dir, Exe: "/nowhere"},
		"it ended before":    {Dir: r.dir, Exe: "/bin/true", Args: []string{}},
		"not a directory":    {Dir: "/dev/null/x", Exe: r.cfg.Exe},
	} {
		if _, err := Ensure(ctx, cfg); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	short, stop := context.WithCancel(ctx)
	stop()
	if _, err := Ensure(short, r.cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A path that is too long for a socket's address is none that is too long.
func TestLongPath(t *testing.T) {
	r := newRig(t)
	r2 := *r
	r2.dir = filepath.Join(t.TempDir(), strings.Repeat("long/", 40), "keeper")
	r2.cfg = config(t, r2.dir, time.Minute, "1")
	r2.ensure()
	defer r2.end()
	r2.start(r2.shell("a", "exit 2"))
	if s := r2.wait("a"); s.ExitCode != 2 {
		t.Errorf("%+v", s)
	}
}

// A keeper of another version is replaced when nothing runs in it, and else left alone.
func TestOtherVersion(t *testing.T) {
	r := newRig(t)
	down := r.pipe("down")
	old, err := r.c.Keeper(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	r.start(r.shell("a", "read x <down; exit 8"))
	newer := config(t, r.dir, time.Minute, "2")
	c, err := Ensure(r.ctx(), newer)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := c.Keeper(r.ctx()); err != nil || k != old || k.Protocol != Protocol {
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := down.f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	r.wait("a")
	r.cfg = newer
	r.ensure()
	k, err := r.c.Keeper(r.ctx())
	if err != nil || k.PID == old.PID || k.Version != "2" {
		t.Errorf("%+v, %v", k, err)
	}
	if s := r.wait("a"); s.ExitCode != 8 {
		t.Errorf("%+v", s)
	}
}

func TestFollow(t *testing.T) {
	r := newRig(t)
	down := r.pipe("down")
	r.start(r.shell("before", "exit 1"))
	r.wait("before")
	ctx, cancel := context.WithCancel(r.ctx())
	news := make(chan Status, 100)
	done := make(chan error, 1)
	go func() { done <- r.c.Follow(ctx, func(s Status) { news <- s }) }()
	until := func(id string, good func(Status) bool) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case s := <-news:
				if s.ID == id && good(s) {
					return
				}
			case <-late:
				t.Fatalf("nothing of %s", id)
			}
		}
	}
	until("before", func(s Status) bool { return s.State == Exited && s.ExitCode == 1 })
	r.start(r.shell("during", "read x <down; exit 2"))
	until("during", func(s Status) bool { return s.State == Running && s.PID > 0 })
	if _, err := down.f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	until("during", func(s Status) bool { return s.State == Exited && s.ExitCode == 2 })
	r.start(r.shell("lasts", "exec sleep 1000"))
	until("lasts", func(s Status) bool { return s.PID > 0 })
	r.kill() // it starts the next one by itself
	until("lasts", func(s Status) bool { return s.State == Lost })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Told to end by a signal, as when the machine shuts down, a keeper stops its runs in good order.
func TestTerminated(t *testing.T) {
	r := newRig(t)
	up := r.pipe("up")
	r.start(r.shell("obeys", `trap 'exit 3' TERM; echo up >up; while :; do sleep 1000 & wait $!; done`))
	deaf := r.shell("deaf", `trap '' TERM; echo up >up; while :; do sleep 1000; done`)
	deaf.StopGrace = 50 * time.Millisecond
	r.start(deaf)
	up.line()
	up.line()
	k, err := r.c.Keeper(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(k.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(k.PID, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft()
	for id, want := range map[string]Status{"obeys": {ExitCode: 3}, "deaf": {Signal: int(syscall.SIGKILL)}} {
		if s := r.wait(id); s.State != Exited || s.Cause != CauseQuit || s.ExitCode != want.ExitCode ||
			s.Signal != want.Signal {
			t.Errorf("%+v", s)
		}
	}
}

// A keeper with nothing to do ends; one with a run, or somebody who follows, does not.
func TestIdle(t *testing.T) {
	r := newIdleRig(t, 10*time.Millisecond)
	up, down := r.pipe("up"), r.pipe("down")
	r.start(r.shell("a", "echo $$ >up; read x <down"))
	up.pid()
	ctx, cancel := context.WithCancel(r.ctx())
	followed, done := make(chan int, 100), make(chan error, 1)
	go func() {
		done <- r.c.Follow(ctx, func(Status) {
			if k, err := r.c.Keeper(ctx); err == nil {
				followed <- k.PID
			}
		})
	}()
	pid := <-followed
	if _, err := down.f.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if again := <-followed; again != pid {
		t.Errorf("keepers %d and %d", pid, again)
	}
	cancel()
	<-done
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(r.ctx(), r.dir); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
}

// More runs than one message holds.
func TestManyRuns(t *testing.T) {
	r := newRig(t)
	want := map[string]bool{}
	for i := range pageSize + 5 {
		run := r.shell(fmt.Sprintf("%s-%d", strings.Repeat("x", 180), i), "exit 0")
		run.Argv = []string{filepath.Join("/nowhere", strings.Repeat("y", 1000))}
		r.start(run)
		want[run.ID] = true
	}
	all, err := r.c.List(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Error == "" || !want[s.ID] {
			t.Errorf("%+v", s)
		}
		delete(want, s.ID)
	}
	if len(want) > 0 {
		t.Errorf("%d runs are missing", len(want))
	}
}

// Whoever else is on the machine has no business here.
func TestDirectoryIsClosed(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]os.FileMode{"": 0o700, socketName: 0o600, "lock": 0o600, "identity": 0o600,
		"runs": 0o700} {
		info, err := os.Stat(filepath.Join(r.dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", path, info.Mode(), err)
		}
	}
	// Those who break the protocol are hung up on, and nobody else notices.
	for _, junk := range []string{"", "\n", "{}\n", "[1]\n", "{\"op\":\"start\"}\n", strings.Repeat("x", 2*maxMessage),
		"{\"op\":\"list\",\"futureField\":1}\n"} {
		conn, err := dial(r.ctx(), r.dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(junk)); err != nil && !errors.Is(err, syscall.EPIPE) &&
			!errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if all, err := r.c.List(r.ctx()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	var none answer
	if err := r.c.exchange(r.ctx(), request{}, func(a answer) error { none = a; return a.Error }); !errors.Is(err,
		&wire.Error{Code: wire.CodeNotSupported}) || none.Keeper.Version != "1" {
		t.Errorf("%v, %+v", err, none)
	}
}

// Another user is hung up on, even if somebody has opened the directory and the socket to all.
func TestOtherUsersAreHungUpOn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: this is not root, so other users' clients were NOT tested")
	}
	r := newRig(t)
	letIn(t, r.dir)
	if err := os.Chmod(filepath.Join(r.dir, socketName), 0o666); err != nil {
		t.Fatal(err)
	}
	hello, err := encodeMessage(request{Protocol: Protocol, Op: opHello})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		uid     int
		answers bool
	}{{0, true}, {65534, false}, {1, false}} {
		conn := connectAs(t, r.dir, c.uid)
		if _, err := conn.Write(hello); err != nil && !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		var a answer
		if err := readMessage(bufio.NewReader(conn), &a); (err == nil) != c.answers {
			t.Errorf("user %d: %+v, %v", c.uid, a, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// connectAs connects to the keeper of a directory as a user, which a thread of the kernel can be by itself.
func connectAs(t *testing.T, dir string, uid int) net.Conn {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	path, release, err := socketPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	be := func(uid int) {
		const same = ^uintptr(0)
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same); e != 0 {
			t.Fatal(e) // the thread stays locked, and ends with this goroutine
		}
	}
	runtime.LockOSThread()
	be(uid)
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	be(0)
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}
