package distribute

import (
	"sync/atomic"
	"testing"
	"time"

	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/retain"
)

// A clock that is ahead has nothing go for its age before somebody confirms it; one that is right again has cost
// nothing.
func TestTrimWithAClockThatJumped(t *testing.T) {
	var shift atomic.Int64
	tune := func(c *Config) {
		began := time.Now()
		c.KeepRecords, c.Keep = 1, retain.Rules{retain.Reports: {Age: 10 * days}}
		c.Clock = clock.New(clock.Config{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) },
			Machine: clock.Machine{Uptime: func() time.Duration { return time.Since(began) }}})
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) {
		r.says("n", 1, 30)
		was := r.records()
		for _, ahead := range []time.Duration{40 * days, -40 * days, 0} {
			shift.Store(int64(ahead))
			if p, err := r.core.TrimPlan(t.Context()); err != nil || p.Records > 0 || p.At.IsZero() == (ahead == 0) {
				t.Errorf("%+v would go with a clock that is ahead by %v: %v", p, ahead, err)
			}
			r.compacts()
			if gone := r.left(was); len(gone) > 0 {
				t.Errorf("%d records are gone with a clock that is ahead by %v", len(gone), ahead)
			}
		}
		shift.Store(int64(40 * days))
		if _, err := r.core.ConfirmClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.says("n", 40, 1)
		r.compacts()
		if gone := r.left(was); len(gone) < 29 {
			t.Errorf("only %d are gone of what is 40 days old", len(gone))
		}
		r.sameState()
	})
}

// The newest records stay whatever they are.
func TestNewestRecordsStay(t *testing.T) {
	tune := func(c *Config) {
		keepFew(c)
		c.KeepRecords = 20
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) {
		r.says("n", 1, 60)
		was := r.records()
		r.compacts()
		newest, gone := was[len(was)-1].Seq, r.left(was)
		if len(gone) == 0 || gone[len(gone)-1] != newest-20 {
			t.Errorf("%v are gone of %d, of which the newest 20 are to stay", gone, newest)
		}
	})
}
