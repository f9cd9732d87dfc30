package keep

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer is the process that has connected, as the kernel knows it.
type peer struct {
	unix.Ucred
	handle int // a pidfd; -1: this kernel has none of peers
}

// welcome says whether a client is of the keeper's own user, or root, and not among the processes of runs: these have
// the same user, and what they ask for would be done outside of their confinement.
func (k *keeper) welcome(conn *net.UnixConn) bool {
	p, err := peerOf(conn)
	if err != nil {
		return false
	}
	if p.handle >= 0 {
		defer func() { _ = unix.Close(p.handle) }() // never written
	}
	own := os.Geteuid()
	switch {
	case p.Uid == 0 && own != 0: // it can do anyway what a keeper could for it
		return true
	case int(p.Uid) != own, p.Pid <= 0:
		return false
	case k.among(int(p.Pid)):
		k.note("process %d, of a run, asked for something; it was hung up on", p.Pid)
		return false
	}
	// what was looked at was the peer, if that has not ended by now
	return p.handle < 0 || unix.PidfdSendSignal(p.handle, 0, nil, 0) == nil
}

// peerOf asks the kernel who has connected.
func peerOf(conn *net.UnixConn) (p peer, err error) {
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
		p.Ucred = *cred
		p.handle, perr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(perr, unix.ENOPROTOOPT) { // before Linux 6.5
			p.handle, perr = -1, nil
		}
	})
	return p, errors.Join(err, perr)
}

// maxDepth bounds how many parents of parents are looked at.
const maxDepth = 1 << 12

// among says whether a process is of a run, or cannot be shown to be of none. All that a run starts stays below the
// keeper, which is the parent of orphans; what an earlier keeper has left behind has its mark, unless it hides that.
func (k *keeper) among(pid int) bool {
	if pid == k.living.self {
		return false // a test in the keeper's own process
	}
	if mark, _ := marked(pid, ""); strings.HasPrefix(mark, k.mark+"/") {
		return true
	}
	for range maxDepth {
		switch pid {
		case k.living.self:
			return true
		case 0, 1:
			return false
		}
		p, ok := lookAt(pid)
		if !ok {
			// Where /proc shows only processes of the own user, a parent may be another's. But then it cannot be
			// signalled either; one that can, and still shows nothing of itself, hides.
			return !errors.Is(syscall.Kill(pid, 0), syscall.EPERM)
		}
		pid = p.parent
	}
	return true
}
