package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rulesetAttr is struct landlock_ruleset_attr as ABI 6 has it (landlock_create_ruleset(2)).
type rulesetAttr struct{ files, net, scoped uint64 }

// scopedABI is the first ABI with scopes.
const scopedABI = 6

// Rights that only directories can have are not for files: the kernel refuses them.
const (
	forFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	toKnow = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	toRead = toKnow | unix.LANDLOCK_ACCESS_FS_READ_DIR
)

// abiFiles are the rights to files that an ABI knows.
func abiFiles(abi int) (all uint64) {
	all = unix.LANDLOCK_ACCESS_FS_REFER - 1 // ABI 1: all that are below it
	if abi >= 2 {
		all |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// abi is the version of the kernel's Landlock.
func abi() (int, error) {
	n, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch e {
	case 0:
		return int(n), nil
	case syscall.EPERM:
		return 0, errors.New("a filter of system calls, of the service's unit perhaps, forbids Landlock")
	case syscall.EOPNOTSUPP:
		return 0, errors.New("the kernel was started without Landlock (lsm=)")
	case syscall.ENOSYS:
		return 0, errors.New("the kernel has no Landlock, or a filter of system calls hides it")
	}
	return 0, fmt.Errorf("landlock: %w", e)
}

// landlock leaves the thread a room. It needs no_new_privs.
func landlock(room Room, abi int) (err error) {
	attr := rulesetAttr{files: abiFiles(abi)}
	size := unsafe.Sizeof(attr.files)
	if abi >= scopedABI {
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Sizeof(attr)
	}
	set, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return fmt.Errorf("landlock: make rules: %w", e)
	}
	defer func() { err = errors.Join(err, syscall.Close(int(set))) }()
	for _, part := range []struct {
		paths  []string
		access uint64
	}{{room.Write, attr.files}, {room.Read, toRead}, {room.Known, toKnow}} {
		for _, path := range part.paths {
			if err := allow(int(set), path, part.access&attr.files); err != nil {
				return fmt.Errorf("landlock: %s: %w", path, err)
			}
		}
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); e != 0 {
		return fmt.Errorf("landlock: %w", e)
	}
	return nil
}

// allow adds a path, with all that is below, to a set of rules.
func allow(set int, path string, access uint64) (err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrPermission) {
		return nil // what is not there, or cannot be reached, cannot be used either
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= forFiles
	}
	rule := struct { // struct landlock_path_beneath_attr, which is packed: nothing follows
		access uint64
		parent int32
	}{access, int32(fd)}
	if _, _, e := syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
