package report

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/pulse"
)

// beats is when the sender's loop beat last.
type beats struct {
	t     *testing.T
	last  time.Time
	ended bool
}

func (b *beats) watch(loop string, period time.Duration) (beat, end func()) {
	if loop != "sender" || period != pulse.Every {
		b.t.Errorf("registered as %q, %v", loop, period)
	}
	b.last = time.Now()
	return func() {
		if gap := time.Since(b.last); gap > pulse.Every {
			b.t.Errorf("%v without a beat", gap)
		}
		b.last = time.Now()
	}, func() { b.ended = true }
}

// A sender that has nothing to send, or whose session takes nothing for hours, beats all the time, and
// sends what waits once, in order. What a session could not send is not sent in the next.
func TestWaitingBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &road{gate: make(chan error)}
		s, b := New(zap.NewNop(), 3), &beats{t: t}
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, w, b.watch) }()
		time.Sleep(24 * time.Hour)
		s.Up(1)
		s.Once("event", []byte("4"), 4)
		s.Once("event", []byte("5"), 5)
		time.Sleep(6 * time.Hour)
		w.gate <- nil
		time.Sleep(6 * time.Hour)
		w.gate <- nil
		synctest.Wait()
		if got := w.take(); got != "event=4 event=5" {
			t.Errorf("sent %q", got)
		}
		s.Once("a", []byte("1"), 0)
		time.Sleep(time.Hour)
		s.Down()
		s.Up(2)
		s.Latest("live", []byte("2"))
		time.Sleep(time.Hour)
		w.gate <- nil
		time.Sleep(time.Hour)
		if got := w.take(); got != "live=2" || s.Pending() != 0 {
			t.Errorf("in the next session it sent %q, and %d are left", got, s.Pending())
		}
		cancel()
		<-done
		if !b.ended {
			t.Error("not ended")
		}
	})
}

// deaf is a publisher that does not come back, whatever it is told.
type deaf chan struct{}

func (d deaf) Publish(context.Context, string, []byte, bool) error { <-d; return nil }

func TestHangStopsTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := make(deaf)
		s, b := New(zap.NewNop(), 3), &beats{t: t}
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, d, b.watch) }()
		s.Up(1)
		s.Latest("live", []byte(strings.Repeat("x", 10)))
		synctest.Wait()
		at := b.last
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.last != at {
			t.Errorf("it beat %v after it hung", b.last.Sub(at))
		}
		b.last = time.Now()
		cancel()
		close(d)
		<-done
	})
}
