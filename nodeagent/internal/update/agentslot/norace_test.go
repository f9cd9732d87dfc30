//go:build !race

package agentslot

const pairs = 1 // every pair of points is tried
