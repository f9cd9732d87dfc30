//go:build !race

package slot

const race = false
