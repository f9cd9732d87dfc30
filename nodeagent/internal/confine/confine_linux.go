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
