package distribute

import (
	"errors"
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// A submission that is delivered again after a restart gets its answer, not a second verdict.
func TestInboxAnswersAfterARestart(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		said := r.push("a", "1.0.0")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.start()
		if a := r.push("a", "1.0.0"); string(wire.Encode(&a)) != string(wire.Encode(&said)) {
			t.Errorf("answered %+v, said %+v", a, said)
		}
		if s := r.status(); s.Version != "1.0.0" {
			t.Errorf("%+v", s)
		}
	})
}

// A journal that comes back while the controller stops does not open it to messages again.
func TestRefuseOutlastsARecovery(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.disk.fail(1, 0)
		r.mustBe("its commit failed", r.hear(live("n", 1)), wire.CodeStorage)
		r.core.Refuse()
		time.Sleep(time.Minute)
		if r.core.Refusing() == nil {
			t.Error(errors.New("messages are taken after Refuse"))
		}
	})
}
