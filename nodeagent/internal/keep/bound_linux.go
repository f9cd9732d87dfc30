package keep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tandem.internal/nodeagent/internal/cgroup"
	"tandem.internal/nodeagent/internal/confine"
)

// Bound is how a keeper with users for slots is started, by root.
type Bound struct {
	Exe      string   // the keeper's program; "": this very one
	Args     []string // its arguments, without its name
	Dir      string   // the keeper's
	Env      []string // all of its environment
	UID, GID uint32   // of the agent: the keeper's files are its own
	Users    Users
	// Ports of this machine's loopback addresses to which slots may connect. If Open, they may to all.
	Ports []uint16
	Open  bool
	Note  func(string) // is told why the kernel cannot keep slots from loopback addresses
	Ready *os.File     // given on, as Serving.Ready; nil: none. Run closes it
}

// powers are the capabilities of such a keeper, all within its user namespace: over processes and files of the agent's
// user and of Users, and over nobody else's.
var powers = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_KILL, unix.CAP_SYS_PTRACE,
	unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_DAC_OVERRIDE}

// Run starts the keeper and waits until it has ended. The kernel bounds what the keeper can become: it is the agent's
// user in a user namespace that has this user and Users, and no other (user_namespaces(7)). When ctx ends, it is told
// to end; it does not outlive the calling process.
func (b Bound) Run(ctx context.Context) (err error) {
	runtime.LockOSThread() // the kernel ends the keeper with the thread that has started it
	defer runtime.UnlockOSThread()
	env := slices.DeleteFunc(slices.Clone(b.Env), func(v string) bool { return strings.HasPrefix(v, readyEnv+"=") })
	env = append(env, boundEnv+"=1", homeEnv+"="+b.Dir)
	if !b.Open {
		l, lerr := denyLoopback(b)
		if lerr == nil { // it ends with this process, at the latest; and so does the keeper
			defer func() { err = errors.Join(err, l.Close()) }()
			env = append(env, netEnv+"=1")
		} else if b.Note != nil {
			b.Note("slots can connect to this machine's loopback addresses: " + lerr.Error())
		}
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if b.Ready != nil {
		files = append(files, b.Ready)
		env = append(env, readyEnv+"=3")
	}
	exe := b.Exe
	if exe == "" {
		exe = ownProgram
	}
	p, err := os.StartProcess(exe, append([]string{"tandem-node"}, b.Args...), &os.ProcAttr{
		Dir: "/", Env: env, Files: files,
		Sys: &syscall.SysProcAttr{
			Cloneflags:                 syscall.CLONE_NEWUSER,
			UidMappings:                b.mapped(b.UID),
			GidMappings:                b.mapped(b.GID),
			GidMappingsEnableSetgroups: true,
			Credential:                 &syscall.Credential{Uid: b.UID, Gid: b.GID},
			AmbientCaps:                powers,
			Pdeathsig:                  syscall.SIGKILL,
		},
	})
	if b.Ready != nil {
		err = errors.Join(err, b.Ready.Close())
	}
	if err != nil {
		return fmt.Errorf("start the keeper with users of its own, %s, for slots: %w", b.Users, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Signal(syscall.SIGTERM) }) // or it has ended
	defer stop()
	state, err := p.Wait()
	if err != nil {
		return fmt.Errorf("wait for the keeper: %w", err)
	}
	if !state.Success() {
		return fmt.Errorf("the keeper: %v", state)
	}
	return nil
}

// denyLoopback keeps the users of slots from loopback addresses.
func denyLoopback(b Bound) (*confine.Loopback, error) {
	top, err := cgroup.Top()
	if err == nil && top == "" {
		err = errors.New("this machine has no cgroup v2")
	}
	if err != nil {
		return nil, err
	}
	return confine.DenyLoopback(top, b.Users.First, b.Users.Last, b.Ports)
}

func (b Bound) mapped(id uint32) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{{ContainerID: int(id), HostID: int(id), Size: 1},
		{ContainerID: int(b.Users.First), HostID: int(b.Users.First), Size: int(b.Users.Last-b.Users.First) + 1}}
}

// boundEnv is in the environment of a keeper that Bound has started.
const boundEnv = "TANDEM_KEEPER_BOUND"

// netEnv is there if Bound keeps slots from loopback addresses.
const netEnv = "TANDEM_KEEPER_NET"

// IsBound says that this process is to be one that Bound has started. Serve looks whether it is.
func IsBound() bool { return os.Getenv(boundEnv) != "" }

// bounded says why this process is not in the user namespace of Bound.
func bounded(u Users) error {
	for file, id := range map[string]int{"uid_map": os.Geteuid(), "gid_map": os.Getegid()} {
		data, err := os.ReadFile("/proc/self/" + file)
		if err != nil {
			return fmt.Errorf("users of slots: %w", err)
		}
		own, first := strconv.Itoa(id), strconv.Itoa(int(u.First))
		want := []string{own, own, "1", first, first, strconv.Itoa(int(u.Last-u.First) + 1)}
		if !slices.Equal(strings.Fields(string(data)), want) {
			return fmt.Errorf("a keeper that gives users %s to slots has to be started by root: it may become others, "+
				"too, %s says", u, file)
		}
	}
	return nil
}

// Overlap says which user or group of this machine's files, passwd(5) and group(5), has a number of the range.
func (u Users) Overlap() error {
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Split(line, ":")
			if len(f) < 3 {
				continue
			}
			if id, err := strconv.ParseUint(f[2], 10, 32); err == nil && u.Has(uint32(id)) {
				return fmt.Errorf("%d is %.40q in %s: users of slots, %s, must be nobody else's", id, f[0], file, u)
			}
		}
	}
	return nil
}
