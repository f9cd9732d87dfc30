package distribute

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/clock"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

const days = 24 * time.Hour

// withClock is withFaults with a machine whose clock the test sets, by nanoseconds in shift.
func withClock(t *testing.T, f func(t *testing.T, r *faulty, shift *atomic.Int64)) {
	var shift atomic.Int64
	tune := func(c *Config) {
		began := time.Now()
		c.Clock = clock.New(clock.Config{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) },
			Machine: clock.Machine{Uptime: func() time.Duration { return time.Since(began) }}})
	}
	withFaults(t, tune, func(t *testing.T, r *faulty) { f(t, r, &shift) })
}

// A clock that is wrong for two seconds is never heard by a node, and all goes on when it is right again.
func TestClockIsWrongForAMoment(t *testing.T) {
	withClock(t, func(t *testing.T, r *faulty, shift *atomic.Int64) {
		r.join("n1")
		r.install("1.0.0")
		sent := r.broker.total()
		shift.Store(int64(40 * days))
		for range 10 { // longer than anybody would wait
			r.join("n2") // who would be greeted, and asked
			r.join("n1")
			time.Sleep(10 * time.Minute)
		}
		synctest.Wait()
		if n := r.broker.total() - sent; n != 0 {
			t.Errorf("%d messages were sent by a clock that has jumped", n)
		}
		_, err := r.submit("2.0.0")
		r.mustBe("a submission meanwhile", err, wire.CodeUnavailable)
		if s, err := r.core.Status(t.Context()); err != nil || s.Clock == nil || s.Clock.Seconds != 40*86400 ||
			!strings.Contains(strings.Join(s.Trouble, " "), "nothing is said to the nodes") {
			t.Errorf("%+v %v", s, err)
		}
		shift.Store(int64(0))
		time.Sleep(time.Minute)
		synctest.Wait()
		if at := r.beacon().Time; time.Since(at).Abs() > time.Minute {
			t.Errorf("the beacon afterwards is of %v; it is %v", at, time.Now())
		}
		r.install("2.0.0")
		if r.broker.published(topic.ForNode(faultyUnit, "n2").Desired(wire.KindConfig)) == 0 {
			t.Error("what was held back was not said afterwards")
		}
		all, err := r.core.Entries(t.Context(), view.EntryFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.At.After(time.Now()) {
				t.Errorf("a record of the future: %+v", e)
			}
		}
		if said := r.entries("trouble"); said != 1 {
			t.Errorf("the journal tells of it %d times", said)
		}
	})
}

// Somebody confirms a jump; one back begins a higher epoch, for nodes would take beacons for recorded ones.
func TestClockIsConfirmed(t *testing.T) {
	for _, by := range []time.Duration{40 * days, -40 * days} {
		withClock(t, func(t *testing.T, r *faulty, shift *atomic.Int64) {
			r.join("n1")
			r.install("1.0.0")
			_, err := r.core.ConfirmClock(t.Context())
			r.mustBe("nothing to confirm", err, wire.CodeWrongState)
			epoch := r.beacon().Epoch
			shift.Store(int64(by))
			j, err := r.core.ConfirmClock(t.Context())
			if err != nil || j.Seconds != int64(by/time.Second) {
				t.Fatalf("%+v %v", j, err)
			}
			synctest.Wait()
			b := r.beacon()
			if now := time.Now().Add(by); now.Sub(b.Time).Abs() > time.Second || (b.Epoch > epoch) != (by < 0) {
				t.Errorf("the beacon is of %v, epoch %d (was %d); it is %v", b.Time, b.Epoch, epoch, now)
			}
			r.install("2.0.0")
			if r.entries("note") != 1 {
				t.Error("the journal does not tell who confirmed it")
			}
		})
	}
}

// entries counts the journal's records of a type.
func (r *faulty) entries(name string) int {
	r.Helper()
	all, err := r.core.Entries(r.Context(), view.EntryFilter{Types: []string{name}})
	if err != nil {
		r.Fatal(err)
	}
	return len(all)
}
