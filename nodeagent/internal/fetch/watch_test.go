package fetch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/shared/pulse"
)

// The store beats while there is nothing to do.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var newest atomic.Int64
		began := time.Now()
		ended := false
		s, err := Open(Config{Dir: t.TempDir(), Watch: func(loop string, period time.Duration) (func(), func()) {
			if loop != "resources" || period < pulse.Every {
				t.Errorf("%s beats every %v", loop, period)
			}
			return func() { newest.Store(int64(time.Since(began))) }, func() { ended = true }
		}, Space: func(string) (uint64, error) { return 1 << 40, nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		for range 20 {
			time.Sleep(time.Minute)
			synctest.Wait()
			if quiet := time.Since(began) - time.Duration(newest.Load()); quiet > pulse.Every {
				t.Errorf("no beat for %v", quiet)
			}
		}
		cancel()
		if err := <-done; err != nil || !ended {
			t.Errorf("%v, ended: %v", err, ended)
		}
	})
}
