package api

import (
	"net"
	"syscall"
)

// credentials asks the kernel who connected.
func credentials(c *net.UnixConn) (p peer) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}
	}
	err = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			p = peer{uid: cred.Uid, known: true}
		}
	})
	if err != nil {
		return peer{}
	}
	return p
}
