//go:build race

package app

// slower is by what time in long tests is divided under the race detector.
const slower = 10
