package pulse

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book is what somebody who watches writes down.
type book struct {
	loop   string
	period time.Duration
	beats  []time.Duration // since the registration
	ended  bool
}

func (b *book) watch(loop string, period time.Duration) (beat, end func()) {
	began := time.Now()
	b.loop, b.period = loop, period
	return func() { b.beats = append(b.beats, time.Since(began)) }, func() { b.ended = true }
}

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		p := Watch(b.watch).Start("loop", time.Second)
		if b.loop != "loop" || b.period != Every {
			t.Errorf("registered as %q, %v", b.loop, b.period)
		}
		began := time.Now()
		p.Sleep(t.Context(), 0)
		p.Sleep(t.Context(), time.Hour)
		if took := time.Since(began); took != time.Hour {
			t.Errorf("an hour's sleep took %v", took)
		}
		at := time.Duration(0)
		for _, next := range append(b.beats, time.Hour) {
			if next-at > Every {
				t.Errorf("no beat from %v to %v", at, next)
			}
			at = next
		}
		if n := len(b.beats); n < 180 || n > 185 {
			t.Errorf("%d beats in an hour", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		p.Sleep(ctx, time.Hour)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("a sleep that was called off took %v", took)
		}
		p.End()
		if !b.ended {
			t.Error("not ended")
		}
		select {
		case <-p.C: // may be left over
		default:
		}
		time.Sleep(time.Hour)
		select {
		case <-p.C:
			t.Error("due after the end")
		default:
		}
	})
}

// What a loop does at a stretch is part of its period.
func TestLongest(t *testing.T) {
	var b book
	p := Watch(b.watch).Start("loop", time.Minute)
	defer p.End()
	if b.period != time.Minute {
		t.Errorf("registered for %v", b.period)
	}
}

// Where nobody watches, nothing wakes.
func TestNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Watch(nil).Start("loop", time.Second)
		p.Beat()
		p.Sleep(t.Context(), time.Hour)
		if p.C != nil {
			t.Error("it may be due")
		}
		p.End()
	})
}
