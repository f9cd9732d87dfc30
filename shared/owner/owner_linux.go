package owner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"
)

// prSetNoNewPrivs is an operation of prctl(2): nothing that is executed gives more rights any more.
const prSetNoNewPrivs = 38

func become(dir string, parts []string) (err error) {
	if os.Geteuid() != 0 {
		return nil
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	info, err := d.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &os.PathError{Op: "stat", Path: dir, Err: errors.ErrUnsupported}
	}
	if err := check(dir, info.Mode(), st.Uid, parts); err != nil || st.Uid == 0 {
		return err
	}
	uid, gid := int(st.Uid), int(st.Gid)
	for _, step := range []func() error{
		func() error { return syscall.Setgroups([]int{}) },
		func() error { return syscall.Setresgid(gid, gid, gid) },
		func() error { return syscall.Setresuid(uid, uid, uid) },
		noNewPrivs,
	} {
		if err := step(); err != nil {
			return fmt.Errorf("become user %d, who owns %s: %w", uid, dir, err)
		}
	}
	return nil
}

// noNewPrivs holds for all threads; in a program with cgo, which ours are not, for the one that calls it.
func noNewPrivs() error {
	_, _, e := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0)
	if e == syscall.ENOTSUP {
		_, _, e = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0)
	}
	if e != 0 {
		return fmt.Errorf("no_new_privs: %w", e)
	}
	return nil
}

// ownerOf is the owner of a directory; ok is false for anything else.
func ownerOf(path string) (uid uint32, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, true
}

// openat2 and its resolve flag (openat2(2)); the number is the same on every architecture that Go has.
const (
	sysOpenat2        = 437
	resolveNoSymlinks = 0x04
)

func open(file string) (*os.File, bool) {
	if os.Geteuid() != 0 {
		return nil, false
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, false
	}
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return nil, false
	}
	how := struct{ flags, mode, resolve uint64 }{
		flags:   syscall.O_RDONLY | syscall.O_CLOEXEC | syscall.O_NONBLOCK | syscall.O_NOCTTY,
		resolve: resolveNoSymlinks,
	}
	fd, _, e := syscall.Syscall6(sysOpenat2, 0, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)),
		unsafe.Sizeof(how), 0, 0) // the path is absolute: no directory is needed
	runtime.KeepAlive(name)
	if e != 0 {
		return nil, false
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(fd), &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG ||
		st.Nlink > 1 && st.Mode&0o004 == 0 { // a hard link may have been put there, too
		_ = syscall.Close(int(fd)) // nothing was read
		return nil, false
	}
	return os.NewFile(fd, file), true
}
