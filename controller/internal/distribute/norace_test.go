//go:build !race

package distribute

const underRace = false
