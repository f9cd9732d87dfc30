package attack

import (
	"testing"

	"tandem.internal/shared/race"
)

// TestRevokedAtNATS makes the attempts of a revoked node at NATS: nats-server 2.15.2 writes the user name of every
// client when its rules are read again, which the client reads without a lock as it publishes.
func TestRevokedAtNATS(t *testing.T) {
	if race.Enabled {
		t.Skip("nats-server has a race of its own")
	}
	u := newUnit(t, nats)
	for i, a := range table() {
		if a.by == aRevoked {
			t.Run(a.name, func(t *testing.T) { u.attempt(t, i, a, a.want.on(nats)) })
		}
	}
}
