package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/controller/internal/api"
	"tandem.internal/controller/internal/api/apitest"
)

// How a request ended is logged with what the request is about, as every line of a log is.
func TestLinesAboutRequests(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	a := api.New(apitest.StartSample(t), api.Config{Tokens: keys, Log: zap.New(core)})
	for path, want := range map[string][2]any{
		"/v1/nodes/node-1":                      {"node-1", nil},
		"/v1/nodes/node-2/documents/config/why": {"node-2", "config"},
		"/v1/nodes":                             {nil, nil},
		"/v1/nodes/no%0Asuch/why":               {"no\nsuch", nil},
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		a.ServeHTTP(httptest.NewRecorder(), r)
		lines := logs.FilterMessage("request").TakeAll()
		if len(lines) != 1 {
			t.Fatalf("%s: %v", path, logs.All())
		}
		if got := lines[0].ContextMap(); got["node"] != want[0] || got["kind"] != want[1] {
			t.Errorf("%s: %v", path, got)
		}
		logs.TakeAll()
	}
}
