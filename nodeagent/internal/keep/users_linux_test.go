package keep

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/confine"
	"tandem.internal/shared/wire"
)

// TestHostileSlot: what has a user of its own is not the agent, whatever else the kernel can do.
func TestHostileSlot(t *testing.T) {
	eachUser(t, func(t *testing.T, u *userRig) {
		for _, name := range []string{"identity/identity.json", "state.db", "config.json", "slots/a/tandem-node"} {
			u.put(name, "secret\n", 0o600)
		}
		agent := exec.Command("/bin/sleep", "1000")
		agent.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.uid),
			Gid: uint32(u.uid)}, Pdeathsig: syscall.SIGKILL}
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = agent.Process.Kill()
			_ = agent.Wait()
		}()
		other := u.start(u.of("other", "other", "umask 0; echo x >secret; echo y; exec sleep 1000"))
		if other.UID != base+1 || !other.Confined.Has(confine.User) {
			t.Fatalf("%+v", other)
		}
		var k Keeper
		u.as(func() { k, _ = u.c.Keeper(u.ctx()) })
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		may, extra := strings.Replace(hostileMay, "[71000]", fmt.Sprint([]uint32{base}), 1), confine.Level("+user+net")
		if top, err := cgroup.Top(); err != nil || top == "" {
			t.Log("NOT TRIED: keeping slots from loopback addresses; there is no cgroup v2")
			may, extra = strings.Replace(may, "loopback refused", "loopback done", 1), "+user"
		}
		run := u.of("evil", "evil", "")
		run.Argv = []string{u.exe, u.state, fmt.Sprint(agent.Process.Pid), fmt.Sprint(k.PID), fmt.Sprint(other.PID),
			fmt.Sprint(u.uid), fmt.Sprint(other.UID), l.Addr().String()}
		run.Env = append(run.Env, asWhat+"=hostile", raceEnv)
		if s := u.start(run); s.UID != base+2 || s.Error != "" {
			t.Fatalf("%+v", s)
		}
		s := u.wait("evil")
		if out := u.output("evil"); !s.Success() || out != may {
			t.Errorf("%+v\n%s", s, out)
		}
		if level, _ := confine.Possible(); !u.plain() && s.Confined != level+extra ||
			u.plain() && s.Confined != "none"+extra {
			t.Errorf("confined: %q", s.Confined)
		}
	})
}

func (u *userRig) plain() bool { return u.cfg.Args[4] == "plain" }

// TestHooksOfASlot: runs of one slot have one user, and may signal each other; nothing of the user is left when the
// last of them has ended, neither what has left session and mark, nor what an earlier keeper's run has.
func TestHooksOfASlot(t *testing.T) {
	eachUser(t, func(t *testing.T, u *userRig) {
		stray := "(setsid env -i /bin/sh -c 'echo $$ >pid; exec sleep 1000' &); " +
			"while ! [ -s pid ]; do sleep 0.01; done; "
		main := u.start(u.of("a", "main", stray+"exec sleep 1000"))
		signal := u.of("a", "signal", "kill -0 $TANDEM_PID && kill -0 $(cat pid)")
		signal.Env = append(signal.Env, fmt.Sprint("TANDEM_PID=", main.PID))
		u.await(filepath.Join(signal.Dir, "pid"))
		if s := u.start(signal); s.UID != main.UID {
			t.Errorf("%+v, %+v", s, main)
		}
		if s := u.wait("signal"); !s.Success() {
			t.Errorf("%+v", s)
		}
		if owners(t, main.UID) < 2 {
			t.Error("what goes on was ended with a run beside it")
		}
		u.as(func() { _, _ = u.c.Stop(u.ctx(), "main", 0) })
		u.wait("main")
		if n := owners(t, main.UID); n != 0 {
			t.Errorf("%d processes of the user are left", n)
		}
		if err := os.Remove(filepath.Join(signal.Dir, "pid")); err != nil {
			t.Fatal(err)
		}
		lost := u.start(u.of("a", "lost", stray+"exec sleep 1000"))
		u.await(filepath.Join(signal.Dir, "pid"))
		u.as(u.kill)
		u.forget()
		u.run()
		if s := u.wait("lost"); s.State != Lost {
			t.Errorf("%+v", s)
		}
		if n := owners(t, lost.UID); n != 0 {
			t.Errorf("%d processes of a keeper that was killed are left", n)
		}
	})
}

// await waits for a file with something in it.
func (u *userRig) await(path string) {
	u.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			return
		}
		if time.Now().After(end) {
			u.t.Fatalf("%s does not come", path)
		}
	}
}

// forget waits for the program that has started a keeper which was killed, and takes what that said of it.
func (u *userRig) forget() {
	u.t.Helper()
	children := <-u.c.children
	for _, pid := range children {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			u.t.Error(err)
		}
	}
	u.c.children <- nil
	words := filepath.Join(u.dir, "stderr")
	if said, err := os.ReadFile(words); err != nil || string(said) != "the keeper: signal: killed\n" {
		u.t.Errorf("it said %q, %v", said, err)
	}
	if err := os.Truncate(words, 0); err != nil {
		u.t.Error(err)
	}
}

// owners counts the processes of a user.
func owners(t *testing.T, uid uint32) (n int) {
	t.Helper()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for pid, p := range all {
		if !p.dead && owned(pid, uid) {
			n++
		}
	}
	return n
}

// TestUsersAreKept: a slot keeps its user, also with the next keeper; a user that has had a slot is given to another
// one only when there is no other, and nothing is left of the slot.
func TestUsersAreKept(t *testing.T) {
	u := newUserRig(t, agentUser, true)
	try := func(slot string) Status {
		t.Helper()
		id := fmt.Sprint(slot, "-", time.Now().UnixNano())
		u.start(u.of(slot, id, "mkdir -p deep/er && touch deep/er/file && chmod 700 deep"))
		return u.wait(id)
	}
	for i, slot := range []string{"a", "b", "c", "b"} {
		if s, want := try(slot), base+[]uint32{1, 2, 3, 2}[i]; s.UID != want || !s.Success() {
			t.Errorf("%s: %+v, want %d", slot, s, want)
		}
	}
	if s := try("d"); !strings.Contains(s.Error, "each user of "+slotRange.String()+" has a slot") {
		t.Errorf("%+v", s)
	}
	home := func(slot string) string { return filepath.Join(u.state, "workloads/slots", slot) }
	u.as(func() {
		if err := os.RemoveAll(home("b")); !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.ENOTEMPTY) {
			t.Errorf("the agent itself: %v", err)
		}
		if err := u.c.Clear(u.ctx(), home("b")); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(home("b")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	foreign := exec.Command("/bin/sleep", "1000") // a process of b's user that no keeper knows
	foreign.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: base + 2, Gid: base + 2},
		Pdeathsig: syscall.SIGKILL}
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	if s := try("d"); !strings.Contains(s.Error, "each user of "+slotRange.String()+" has a slot") {
		t.Errorf("%+v", s)
	}
	if err := foreign.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = foreign.Wait()
	u.as(func() {
		if err := u.c.Quit(u.ctx(), true); err != nil {
			t.Error(err)
		}
	})
	u.run()
	for i, slot := range []string{"d", "c", "a"} {
		if s, want := try(slot), base+[]uint32{2, 3, 1}[i]; s.UID != want || !s.Success() {
			t.Errorf("%s: %+v, want %d", slot, s, want)
		}
	}
}

// TestGroupsOfASlot: a slot with a user of its own does not own its control groups.
func TestGroupsOfASlot(t *testing.T) {
	u := newUserRig(t, 0, true)
	tree, settings := groups(t, map[string]string{"pids.max": "50"})
	dirs := leaf(t, tree, settings, "slotuser")
	run := u.of("a", "groups", `for dir in "$@"; do
		echo 0 >$dir/cgroup.procs && echo moved
		echo 0 >$dir/../cgroup.procs && echo moved
		echo 0 >$dir/../../cgroup.procs && echo moved
		echo max >$dir/../pids.max && echo unlimited
		mkdir $dir/mine && echo made
	done 2>/dev/null
	cat /proc/self/cgroup`)
	run.Argv = append(append(run.Argv, "sh"), dirs...)
	run.Cgroups = dirs
	u.start(run)
	s := u.wait("groups")
	out := u.output("groups")
	if !s.Success() || strings.Contains(out, "moved") || strings.Contains(out, "unlimited") ||
		strings.Contains(out, "made") || !strings.Contains(out, "slotuser") {
		t.Errorf("%+v\n%s", s, out)
	}
}

// TestTakenOverAgent: whoever is the agent has nothing run but as a slot's user, removes and writes nothing but its
// own, and does not get into the keeper.
func TestTakenOverAgent(t *testing.T) {
	u := newUserRig(t, agentUser, true)
	var k Keeper
	u.as(func() { k, _ = u.c.Keeper(u.ctx()) })
	if k.Users != slotRange.String() {
		t.Errorf("%+v", k)
	}
	roots := filepath.Join(u.work, "roots")
	if err := os.MkdirAll(filepath.Join(roots, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := u.of("a", "good", "id -u")
	for id, change := range map[string]func(*Run){
		"root":       func(r *Run) { r.User = &User{} },
		"beyond":     func(r *Run) { r.User, r.Slot = &User{UID: base + 4, GID: base + 4}, "" },
		"without":    func(r *Run) { r.Slot = "" },
		"unconfined": func(r *Run) { r.Confine = nil },
		"elsewhere":  func(r *Run) { r.Dir = filepath.Join(roots, "dir") },
		"link": func(r *Run) {
			r.Dir = filepath.Join(u.state, "link")
			u.as(func() {
				if err := os.Symlink(filepath.Join(roots, "dir"), r.Dir); err != nil {
					t.Error(err)
				}
			})
		},
	} {
		run := good
		run.ID, run.Log.Path = id, filepath.Join(u.state, "logs", id)
		change(&run)
		if id == "elsewhere" { // where it may run, and gets nothing
			u.start(run)
			if s := u.wait(id); s.UID != base+1 {
				t.Errorf("%s: %+v", id, s)
			}
			continue
		}
		if s := u.start(run); s.State != Exited || s.Error == "" {
			t.Errorf("%s: %+v", id, s)
		}
	}
	u.as(func() {
		if err := u.c.Clear(u.ctx(), roots); !errors.Is(err, &wire.Error{Code: wire.CodeStorage}) {
			t.Errorf("clear what is root's: %v", err)
		}
	})
	written := u.of("b", "written", "echo x")
	written.Log.Path = filepath.Join(roots, "dir", "log")
	u.start(written)
	u.wait("written")
	if left, err := os.ReadDir(filepath.Join(roots, "dir")); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if info, err := os.Stat(filepath.Join(roots, "dir")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	u.as(func() {
		if err := syscall.PtraceAttach(k.PID); !errors.Is(err, syscall.EPERM) {
			t.Errorf("trace the keeper: %v", err)
		}
		if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", k.PID)); !errors.Is(err, os.ErrPermission) {
			t.Errorf("look into the keeper: %v", err)
		}
	})
}

// TestBound: the kernel lets the keeper become the users of slots and nobody else, and gives it no rights over what is
// others'.
func TestBound(t *testing.T) {
	for _, uid := range []int{agentUser, 0} {
		u := newUserRig(t, uid, true)
		out, err := os.CreateTemp(u.work, "")
		if err != nil {
			t.Fatal(err)
		}
		stdout := os.Stdout
		os.Stdout = out
		err = Bound{Exe: u.exe, Args: []string{u.work}, Dir: u.dir, UID: uint32(uid), GID: uint32(uid),
			Users: slotRange, Env: []string{asWhat + "=bound", raceEnv, fmt.Sprint(asBase, "=", base)}}.Run(u.ctx())
		os.Stdout = stdout
		said, rerr := os.ReadFile(out.Name())
		root := "invalid argument"
		if uid == 0 {
			root = "done"
		}
		want := fmt.Sprintf("0 %s\n1 invalid argument\n65534 invalid argument\n%d invalid argument\n%d done\n"+
			"%d done\n%d invalid argument\nchown invalid argument\nwrite permission denied\n", root, base-1, base,
			base+3, base+4)
		if uid == 0 { // whose files are the agent's
			want = strings.Replace(want, "write permission denied", "write done", 1)
		}
		if err != nil || rerr != nil || string(said) != want {
			t.Errorf("%v, %v:\n%swant\n%s", err, rerr, said, want)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	}
}

// asBounded tries what a keeper with users could do. The argument is a directory of root's.
func asBounded() int {
	for _, uid := range []uint32{0, 1, 65534, base - 1, base, base + 3, base + 4} {
		confine.Apart(func() {
			id := uintptr(uid)
			_, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, id, id, id)
			fmt.Println(uid, said(orNil(e)))
		})
	}
	fmt.Println("chown", said(os.Chown(os.Args[1], 1, -1)))
	fmt.Println("write", said(os.WriteFile(filepath.Join(os.Args[1], "file"), nil, 0o600)))
	return 0
}

func said(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "done"
}
