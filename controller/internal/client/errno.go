//go:build !windows

package client

import "syscall"

// What the system says of a connection: nobody listens, it was cut off, its address is not one.
const (
	refused = syscall.ECONNREFUSED
	reset   = syscall.ECONNRESET
	invalid = syscall.EINVAL
)
