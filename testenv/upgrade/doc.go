// Package upgrade owns tests of upgrades of the agent with real processes: a good version is kept, a bad
// one is rolled back by the node itself, and neither touches configuration or desired state. Times are
// the shortest that the contract allows, so the tests mostly wait, and all at once.
package upgrade
