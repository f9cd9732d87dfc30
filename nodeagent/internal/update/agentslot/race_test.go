//go:build race

package agentslot

// pairs is every how many pairs of points one is tried: the race detector makes each take ten times as long.
const pairs = 6
