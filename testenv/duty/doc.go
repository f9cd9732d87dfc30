// Package duty owns tests of workloads with the real programs (seed 004): a controller, nodes with
// their keepers, a server of resources, and shell scripts that write down what happens to them.
//
// It guarantees that nothing outlives a test: what carries the mark of a unit's directory in its
// environment or its command line is killed when the test ends, and a test that has emptied its unit fails if there was
// any.
package duty
