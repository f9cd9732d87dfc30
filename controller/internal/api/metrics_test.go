package api_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
	"tandem.internal/controller/internal/tokens"
	"tandem.internal/shared/wire"
)

// asked are the requests that a handler was asked.
type asked struct {
	route  string
	status int
	took   time.Duration
}

func TestMetrics(t *testing.T) {
	u := apitest.StartSample(t)
	var seen []asked
	var fails error
	h := api.New(u, api.Config{Tokens: keys,
		Metrics: func(context.Context) ([]byte, string, error) { return []byte("a 1\n"), "text/plain", fails },
		Answered: func(route string, status int, took time.Duration) {
			seen = append(seen, asked{route, status, took})
		}})
	ask := func(role tokens.Role, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+bearers[role])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, role := range tokens.Roles {
		if w := ask(role, "/metrics"); w.Code != 200 || w.Body.String() != "a 1\n" ||
			w.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%s: %d %s", role, w.Code, w.Body)
		}
	}
	if w := ask("", "/metrics"); w.Code != 401 {
		t.Errorf("without a token: %d", w.Code)
	}
	if w := ask(tokens.Metrics, "/metrics?name=x"); w.Code != 400 {
		t.Errorf("with a parameter: %d", w.Code)
	}
	for path, want := range map[string]int{"/v1/nodes/node-1": 403, "/v1/unit/status": 403, "/": 200} {
		if w := ask(tokens.Metrics, path); w.Code != want {
			t.Errorf("%s with the role metrics: %d", path, w.Code)
		}
	}
	seen = nil
	ask(tokens.View, "/v1/nodes/node-1")
	ask(tokens.View, "/v1/nodes/node-9")
	ask(tokens.View, "/v1/nothing/at/all")
	if len(seen) != 3 || seen[0].route != "GET /v1/nodes/{node}" || seen[0].status != 200 || seen[1].status != 404 ||
		seen[1].route != seen[0].route || seen[2].route != "" || seen[2].status != 404 {
		t.Errorf("%+v", seen)
	}
	for _, a := range seen {
		if a.took < 0 || a.took > time.Minute {
			t.Errorf("%+v", a)
		}
	}
	fails = errors.New("broken")
	if w := ask(tokens.Metrics, "/metrics"); w.Code != 500 || strings.Contains(w.Body.String(), "broken") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestNoLinkForMetrics: a link leads to the dashboard, of which that role sees nothing.
func TestNoLinkForMetrics(t *testing.T) {
	u := apitest.StartSample(t)
	h := api.New(u, api.Config{Tokens: keys})
	w := call(h, "POST", "/v1/tokens", `{"name":"wall-2","role":"metrics","once":true}`)
	if w.Code != 400 || code(t, w.Body.Bytes()) != wire.CodeInvalidArgument {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
