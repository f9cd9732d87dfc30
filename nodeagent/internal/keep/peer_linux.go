package keep

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"tandem.internal/nodeagent/internal/peer"
)

// welcome says whether a client is of the keeper's own user, or root, and not among the processes of runs: these have
// the same user, and what they ask for would be done outside of their confinement.
func (k *keeper) welcome(conn *net.UnixConn) bool {
	p, err := peer.Of(conn)
	if err != nil {
		return false
	}
	defer p.Close()
	own := os.Geteuid()
	switch {
	case p.UID == 0 && own != 0: // it can do anyway what a keeper could for it
		return true
	case p.UID != own, p.PID <= 0:
		return false
	case k.among(p.PID):
		k.note("process %d, of a run, asked for something; it was hung up on", p.PID)
		return false
	}
	return p.Same() // what was looked at was the peer, if that has not ended by now
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
