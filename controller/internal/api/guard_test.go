package api_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/tokens"
)

// TestGuessesAreAnswered: who guesses is told when to try again, to the second, on a connection that ends; he is one
// line in ten seconds in the log; and others are not kept out. What is wrong with a token is said as RFC 6750 has it.
func TestGuessesAreAnswered(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	inBubble(t, apitest.Start(t), api.Config{Log: zap.New(core)}, func(b *bubble) {
		ask := func(from, bearer string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/v1/nodes", nil)
			r.RemoteAddr = from
			if bearer != "" {
				r.Header.Set("Authorization", "Bearer "+bearer)
			}
			w := httptest.NewRecorder()
			b.h.ServeHTTP(w, r)
			return w
		}
		const realm = `Bearer realm="tandem"`
		wrong, refused := apitoken.New().Text(), func(want ...any) {
			t.Helper()
			var counts []any
			for _, line := range logs.TakeAll() {
				counts = append(counts, line.ContextMap()["count"])
			}
			if !slices.Equal(counts, want) {
				t.Errorf("in the log: %v, want %v", counts, want)
			}
		}
		for i := range 12 {
			w := ask("10.0.0.1:1", wrong)
			if got, h := w.Code, w.Header(); i < 10 && (got != 401 || h.Get("Connection") != "" ||
				h.Get("WWW-Authenticate") != realm+`, error="invalid_token"`) || i >= 10 && (got != 429 ||
				h.Get("Retry-After") != "30" || h.Get("Connection") != "close") {
				t.Errorf("try %d: %d %q", i+1, got, h)
			}
			time.Sleep(time.Millisecond) // 29.99 s are half a minute
		}
		refused(int64(1))
		if w := ask("10.0.0.2:1", wrong); w.Code != 401 {
			t.Errorf("somebody else: %d", w.Code)
		}
		for range 20 {
			if w := ask("10.0.0.3:1", ""); w.Code != 401 || w.Header().Get("WWW-Authenticate") != realm {
				t.Errorf("without a token: %d %q", w.Code, w.Header())
			}
		}
		time.Sleep(10 * time.Second)
		ask("10.0.0.2:1", wrong)
		refused(int64(13))
		_, short, err := b.keys.Create(b.t.Context(), "short", tokens.View, time.Minute, nil, "",
			func(tokens.Token) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if w := ask("10.0.0.2:1", short.Text()); w.Code != 401 ||
			w.Header().Get("WWW-Authenticate") != realm+`, error="invalid_token"` {
			t.Errorf("expired: %d %q", w.Code, w.Header())
		}
	})
}

// TestTheSocketIsNotCounted: who comes by it is let in whatever others ask there, and gets the headers of every answer.
func TestTheSocketIsNotCounted(t *testing.T) {
	u := &held{Rig: apitest.StartSample(t), began: make(chan struct{}), let: make(chan struct{})}
	s := serveCore(t, u.Rig, u, api.Config{MaxRequests: 1, MaxPerPeer: 1})
	done := make(chan error)
	go func() {
		res, err := s.client.Get("http://tandem/v1/nodes")
		if err == nil {
			err = res.Body.Close()
		}
		done <- err
	}()
	<-u.began
	h := s.get("/healthz").Header
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" ||
		h.Get("Strict-Transport-Security") != "" {
		t.Errorf("%q", h)
	}
	close(u.let)
	if err := <-done; err != nil {
		t.Error(fmt.Errorf("the one before: %w", err))
	}
}
