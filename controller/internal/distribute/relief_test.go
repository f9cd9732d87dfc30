package distribute

import (
	"testing"

	"tandem.internal/shared/wire"
)

// TestRefusedMovesAreTriedAgain: a set of workloads that is refused was not applied, whoever has refused it: the mover
// hears why.
func TestRefusedMovesAreTriedAgain(t *testing.T) {
	withFaults(t, func(c *Config) { c.Desired = true }, func(t *testing.T, r *faulty) {
		r.mustBe("a set that cannot be read", r.core.applyMoves(t.Context(), []byte("{")), wire.CodeBadValue)
		r.mustBe("a set", r.core.applyMoves(t.Context(), []byte("[]")), "")
	})
}
