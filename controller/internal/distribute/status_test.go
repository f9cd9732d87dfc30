package distribute

import (
	"testing"
	"testing/synctest"

	"tandem.internal/shared/seal"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// TestStatusIsSigned: what outbox/status carries is signed by the key that signs, also after a rotation, and a later
// one is told from an earlier one.
func TestStatusIsSigned(t *testing.T) {
	g := newRing()
	withFaults(t, func(c *Config) { c.Keyring = g }, func(t *testing.T, r *faulty) {
		var last uint64
		want := func(when, version string) {
			t.Helper()
			synctest.Wait()
			payload, _ := r.broker.Retained(topic.ForOutbox(faultyUnit, statusTopic))
			s, err := wire.Decode[wire.UnitStatus](payload)
			if err != nil {
				t.Fatalf("%s: %s: %v", when, payload, err)
			}
			key := r.core.signer().Key()
			trust := seal.Trust{key.ID: key.Ed25519}
			if err := trust.Verify(seal.StatusPreimage(faultyUnit, s), s.Sig); err != nil || s.Sig.KeyID != key.ID {
				t.Errorf("%s: %s: %v", when, payload, err)
			}
			if s.Version != version || s.Rev <= last || s.Epoch != r.core.journal.Load().Epoch() {
				t.Errorf("%s: %s, want version %s, and a later rev than %d", when, payload, version, last)
			}
			last = s.Rev
		}
		want("at first", "")
		r.submitBy("s-1", "1.0.0")
		want("installed", "1.0.0")
		first := r.core.signer().Key().ID
		for _, step := range steps[:2] {
			if _, err := step.do(r, first); err != nil {
				t.Fatal(err)
			}
		}
		if r.core.signer().Key().ID == first {
			t.Fatal("the key did not change")
		}
		want("after a rotation", "1.0.0")
	})
}
