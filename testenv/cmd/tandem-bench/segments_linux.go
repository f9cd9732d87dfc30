package main

import (
	"net"

	"golang.org/x/sys/unix"
)

// counts is how many bytes a connection has carried, both ways, and in how many TCP segments, with empty ones:
// acknowledgements and keep-alive probes.
func counts(c *net.TCPConn) (payload, segments int64, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var info *unix.TCPInfo
	var failed error
	if err := raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return 0, 0, err
	}
	if failed != nil {
		return 0, 0, failed
	}
	return int64(info.Bytes_received + info.Bytes_sent), int64(info.Segs_in) + int64(info.Segs_out), nil
}
