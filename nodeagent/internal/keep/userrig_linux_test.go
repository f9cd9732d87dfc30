package keep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/confine"
)

// base is the first of the users of these tests: of several that run at the same time, each has its own.
var base = func() uint32 {
	if text := os.Getenv(asBase); text != "" {
		n, _ := strconv.ParseUint(text, 10, 32)
		return uint32(n)
	}
	return 1_000_000 + uint32(os.Getpid())*10
}()

// asBase has base in the environment of what the tests start.
const asBase = "KEEP_TEST_BASE"

// slotRange are the users of slots: one group, and users for three slots; agentUser stands for the user of an agent
// that is not root.
var (
	slotRange = Users{base, base + 3}
	agentUser = int(base) + 9
)

// asBound starts the keeper that this process was asked to be, for the user that is the sixth argument.
func asBound(ctx context.Context, s Serving) error {
	uid, err := strconv.Atoi(os.Args[6])
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return Bound{Exe: exe, Args: os.Args[1:], Dir: s.Dir, Env: os.Environ(), UID: uint32(uid), GID: uint32(uid),
		Users: s.Users, Ready: s.Ready}.Run(ctx)
}

// userRig is a keeper with users for slots, in the state directory of an agent of some user.
type userRig struct {
	*rig
	uid   int
	state string
	exe   string // of this program, for everybody
}

// newUserRig needs root. With plain, nothing is confined, as on a kernel that has neither Landlock nor filters.
func newUserRig(t *testing.T, uid int, plain bool) *userRig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TRIED: users for slots; only root can start such a keeper")
	}
	top := t.TempDir()
	u := &userRig{rig: &rig{t: t, work: top}, uid: uid, state: filepath.Join(top, "state"),
		exe: filepath.Join(top, "program")}
	for _, dir := range []string{top, filepath.Dir(top)} { // both are the test's own
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	own, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(u.exe, own, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	u.mkdir(u.state, 0o700)
	u.dir = filepath.Join(u.state, "keeper")
	u.mkdir(u.dir, 0o700)
	how := "confined"
	if plain {
		how = "plain"
	}
	u.cfg = config(t, u.dir, time.Minute, "1")
	u.cfg.Exe = u.exe
	u.cfg.Env = append(u.cfg.Env, fmt.Sprint(asBase, "=", base))
	u.cfg.Args = append(u.cfg.Args, slotRange.String(), how, strconv.Itoa(uid))
	u.run()
	t.Cleanup(func() { u.as(u.end) })
	return u
}

// run starts the keeper, as root, and makes the agent's client.
func (u *userRig) run() {
	u.t.Helper()
	c, err := newClient(u.cfg, true)
	if err == nil {
		err = c.start(u.ctx())
	}
	if err != nil {
		words, _ := os.ReadFile(filepath.Join(u.dir, "stderr"))
		u.t.Fatalf("%v\n%s", err, words)
	}
	u.c = c
	c.starts = false
	if err := os.Chown(filepath.Join(u.dir, "stderr"), u.uid, u.uid); err != nil {
		u.t.Fatal(err)
	}
}

// as calls f on a thread of the agent's user.
func (u *userRig) as(f func()) {
	u.t.Helper()
	confine.Apart(func() {
		id := uintptr(u.uid)
		_, _, e1 := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		_, _, e2 := syscall.RawSyscall(syscall.SYS_SETRESGID, id, id, id)
		_, _, e3 := syscall.RawSyscall(syscall.SYS_SETRESUID, id, id, id)
		if e1 != 0 || e2 != 0 || e3 != 0 {
			u.t.Errorf("become %d: %v, %v, %v", u.uid, e1, e2, e3)
			return
		}
		f()
	})
}

func (u *userRig) mkdir(dir string, mode os.FileMode) {
	u.t.Helper()
	if err := os.MkdirAll(dir, mode); err != nil {
		u.t.Fatal(err)
	}
	if err := os.Chown(dir, u.uid, u.uid); err != nil {
		u.t.Fatal(err)
	}
}

// put writes a file of the agent's.
func (u *userRig) put(path, text string, mode os.FileMode) string {
	u.t.Helper()
	path = filepath.Join(u.state, path)
	u.as(func() {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			u.t.Error(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			u.t.Error(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			u.t.Error(err)
		}
	})
	return path
}

// of is a run of a slot: this program as what, which has a resource and its directory.
func (u *userRig) of(slot, id, script string) Run {
	u.t.Helper()
	resource := u.put("resources/copies/0123", "resource\n", 0o644)
	run := u.shell(id, script)
	run.Slot, run.Dir = slot, filepath.Join(u.state, "workloads/slots", slot, "c1")
	run.Env = append(run.Env, "HOME="+run.Dir, "TMPDIR="+run.Dir)
	run.Log.Path = filepath.Join(u.state, "logs", id)
	u.as(func() {
		err := os.MkdirAll(run.Dir, 0o755)
		if err == nil {
			_ = os.Remove(filepath.Join(run.Dir, "resource"))
			err = os.Symlink(resource, filepath.Join(run.Dir, "resource"))
		}
		if err != nil {
			u.t.Error(err)
		}
	})
	run.Confine = &Confine{Room: confine.System().With(confine.Room{Write: []string{run.Dir},
		Known: []string{filepath.Dir(resource)}, Read: []string{u.exe}})}
	return run
}

func (u *userRig) start(run Run) (s Status) {
	u.t.Helper()
	u.as(func() {
		var err error
		if s, err = u.c.Start(u.ctx(), run); err != nil {
			u.t.Errorf("start %s: %v", run.ID, err)
		}
	})
	return s
}

func (u *userRig) wait(id string) (s Status) {
	u.t.Helper()
	u.as(func() {
		var err error
		if s, err = u.c.Wait(u.ctx(), id); err != nil {
			u.t.Errorf("wait for %s: %v", id, err)
		}
	})
	return s
}

func (u *userRig) output(id string) string {
	u.t.Helper()
	data, _, err := ReadLog(filepath.Join(u.state, "logs", id), Cursor{}, 64<<10)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(data)
}

// each runs a test with and without the rest of the confinement, for an agent that is root and for one that is not.
func eachUser(t *testing.T, f func(t *testing.T, u *userRig)) {
	for _, uid := range []int{agentUser, 0} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprintf("uid=%d,plain=%v", uid, plain), func(t *testing.T) { f(t, newUserRig(t, uid, plain)) })
		}
	}
}
