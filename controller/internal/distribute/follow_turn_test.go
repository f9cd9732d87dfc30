package distribute

import (
	"testing"
	"time"

	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/kinds/wanted"
	"tandem.internal/controller/internal/steer"
	"tandem.internal/shared/cloud"
)

// TestFollowerIsNoReader: however many readers wait, what the cloud side wants is decided in its turn.
func TestFollowerIsNoReader(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		c := r.core
		c.readers.Add(maxReaders)
		defer c.readers.Add(-maxReaders)
		var u *steer.Unit
		if err := c.see(t.Context(), func(f *fleet.Fleet) { u = steer.Look(f, time.Now()) }); err != nil {
			t.Fatal(err)
		}
		f := newFollower(c)
		if err := f.decide(t.Context(), &wanted.Status{Rev: 1}, &cloud.DesiredStatus{}, u); err != nil {
			t.Error(err)
		}
	})
}
