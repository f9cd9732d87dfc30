package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// road records what is published; gate holds each publish up, and its value is the result.
type road struct {
	mu   sync.Mutex
	sent []string
	gate chan error
}

func (w *road) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	select {
	case err := <-w.gate:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, fmt.Sprintf("%s=%s", topic, payload))
	return nil
}

func (w *road) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.sent, " ")
	w.sent = nil
	return s
}

func run(t *testing.T, w *road, f func(s *Sender)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		w.gate = make(chan error) // of the bubble
		s := New(zap.NewNop(), 3)
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, w, nil) }()
		f(s)
		cancel()
		<-done
	})
}

func TestOrderAndLatest(t *testing.T) {
	w := &road{}
	run(t, w, func(s *Sender) {
		s.Latest("a", []byte("0")) // down: dropped
		s.Up(1)
		s.Latest("live", []byte("1"))
		synctest.Wait() // live is on its way
		s.Latest("a", []byte("1"))
		s.Once("reply", []byte("1"), 0)
		s.Latest("a", []byte("2"))
		s.Once("event", []byte("4"), 4)
		s.Once("reply", []byte("1"), 0)
		s.Latest("live", []byte("2"))
		for range 6 {
			w.gate <- nil
		}
		synctest.Wait()
		if got := w.take(); got != "live=1 a=2 reply=1 event=4 reply=1 live=2" {
			t.Error(got)
		}
		if s.LastEvent() != 4 || s.Pending() != 0 {
			t.Error(s.LastEvent(), s.Pending())
		}
		select {
		case <-s.Drained():
		default:
			t.Error("not drained")
		}
	})
}

func TestFailureDropsItsSession(t *testing.T) {
	w := &road{}
	run(t, w, func(s *Sender) {
		s.Up(1)
		s.Once("event", []byte("4"), 4)
		s.Once("event", []byte("5"), 5)
		w.gate <- errors.New("no session")
		synctest.Wait()
		if s.Pending() != 0 || s.LastEvent() != 3 {
			t.Error("the rest of a failed session was kept", s.Pending(), s.LastEvent())
		}
		// A failure that is noticed after the next session has begun leaves that one alone.
		s.Once("a", []byte("1"), 0)
		synctest.Wait()
		s.Down()
		s.Up(2)
		s.Latest("live", []byte("2"))
		w.gate <- errors.New("no session")
		w.gate <- nil
		synctest.Wait()
		if got := w.take(); got != "live=2" {
			t.Error(got)
		}
	})
}
