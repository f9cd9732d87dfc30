package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/tokens"
)

// TestProfiles: profiles are had by the unix socket; over TCP nobody gets one, whatever the token.
func TestProfiles(t *testing.T) {
	s := serve(t, api.Config{})
	for path, want := range map[string]string{
		"heap?debug=1": "heap profile:", "goroutine?debug=1": "goroutine profile:", "profile?seconds=1": "\x1f\x8b",
	} {
		body, err := io.ReadAll(s.get("/debug/pprof/" + path).Body)
		if err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("%s: %.40q, %v", path, body, err)
		}
	}
	for _, name := range []string{"cmdline", "symbol", "none"} {
		res, err := s.client.Get("http://tandem/debug/pprof/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s, %v", name, res.Status, err)
		}
	}
	for _, seconds := range []string{"0", "61", "99999", "-1", "x", "1e9"} {
		res, err := s.client.Get("http://tandem/debug/pprof/trace?seconds=" + seconds)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s seconds: %s, %v", seconds, res.Status, err)
		}
	}
	remote := api.New(apitest.StartSample(t), api.Config{Tokens: keys})
	for role, want := range map[tokens.Role]int{
		tokens.View: http.StatusForbidden, tokens.Operate: http.StatusForbidden, tokens.Admin: http.StatusNotFound,
	} {
		r := httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", nil)
		r.Header.Set("Authorization", "Bearer "+bearers[role])
		w := httptest.NewRecorder()
		remote.ServeHTTP(w, r)
		if w.Code != want || strings.Contains(w.Body.String(), "profile:") {
			t.Errorf("over TCP as %s: status %d, want %d, %.80q", role, w.Code, want, w.Body)
		}
	}
}

// TestMeasurementsEndWithTheAPI: one that has begun does not hold up the end.
func TestMeasurementsEndWithTheAPI(t *testing.T) {
	s := serve(t, api.Config{Grace: patience})
	ended := make(chan error, 1)
	go func() {
		res, err := s.client.Get("http://tandem/debug/pprof/trace?seconds=60")
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			err = errors.Join(err, res.Body.Close())
		}
		ended <- err
	}()
	began := time.Now()
	for running := false; !running; {
		body, err := io.ReadAll(s.get("/debug/pprof/goroutine?debug=2").Body)
		if err != nil || time.Since(began) > patience/2 {
			t.Fatalf("the measurement does not begin: %v", err)
		}
		running = strings.Contains(string(body), "net/http/pprof.Trace(")
	}
	if err := errors.Join(s.stop(), <-ended); err != nil || time.Since(began) > patience/2 {
		t.Errorf("ended after %v: %v", time.Since(began), err)
	}
}

// TestProfilesAreCounted: what answers without a word about the status has answered well.
func TestProfilesAreCounted(t *testing.T) {
	answered := make(chan int, 1)
	s := serve(t, api.Config{Answered: func(_ string, status int, _ time.Duration) { answered <- status }})
	if _, err := io.Copy(io.Discard, s.get("/debug/pprof/goroutine").Body); err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-answered:
		if status != 200 {
			t.Errorf("status %d", status)
		}
	default:
		t.Error("nobody is told of it")
	}
}
