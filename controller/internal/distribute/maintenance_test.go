package distribute

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/record"
	"tandem.internal/shared/wire"
)

// Where the clock was set back, no beacon of the next start announces a maintenance for longer than it was
// to last: neither the first, nor that of the new epoch, nor a later one.
func TestMaintenanceWhoseClockIsSetBack(t *testing.T) {
	var cfg Config
	withFaults(t, func(c *Config) { cfg = *c }, func(t *testing.T, r *faulty) {
		r.mustBe("maintain", r.maintain(2*time.Hour), "")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		yesterday := func() time.Time { return time.Now().Add(-24 * time.Hour) }
		cfg.Now = yesterday
		early, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b, err := wire.Decode[wire.Beacon](early.outbox.beacon(true).Payload)
		if err = errors.Join(err, early.Close()); err != nil {
			t.Fatal(err)
		}
		if d := b.Maintenance.Sub(b.Time); d <= 0 || d > 2*time.Hour {
			t.Errorf("before the start is in the journal: announced for %v", d)
		}
		r.tune = func(c *Config) { c.Now = yesterday }
		r.start()
		for range 3 {
			b := r.beacon()
			if d := b.Maintenance.Sub(b.Time); d <= 0 || d > 2*time.Hour {
				t.Errorf("in epoch %d: announced for %v", b.Epoch, d)
			}
			time.Sleep(30 * time.Minute)
			synctest.Wait()
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if b := r.beacon(); !b.Maintenance.IsZero() {
			t.Errorf("over: %+v", b)
		}
		r.whole()
	})
}

// A maintenance is in every beacon until it is over, survives a restart, and is in the goodbye; never in the will,
// which may be heard days later. A stop in good order may announce one by itself.
func TestMaintenanceIsAnnounced(t *testing.T) {
	withFaults(t, func(c *Config) { c.StopMaintenance = 10 * time.Minute }, func(t *testing.T, r *faulty) {
		began := time.Now()
		r.mustBe("maintain", r.maintain(2*time.Hour), "")
		synctest.Wait()
		until := r.beacon().Maintenance
		if d := until.Sub(began); d <= 2*time.Hour-2*time.Second || d > 2*time.Hour {
			t.Errorf("announced for %v", d)
		}
		if s, err := r.core.Status(t.Context()); err != nil || s.Maintenance == nil ||
			!s.Maintenance.Until.Equal(until) || s.Maintenance.Who != "ann" {
			t.Errorf("%+v %v", s.Maintenance, err)
		}
		payload := func(all []byte) *wire.Beacon {
			b, err := wire.Decode[wire.Beacon](all)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if b := payload(r.core.Will(1).Payload); b.Up || !b.Maintenance.IsZero() {
			t.Errorf("the will: %+v", b)
		}
		if b := payload(r.core.Goodbye(1)[0].Payload); b.Up || !b.Maintenance.Equal(until) {
			t.Errorf("the goodbye: %+v", b)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if b := r.beacon(); !b.Maintenance.Equal(until) || b.Maintenance.Sub(b.Time) > time.Hour {
			t.Errorf("an hour later: %+v", b)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.start()
		if b := r.beacon(); !b.Maintenance.Equal(until) {
			t.Errorf("after a restart: %+v", b)
		}
		time.Sleep(time.Until(until) + time.Second)
		synctest.Wait()
		if b := r.beacon(); !b.Maintenance.IsZero() {
			t.Errorf("over: %+v", b)
		}
		if got := r.records(record.Maintenance); len(got) != 2 || got[0].Who != "ann" || got[1].Who != "" {
			t.Errorf("%+v", got)
		}
		b := payload(r.core.Goodbye(1)[0].Payload)
		if d := b.Maintenance.Sub(b.Time); d != 10*time.Minute {
			t.Errorf("a planned stop announces %v", d)
		}
		r.whole()
	})
}
