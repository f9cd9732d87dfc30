package client

import "golang.org/x/sys/windows"

// What the system says of a connection: nobody listens, it was cut off, its address is not one.
const (
	refused = windows.WSAECONNREFUSED
	reset   = windows.WSAECONNRESET
	invalid = windows.WSAEINVAL
)
