//go:build !race

// Package race says whether a program is built with Go's race detector, under which tests do less of what costs much
// and has no goroutines. deploy/demo/test runs the tests of files that ask it without the detector as well.
package race

// Enabled says whether this program is built with the race detector.
const Enabled = false
