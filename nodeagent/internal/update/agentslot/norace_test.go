//go:build !race

package agentslot

const underRace = false
