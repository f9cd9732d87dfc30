package inbox

import (
	"testing"
	"time"

	"tandem.internal/shared/wire"
)

// A controller whose clock was set back must be listened to again, without a restart of the node.
func TestClockSetBack(t *testing.T) {
	one := signer(1)
	tr := Trust{}
	hear := func(d time.Duration) {
		tr, _ = tr.Beacon("u1", epoch, beacon(one, func(b *wire.Beacon) { b.Time = epoch.Add(d) }), false)
	}
	want := func(d time.Duration) {
		t.Helper()
		if got := tr.Corrected(epoch).Sub(epoch); got != d {
			t.Errorf("the controller's clock counts as %v ahead, want %v", got, d)
		}
	}
	hear(time.Hour)
	want(time.Hour)
	hear(-20 * time.Hour)
	want(time.Hour)
	hear(-20 * time.Hour) // the same again proves nothing
	want(time.Hour)
	hear(-20*time.Hour + time.Minute)
	want(-20*time.Hour + time.Minute)
	hear(-20*time.Hour + 2*time.Minute)
	want(-20*time.Hour + 2*time.Minute)
}
