// Package peer says which process has connected to a unix socket, and which processes that one descends from. It
// asks the kernel; nothing that the process says counts.
package peer
