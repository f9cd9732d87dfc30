package confine

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that a confined program does not get (EPERM): to look into other processes, the kernel's
// keys, programs for the kernel, calls past the filter (io_uring), handling page faults, mounts, other namespaces,
// modules, and what ends or replaces the system.
var refused = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_SETNS,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
}

// namespaces are the flags of clone and unshare that make new ones. CLONE_NEWTIME, of unshare alone, is a bit of the
// signal in clone.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// architectures have the number by which the kernel tells the filter whose numbers of system calls it is given.
var architectures = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "arm": unix.AUDIT_ARCH_ARM,
	"386": unix.AUDIT_ARCH_I386, "riscv64": unix.AUDIT_ARCH_RISCV64,
}

// Offsets in struct seccomp_data (seccomp(2)). That of the argument is of its lower half on machines that are
// little-endian, as all of architectures are.
const (
	atNumber = 0
	atArch   = 4
	atArg0   = 16
)

// program is the filter for an architecture; nil: it is not known.
func program(goarch string) []unix.SockFilter {
	arch, ok := architectures[goarch]
	if !ok {
		return nil
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	// else the next instruction is passed over
	when := func(test uint16, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: 1, K: k}
	}
	give := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	refuse := func(e syscall.Errno) unix.SockFilter { return give(unix.SECCOMP_RET_ERRNO | uint32(e)) }

	p := []unix.SockFilter{
		load(atArch), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch}, refuse(syscall.ENOSYS),
		load(atNumber),
	}
	if goarch == "amd64" { // the numbers of x32
		p = append(p, when(unix.BPF_JGE, 0x4000_0000), refuse(syscall.ENOSYS))
	}
	for _, nr := range refused {
		p = append(p, when(unix.BPF_JEQ, nr), refuse(syscall.EPERM))
	}
	// Its flags are in memory, where a filter does not see them: callers fall back to clone.
	p = append(p, when(unix.BPF_JEQ, unix.SYS_CLONE3), refuse(syscall.ENOSYS))
	for _, c := range []struct{ nr, flags uint32 }{{unix.SYS_CLONE, namespaces},
		{unix.SYS_UNSHARE, namespaces | unix.CLONE_NEWTIME}} {
		p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4, K: c.nr},
			load(atArg0), when(unix.BPF_JSET, c.flags), refuse(syscall.EPERM), give(unix.SECCOMP_RET_ALLOW))
	}
	return append(p, give(unix.SECCOMP_RET_ALLOW))
}

// lost are capabilities that nothing of root's has when it is confined: with the first two the kernel shows even what
// Landlock hides, such as the environment of other processes, and the others are for what the filter refuses.
var lost = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO,
	unix.CAP_SYS_BOOT, unix.CAP_SYSLOG, unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE, unix.CAP_AUDIT_CONTROL, unix.CAP_BPF,
	unix.CAP_CHECKPOINT_RESTORE}

// drop has what the thread executes not get those capabilities. Without root there are none.
func drop() error {
	for _, c := range lost {
		_, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)
		if e != 0 && e != syscall.EPERM && e != syscall.EINVAL { // not root; older than the capability
			return fmt.Errorf("capability %d: %w", c, e)
		}
	}
	return nil
}

// filter gives the thread the filter. It needs no_new_privs.
func filter() error {
	p := program(runtime.GOARCH)
	if p == nil {
		return fmt.Errorf("there is no filter of system calls for %s", runtime.GOARCH)
	}
	return install(p)
}

func install(p []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	// not seccomp(2), which the service's own filter may forbid
	_, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&prog)), 0, 0, 0)
	runtime.KeepAlive(p)
	if e != 0 {
		return fmt.Errorf("filter of system calls: %w", e)
	}
	return nil
}
