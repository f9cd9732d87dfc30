// Package trust holds tests of who may take part in a unit, and the rig that they and others share: a
// real controller and real node agents in one process, on real TLS sockets, under a clock that the
// test sets.
package trust
