//go:build race

package attack

// underRace: nats-server 2.15.2 writes the user name of every client when its rules are read again,
// which the client reads without a lock as it publishes. So nobody is revoked there.
const underRace = true
