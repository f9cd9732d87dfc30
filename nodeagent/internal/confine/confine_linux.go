// Package confine takes rights away from what is started: it sets them for one OS thread, which has no other work, and
// what that thread starts has them for good (shared/docs/adr/047-hooks-are-confined.md).
//
// It must not decide who is confined, nor to what.
package confine

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Apart calls f on an OS thread that does nothing else before or after: what f sets for its thread holds for nothing
// but what f starts. It returns the thread's ID, which ends soon after.
func Apart(f func()) (tid int) {
	done := make(chan struct{})
	var inside func()
	inside = func() {
		runtime.LockOSThread() // and never unlocked, so the thread ends with the goroutine
		if tid = syscall.Gettid(); tid == os.Getpid() {
			// The first thread cannot end. While it is held here, another goroutine has another one.
			next := make(chan struct{})
			go func() { defer close(next); inside() }()
			<-next
			runtime.UnlockOSThread()
			return
		}
		f()
	}
	go func() { defer close(done); inside() }()
	<-done
	return tid
}

// prSetNoNewPrivs is an operation of prctl(2).
const prSetNoNewPrivs = 38

// NoNewPrivs has nothing that this thread executes get more rights than it has, by set-user-ID programs or file
// capabilities.
func NoNewPrivs() error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("no_new_privs: %w", e)
	}
	return nil
}

// Disarm has nothing that this thread executes get capabilities, of this user or of another one that it is started as:
// they leave the bounding and the inheritable set, and so the ambient one. The thread keeps its own, by which it starts
// processes of other users. It needs CAP_SETPCAP.
func Disarm() error {
	for c := uintptr(0); ; c++ {
		_, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)
		if e == syscall.EINVAL && c > 0 { // the kernel has no more
			break
		}
		if e != 0 {
			return fmt.Errorf("bounding set: capability %d: %w", c, e)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return NoNewPrivs()
}

// PowerlessThread takes this thread's capabilities away, for good.
func PowerlessThread() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
