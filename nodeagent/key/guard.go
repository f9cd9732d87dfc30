package key

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"tandem.internal/nodeagent/internal/peer"
)

// Guard says why whoever has connected is not answered; nil if it is.
type Guard func(conn *net.UnixConn) error

// AgentOnly answers the processes of one user, but none that descends from another process of that user: the agent and
// tandem-node join are started by root, what hooks and commands run descends from the agent or the keeper. group, if
// it is not empty, is a control group (cgroup v2) in which nobody is answered either, whoever its parent is by now.
func AgentOnly(uid int, group string) Guard {
	return func(conn *net.UnixConn) error {
		p, err := peer.Of(conn)
		if err != nil {
			return fmt.Errorf("who it is cannot be known: %w", err)
		}
		defer p.Close()
		if p.UID != uid {
			return fmt.Errorf("process %d is of user %d, and not of the agent's, %d", p.PID, p.UID, uid)
		}
		if p.PID <= 0 {
			return errors.New("it is in a namespace that cannot be seen from here")
		}
		if group != "" {
			own, err := peer.Group(p.PID)
			if err != nil {
				return err
			}
			if own == group || strings.HasPrefix(own, group+"/") {
				return fmt.Errorf("process %d is in the control group of workloads", p.PID)
			}
		}
		above := 0
		if err := peer.Ancestors(p.PID, func(pid, of int) bool {
			if of == uid {
				above = pid
			}
			return above == 0
		}); err != nil {
			return err
		}
		if above != 0 {
			return fmt.Errorf("process %d descends from process %d of the same user, as hooks do; the agent and "+
				"tandem-node join are started by root", p.PID, above)
		}
		if !p.Same() { // what was looked at was the peer, if that has not ended by now
			return fmt.Errorf("process %d has ended", p.PID)
		}
		return nil
	}
}
