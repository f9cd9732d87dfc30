//go:build race

package agentslot

const underRace = true
