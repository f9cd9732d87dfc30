//go:build race

package slot

const underRace = true
