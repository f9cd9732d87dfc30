package confine

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// asHook names what this program tries when it is started as something confined, one word each.
const asHook = "CONFINE_TEST_AS_HOOK"

func TestMain(m *testing.M) {
	if words := os.Getenv(asHook); words != "" {
		for word := range strings.FieldsSeq(words) {
			what, arg, _ := strings.Cut(word, "=")
			if err := attempts[what](arg); err != nil {
				errno := syscall.Errno(0)
				_ = errors.As(err, &errno)
				fmt.Printf("%s: %s\n", what, unix.ErrnoName(errno))
			} else {
				fmt.Printf("%s: done\n", what)
			}
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// raw is a system call that needs no valid arguments to be refused.
func raw(nr uintptr, args ...uintptr) func(string) error {
	var a [3]uintptr
	copy(a[:], args)
	return func(string) error {
		if _, _, e := syscall.RawSyscall(nr, a[0], a[1], a[2]); e != 0 {
			return e
		}
		return nil
	}
}

// attempts are what a hostile hook tries, by name; arg is a path, a number or a name.
var attempts = map[string]func(arg string) error{
	"read":    func(arg string) error { _, err := os.ReadFile(arg); return err },
	"list":    func(arg string) error { _, err := os.ReadDir(arg); return err },
	"write":   func(arg string) error { return os.WriteFile(arg, []byte("x"), 0o600) },
	"devnull": func(string) error { return os.WriteFile(os.DevNull, []byte("x"), 0) },
	"rename": func(arg string) error {
		return errors.Join(os.MkdirAll(arg+"/d", 0o700), os.WriteFile(arg+"/f", nil, 0o600),
			os.Rename(arg+"/f", arg+"/d/f"))
	},
	"truncate": func(arg string) error { return os.Truncate(arg, 0) },
	"takeout":  func(arg string) error { from, to, _ := strings.Cut(arg, ","); return os.Rename(from, to) },
	"link":     func(arg string) error { from, to, _ := strings.Cut(arg, ","); return os.Link(from, to) },
	"shell":    func(string) error { return exec.Command("/bin/sh", "-c", "exit 0").Run() },
	"signal": func(arg string) error {
		pid, err := strconv.Atoi(arg)
		return errors.Join(err, syscall.Kill(pid, 0))
	},
	"ptrace": func(arg string) error {
		pid, err := strconv.Atoi(arg)
		return errors.Join(err, syscall.PtraceAttach(pid))
	},
	"memory":  func(arg string) error { _, err := os.ReadFile("/proc/" + arg + "/environ"); return err },
	"socket":  func(arg string) error { return dialed(net.Dial("unix", "@"+arg)) },
	"mount":   func(arg string) error { return syscall.Mount("none", arg, "tmpfs", 0, "") },
	"unshare": raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
	"userns": func(string) error {
		cmd := exec.Command("/bin/sh", "-c", "exit 0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	},
	"clone3":      raw(unix.SYS_CLONE3),
	"keyctl":      raw(unix.SYS_KEYCTL, ^uintptr(0)),
	"bpf":         raw(unix.SYS_BPF, ^uintptr(0)),
	"userfaultfd": raw(unix.SYS_USERFAULTFD, ^uintptr(0)),
	"io_uring":    raw(unix.SYS_IO_URING_SETUP),
	"setns":       raw(unix.SYS_SETNS, ^uintptr(0)),
	"vm":          raw(unix.SYS_PROCESS_VM_READV),
	"gain": func(string) error {
		if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || n != 1 {
			return nil
		}
		return syscall.EPERM
	},
}

func dialed(c net.Conn, err error) error {
	if err == nil {
		err = c.Close()
	}
	return err
}

// try starts this program on a thread of a room, to try words; the answer has a line for each.
func try(t *testing.T, thread *Thread, words ...string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{asHook + "=" + strings.Join(words, " "), "GORACE=atexit_sleep_ms=0"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var err error
	thread.Do(func() { err = cmd.Start() })
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return strings.TrimSpace(out.String())
}

// room is a thread with a room of two directories, own and known, beside one that it is not to reach.
func room(t *testing.T) (thread *Thread, own, known, other string) {
	dir := t.TempDir()
	own, known, other = filepath.Join(dir, "own"), filepath.Join(dir, "known"), filepath.Join(dir, "other")
	for _, d := range []string{own, known, other} {
		file := filepath.Join(d, "file")
		if err := errors.Join(os.Mkdir(d, 0o700), os.WriteFile(file, []byte("x"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	thread = NewThread(System().With(Room{Write: []string{own, filepath.Join(dir, "none")}, Read: []string{exe},
		Known: []string{known}}))
	t.Cleanup(thread.End)
	if thread.Level != Landlock {
		t.Logf("THIS KERNEL CONFINES TO %s ONLY: %v", thread.Level, thread.Why)
	}
	return thread, own, known, other
}

func (l Level) need(t *testing.T, other Level) {
	t.Helper()
	if !l.AtLeast(other) {
		t.Skipf("NOT TRIED: %s; this kernel confines to %s", other, l)
	}
}

// TestSystemCalls: what the filter refuses, and no_new_privs.
func TestSystemCalls(t *testing.T) {
	thread, own, _, _ := room(t)
	thread.Level.need(t, Basic)
	self := strconv.Itoa(os.Getpid())
	want := "ptrace: EPERM\nmount: EPERM\nunshare: EPERM\nuserns: EPERM\nclone3: ENOSYS\nkeyctl: EPERM\nbpf: EPERM\n" +
		"userfaultfd: EPERM\nio_uring: EPERM\nsetns: EPERM\nvm: EPERM\ngain: EPERM\nshell: done"
	if got := try(t, thread, "ptrace="+self, "mount="+own, "unshare", "userns", "clone3", "keyctl", "bpf",
		"userfaultfd", "io_uring", "setns", "vm", "gain", "shell"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestFilesOfARoom: only those of the room, and what ordinary programs need.
func TestFilesOfARoom(t *testing.T) {
	thread, own, known, other := room(t)
	thread.Level.need(t, Files)
	for _, c := range []struct{ word, want string }{
		{"read=" + own + "/file", "done"}, {"write=" + own + "/new", "done"}, {"list=" + own, "done"},
		{"rename=" + own, "done"}, {"truncate=" + own + "/file", "done"}, {"devnull", "done"}, {"shell", "done"},
		{"read=/etc/hosts", "done"}, {"list=/usr", "done"}, {"read=/proc/self/status", "done"},
		{"read=" + known + "/file", "done"}, {"list=" + known, "EACCES"}, {"write=" + known + "/file", "EACCES"},
		{"read=" + other + "/file", "EACCES"}, {"list=" + other, "EACCES"}, {"write=" + other + "/new", "EACCES"},
		{"truncate=" + other + "/file", "EACCES"}, {"list=" + filepath.Dir(other), "EACCES"},
		{"takeout=" + own + "/file," + other + "/taken", "EACCES"},
		{"link=" + other + "/file," + own + "/linked", "EACCES"},
		{"list=/tmp", "EACCES"}, {"list=/", "EACCES"}, {"read=/etc/shadow", "EACCES"}, {"write=/usr/new", "EACCES"},
		{"memory=" + strconv.Itoa(os.Getpid()), "EACCES"},
	} {
		what, _, _ := strings.Cut(c.word, "=")
		if got := try(t, thread, c.word); got != what+": "+c.want && !(c.want == "EACCES" && got == what+": EXDEV") {
			t.Errorf("%s: %s, want %s", c.word, got, c.want)
		}
	}
	link := filepath.Join(own, "away")
	if err := os.Symlink(filepath.Join(other, "file"), link); err != nil {
		t.Fatal(err)
	}
	if got := try(t, thread, "read="+link); got != "read: EACCES" {
		t.Errorf("through a link: %s", got)
	}
}

// TestScopes: signals and abstract sockets end at the thread's domain, and go on within it.
func TestScopes(t *testing.T) {
	thread, _, _, _ := room(t)
	thread.Level.need(t, Landlock)
	name := fmt.Sprintf("tandem-confine-test-%d", os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sleep := func(start func(func())) int {
		cmd := exec.Command("/bin/sleep", "1000")
		start(func() { err = cmd.Start() })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		return cmd.Process.Pid
	}
	inside, beside := sleep(thread.Do), sleep(func(f func()) { f() })
	for word, want := range map[string]string{
		fmt.Sprint("signal=", os.Getpid()): "EPERM", fmt.Sprint("signal=", beside): "EPERM",
		fmt.Sprint("signal=", inside): "done", "socket=" + name: "EPERM",
	} {
		what, _, _ := strings.Cut(word, "=")
		if got := try(t, thread, word); got != what+": "+want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
	if err := syscall.Kill(inside, 0); err != nil {
		t.Errorf("from outside: %v", err)
	}
}

// TestOtherThreadsStayFree: what a thread has given up holds for nothing that others do or start.
func TestOtherThreadsStayFree(t *testing.T) {
	thread, _, _, other := room(t)
	thread.Level.need(t, Basic)
	if level, why := Possible(); level != thread.Level {
		t.Errorf("possible is %s (%v)", level, why)
	}
	for range 50 {
		text, err := os.ReadFile("/proc/thread-self/status")
		if err != nil || !bytes.Contains(text, []byte("NoNewPrivs:\t0")) {
			t.Fatalf("%s %v", text, err)
		}
		if _, err := os.ReadFile(filepath.Join(other, "file")); err != nil {
			t.Fatal(err)
		}
	}
	tid := Apart(func() {})
	if tid == os.Getpid() || tid == thread.TID || thread.TID == os.Getpid() {
		t.Errorf("threads %d and %d of process %d", tid, thread.TID, os.Getpid())
	}
}

// TestFilterOfEveryArchitecture runs the programs as the kernel would.
func TestFilterOfEveryArchitecture(t *testing.T) {
	const allow, eperm, enosys = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | 1, unix.SECCOMP_RET_ERRNO | 38
	for goarch, arch := range architectures {
		vm := machine(t, program(goarch))
		for _, c := range []struct{ arch, nr, arg, want uint32 }{
			{arch, unix.SYS_READ, 0, allow}, {arch + 1, unix.SYS_READ, 0, enosys}, {arch, unix.SYS_PTRACE, 0, eperm},
			{arch, unix.SYS_ACCT, 0, eperm}, {arch, unix.SYS_CLONE3, 0, enosys}, {arch, unix.SYS_CLONE, 17, allow},
			{arch, unix.SYS_CLONE, unix.CLONE_NEWUSER | 17, eperm}, {arch, unix.SYS_CLONE, unix.CLONE_VM | 0x80, allow},
			{arch, unix.SYS_UNSHARE, unix.CLONE_NEWNET, eperm}, {arch, unix.SYS_UNSHARE, unix.CLONE_NEWTIME, eperm},
			{arch, unix.SYS_UNSHARE, unix.CLONE_FILES, allow},
		} {
			var data [64]byte // big-endian, as the machine here has it; the kernel's is its own
			for at, v := range map[int]uint32{atNumber: c.nr, atArch: c.arch, atArg0: c.arg} {
				data[at], data[at+1], data[at+2], data[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
			}
			if got, err := vm.Run(data[:]); err != nil || uint32(got) != c.want {
				t.Errorf("%s, %+v: %#x %v", goarch, c, got, err)
			}
		}
	}
	if program("none") != nil {
		t.Error("a filter for an architecture that is not known")
	}
}

func machine(t *testing.T, p []unix.SockFilter) *bpf.VM {
	t.Helper()
	var all []bpf.Instruction
	for _, i := range p {
		all = append(all, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K}.Disassemble())
	}
	vm, err := bpf.NewVM(all)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

func TestLevels(t *testing.T) {
	for i, l := range Levels {
		for j, o := range Levels {
			if l.AtLeast(o) != (i >= j) {
				t.Errorf("%s at least %s", l, o)
			}
		}
		if err := l.Check(); err != nil || !l.AtLeast("") || Level("").AtLeast(l) != (l == None) || l.AtLeast("newer") {
			t.Errorf("%s: %v", l, err)
		}
	}
	if err := Level("much").Check(); err == nil ||
		!strings.Contains(err.Error(), "one of none, basic, files, landlock") {
		t.Error(err)
	}
	if size := unsafe.Sizeof(rulesetAttr{}); size != 24 {
		t.Errorf("the rules' attributes have %d bytes", size)
	}
}

// TestExtras: what is in force beside a level counts as well, whatever the order.
func TestExtras(t *testing.T) {
	both := Basic.With(User).With(Net)
	if both != "basic+user+net" || both.With(User) != both || Level("").With(Net) != "none+net" {
		t.Errorf("%q, %q", both, Level("").With(Net))
	}
	for _, c := range []struct {
		l, least Level
		want     bool
	}{
		{both, Basic, true}, {both, None, true}, {both, "basic+net", true}, {both, "none+net+user", true},
		{both, Landlock, false}, {Landlock, "none+user", false}, {"landlock+user", "basic+user+net", false},
		{"landlock+user", "basic+user", true}, {both, "basic+newer", false}, {"newer+user", "landlock+user", true},
		{"landlock+users", "none+user", false},
	} {
		if c.l.AtLeast(c.least) != c.want {
			t.Errorf("%q at least %q: %v", c.l, c.least, !c.want)
		}
	}
	for l, good := range map[Level]bool{"none+user": true, "landlock+net+user": true, "none+": false, "user": false,
		"none+user+": false, "none+users": false, "": true} {
		if err := l.Check(); (err == nil) != good {
			t.Errorf("%q: %v", l, err)
		}
	}
	for l, demands := range map[Level]bool{"": false, None: false, "none+user": true, Basic: true} {
		if l.Demands() != demands {
			t.Errorf("%q demands something: %v", l, !demands)
		}
	}
}
