//go:build !race

package passphrase

const underRace = false
