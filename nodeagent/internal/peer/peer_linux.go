package peer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Peer is a process that has connected, as the kernel knows it. Close it.
type Peer struct {
	PID int // 0 or less: it is in a namespace that cannot be seen from here
	UID int // its effective user when it connected

	handle int // a pidfd; -1: this kernel has none of peers
}

// Of asks the kernel who has connected.
func Of(conn *net.UnixConn) (p Peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	var perr error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); perr != nil {
			return
		}
		p.PID, p.UID = int(cred.Pid), int(cred.Uid)
		p.handle, perr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(perr, unix.ENOPROTOOPT) { // before Linux 6.5
			p.handle, perr = -1, nil
		}
	})
	return p, errors.Join(err, perr)
}

// Close gives back what the kernel keeps for it.
func (p Peer) Close() {
	if p.handle >= 0 {
		_ = unix.Close(p.handle) // never written
	}
}

// Same reports whether what /proc has shown under PID since Of was the peer: it has not ended yet. Before Linux 6.5
// nobody knows, and the answer is yes.
func (p Peer) Same() bool {
	if p.handle < 0 {
		return true
	}
	err := unix.PidfdSendSignal(p.handle, 0, nil, 0)
	return err == nil || errors.Is(err, unix.EPERM) // of another user, which lives
}

// maxDepth bounds how many parents of parents are looked at.
const maxDepth = 1 << 12

// Ancestors calls each with the number and the effective user of pid's parent, of that one's parent and so on, until
// each returns false or there is none. The error says that one of them cannot be seen.
func Ancestors(pid int, each func(pid, uid int) bool) error {
	parent, _, err := look(pid)
	for range maxDepth {
		if err != nil || parent == 0 {
			return err
		}
		pid = parent
		var uid int
		if parent, uid, err = look(pid); err == nil && !each(pid, uid) {
			return nil
		}
	}
	return fmt.Errorf("process %d descends from more than %d", pid, maxDepth)
}

// look reads the parent and the effective user of a process (proc_pid_status(5)).
func look(pid int) (parent, uid int, err error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0, fmt.Errorf("process %d cannot be seen: %w", pid, err)
	}
	parent, uid = -1, -1
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		f := strings.Fields(value)
		switch {
		case name == "PPid" && len(f) == 1:
			parent, err = strconv.Atoi(f[0])
		case name == "Uid" && len(f) == 4: // real, effective, saved, of files
			uid, err = strconv.Atoi(f[1])
		}
		if err != nil {
			return 0, 0, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	if parent < 0 || uid < 0 {
		return 0, 0, fmt.Errorf("process %d: /proc does not say whose it is", pid)
	}
	return parent, uid, nil
}

// Group is the control group of a process in the unified tree (cgroup v2), as /proc/PID/cgroup names it; "" where
// there is none.
func Group(pid int) (string, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", fmt.Errorf("process %d cannot be seen: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) {
		if group, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(group, "\n"), nil
		}
	}
	return "", nil
}
