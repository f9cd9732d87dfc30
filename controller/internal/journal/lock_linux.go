package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockHolder names the process that holds path's lock as /proc tells it: "NAME (PID N)", or
// "another process" where it cannot be told (another PID namespace, no /proc).
func lockHolder(path string) string {
	const unknown = "another process"
	info, err := os.Stat(path)
	if err != nil {
		return unknown
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return unknown
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return unknown
	}
	// 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF
	inode := ":" + strconv.FormatUint(st.Ino, 10)
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], inode) {
			continue
		}
		// The device in /proc/locks differs from stat's on some file systems: ask the process.
		pid, err := strconv.Atoi(f[4])
		if err != nil || pid <= 0 || !hasOpen(pid, info) {
			continue
		}
		if pid == os.Getpid() {
			return fmt.Sprintf("this very process (PID %d)", pid)
		}
		if name := program(pid); name != "" {
			return fmt.Sprintf("%s (PID %d)", name, pid)
		}
		return fmt.Sprintf("PID %d", pid)
	}
	return unknown
}

// program is the name of a process's program, "" if it cannot be told. The kernel keeps 15 bytes of it,
// which tandem-controller does not fit into: the rest is in the command line.
func program(pid int) string {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	const kept = 15
	name := string(bytes.TrimSpace(comm))
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(name) < kept {
		return name
	}
	first, _, _ := bytes.Cut(args, []byte{0})
	if whole := filepath.Base(string(first)); strings.HasPrefix(whole, name) {
		return whole
	}
	return name
}

// hasOpen reports whether the process has the file open, as far as we may see.
func hasOpen(pid int, info os.FileInfo) bool {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		return os.Geteuid() != 0 // another user's process: the inode has to do
	}
	for _, fd := range fds {
		if other, err := os.Stat(fd); err == nil && os.SameFile(other, info) {
			return true
		}
	}
	return false
}

// sameOwner gives f to whom path belongs: somebody may look after the files of a controller that runs as another user.
func sameOwner(f *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
