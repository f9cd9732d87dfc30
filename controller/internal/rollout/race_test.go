//go:build race

package rollout_test

const underRace = true
