// Package trust holds tests of who may take part in a unit: real controllers and node agents in one
// process, on real TLS sockets, under a clock that the test sets.
package trust
