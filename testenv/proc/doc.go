// Package proc owns tests of the real programs: built once, run as processes over TCP on loopback,
// stopped and killed for real.
//
// It guarantees that no process outlives a test: each is the leader of a process group that is
// killed and waited for when the test ends, and dies with the test program on Linux. Ports and
// directories are each test's own. It must not reach into a program other than by its flags, files,
// signals, its HTTP API and the operator's command; what needs faults inside a program is a test of
// package env.
package proc
