// Package env runs the whole pair in one process and in virtual time: a controller with its
// embedded broker, or with a broker of its own, and any number of node agents, inside a
// testing/synctest bubble. Hours pass in a blink, and machines die, disks fill up and networks
// break at a word.
//
// It watches every agent at every step. Whatever a test does, it fails when a node runs an older
// document after a newer one, when a node reports as installed what is not in its config.json, and
// when the controller forgets what it acknowledged.
//
// Nothing here knows how the controller or the agent work: they are the programs' own app packages,
// with their seams in the test's hands. Files are real, on a memory file system where there is
// one, and survive their process as they would survive a crash.
package env
