package confine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// denying is a filter that gives an error for one system call, if its first argument is arg, or in any case.
func denying(nr uint32, arg int64, e syscall.Errno) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	other := func(k, past uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(past), K: k}
	}
	give := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	deny, allow := give(unix.SECCOMP_RET_ERRNO|uint32(e)), give(unix.SECCOMP_RET_ALLOW)
	if arg < 0 {
		return []unix.SockFilter{load(atNumber), other(nr, 1), deny, allow}
	}
	return []unix.SockFilter{load(atNumber), other(nr, 3), load(atArg0), other(uint32(arg), 1), deny, allow}
}

// TestKernelsThatCannot: what a kernel, or the service's unit, does not let be done is missing from the level, and the
// reason says so.
func TestKernelsThatCannot(t *testing.T) {
	for _, c := range []struct {
		nr   uint32
		arg  int64
		e    syscall.Errno
		want Level
		why  string
	}{
		{unix.SYS_LANDLOCK_CREATE_RULESET, -1, syscall.EPERM, Basic, "a filter of system calls, of the service's unit"},
		{unix.SYS_LANDLOCK_CREATE_RULESET, -1, syscall.ENOSYS, Basic, "the kernel has no Landlock"},
		{unix.SYS_LANDLOCK_CREATE_RULESET, -1, syscall.EOPNOTSUPP, Basic, "started without Landlock"},
		{unix.SYS_LANDLOCK_RESTRICT_SELF, -1, syscall.EPERM, Basic, "landlock: operation not permitted"},
		{unix.SYS_PRCTL, unix.PR_SET_SECCOMP, syscall.EINVAL, None, "filter of system calls: invalid argument"},
		{unix.SYS_PRCTL, prSetNoNewPrivs, syscall.EINVAL, None, "no_new_privs: invalid argument"},
	} {
		var level Level
		var why, err error
		Apart(func() {
			if err = NoNewPrivs(); err == nil {
				err = install(denying(c.nr, c.arg, c.e))
			}
			if err == nil {
				level, why = Here(Room{})
			}
		})
		if err != nil {
			t.Skipf("NOT TRIED: kernels that cannot confine; this one takes no filter: %v", err)
		}
		if c.nr != unix.SYS_PRCTL && !possible(t, Files) {
			continue
		}
		if level != c.want || why == nil || !strings.Contains(why.Error(), c.why) {
			t.Errorf("%+v: %s, %v", c, level, why)
		}
	}
}

func possible(t *testing.T, least Level) bool {
	level, why := Possible()
	if !level.AtLeast(least) {
		t.Logf("NOT TRIED: %s; this kernel confines to %s: %v", least, level, why)
	}
	return level.AtLeast(least)
}

// TestOlderABIs: with the rules of every ABI up to the kernel's own, files outside of the room cannot be read.
func TestOlderABIs(t *testing.T) {
	if !possible(t, Files) {
		t.Skip("NOT TRIED: Landlock")
	}
	newest, err := abi()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own, other := filepath.Join(dir, "own"), filepath.Join(dir, "other")
	if err := errors.Join(os.Mkdir(own, 0o700), os.WriteFile(own+"/file", nil, 0o600),
		os.WriteFile(other, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= newest; n++ {
		var inside, outside, write error
		Apart(func() {
			if err = NoNewPrivs(); err == nil {
				err = landlock(Room{Write: []string{own}}, n)
			}
			_, inside = os.ReadFile(own + "/file")
			_, outside = os.ReadFile(other)
			write = os.WriteFile(own+"/file", []byte("x"), 0o600)
		})
		if err != nil || inside != nil || write != nil || !errors.Is(outside, os.ErrPermission) {
			t.Errorf("ABI %d: %v; inside %v, %v, outside %v", n, err, inside, write, outside)
		}
	}
}
