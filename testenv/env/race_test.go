//go:build race

package env_test

const underRace = true
